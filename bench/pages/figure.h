// figure.h: the figures of a page as data, which pages/chart.js draws. A figure has axes, series (a legend) and
// panels side by side that share them; a point may name its row, by index.
//
//   kind        a panel holds
//   lines       series: [{series, points: [[x, y, lo, hi, row]]}]; crosses: [[x, row]]; ideal: [[x, y]]
//   roofline    likewise, and roofs: [{series, peak_lo, peak_hi, bandwidth_lo, bandwidth_hi, is_wide}]
//   intervals   points: [{name, series, x, lo, hi, row, text}]
//   stacks      bars: [{name, colour, parts: [one a series], mark, text, row}]
//   strips      rows: [[series, row]]: the samples are the rows' own
//   steps       likewise
//
// Values that are not finite are null. A failed allocation is remembered: sm_figures_write() tells.
#ifndef STEPMARK_BENCH_PAGES_FIGURE_H
#define STEPMARK_BENCH_PAGES_FIGURE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "status.h"

enum { SM_NO_ROW = -1, SM_NO_COLOUR = 0 }; // colours: 1 to 12, and on from 1

typedef struct {
    json_t *list; // array
    bool failed;
} sm_figures;

sm_status sm_figures_open(sm_figures *figures);
void sm_figures_free(sm_figures *figures);

// As page data under "figures".
sm_status sm_figures_write(const sm_figures *figures, FILE *out);

// Appends a figure without panels; borrowed. `caption` says what a reader must know.
json_t *sm_figure_add(sm_figures *figures, const char *kind, const char *id, const char *title, const char *caption);

// `axis`: "x" or "y". `scale`: "linear", "log2", or "auto" (by decades where the values span them).
json_t *sm_figure_axis(sm_figures *figures, json_t *figure, const char *axis, const char *label, const char *scale);

json_t *sm_figure_panel(sm_figures *figures, json_t *figure, const char *title);

// Its number: of the series of that name, which is added where there is none.
int sm_figure_series(sm_figures *figures, json_t *figure, const char *name, int colour, int style);

// A point of a panel of lines.
typedef struct {
    double x, y, lo, hi;
    int row;
} sm_figure_point;

void sm_figure_add_point(sm_figures *figures, json_t *panel, int series, const sm_figure_point *point);

// Takes `value` over, also when it fails.
void sm_figure_set(sm_figures *figures, json_t *object, const char *name, json_t *value);
void sm_figure_append(sm_figures *figures, json_t *object, const char *array, json_t *value); // the array is made

// Takes panels back that have nothing in `array` ("series", "points", "bars", "rows"), and the figure without panels.
void sm_figure_close(sm_figures *figures, json_t *figure, const char *array, size_t fewest);

// Bytes of the unit in which the largest of some sizes is read best: "MiB", "GiB".
double sm_figure_byte_unit(double largest_bytes, const char **unit);

#endif
