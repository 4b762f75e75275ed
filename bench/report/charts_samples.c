// charts_samples.c: charts of raw samples, and of the work against the machine's ceilings.
#include "bench/report/charts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/rows/read_rows.h"
#include "bench/tables/show.h"

enum { MAX_ROOFS = 12, MAX_POINTS = 400 };

static const double one_line_ratio = 1.05; // closer ceilings are drawn as one line

// --- samples ---------------------------------------------------------------------------------

// Rows with two samples or more; the page's script takes the samples from its rows.
static void add_samples(const sm_report_rows *report, sm_figures *figures, json_t *figure) {
    const sm_report_row *rows[SM_MAX_SERIES];
    for (int p = 0; p < sm_chart_n_panels(report); p++) {
        int n;
        json_t *panel = sm_chart_panel_at_batch(report, p, figures, figure, rows, &n);
        for (int i = 0; i < n; i++) {
            if (json_array_size(sm_json_get(rows[i]->json, "samples_ns")) > 1) {
                int series = sm_figure_series(figures, figure, rows[i]->series, rows[i]->colour, rows[i]->style);
                sm_figure_append(figures, panel, "rows", json_pack("[i, i]", series, rows[i]->index));
            }
        }
    }
    sm_figure_close(figures, figure, "rows", 1);
}

void sm_chart_samples(const sm_report_rows *report, sm_figures *figures) {
    json_t *spread = sm_chart_begin(
        figures, SM_CHART_SPREAD, "strips",
        "Raw samples, each as its distance from the median of its row, in the order measured from top to bottom; box: "
        "quartiles. How many lie beyond the right edge is said there.");
    sm_figure_axis(figures, spread, "x", "step time, % from the median", "linear");
    add_samples(report, figures, spread);
    json_t *steps = sm_chart_begin(
        figures, SM_CHART_DISTRIBUTION, "steps",
        "How many of a row's samples took at most that long. A steep line is a steady step; two steps in it are two "
        "modes; a long foot to the right, outliers.");
    sm_figure_axis(figures, steps, "x", "step time, ms", "auto");
    sm_figure_axis(figures, steps, "y", "samples, %", "linear");
    add_samples(report, figures, steps);
}

// --- roofline --------------------------------------------------------------------------------

static bool has_roof(const sm_report_row *row) {
    return row->usable && row->flops > 0 && row->bytes > 0 && row->step_s > 0 && row->peak_flops > 0 &&
           row->peak_bandwidth > 0;
}

// The ceilings of a device, by threads and precision. Rows with the same roof measured it separately: it is drawn with
// their range.
typedef struct {
    char name[SM_SERIES_NAME_SIZE];
    int colour;
    double peak_lo, peak_hi;           // FLOP/s
    double bandwidth_lo, bandwidth_hi; // bytes/s
} roof;

static void name_roof(const sm_report_row *row, const char *device, char *name, size_t size_bytes) {
    char precision[64];
    double threads = sm_json_number(row->json, "n_threads");
    sm_text_precision(row->json, precision, sizeof(precision));
    int used = snprintf(name, size_bytes, "%.100s", device);
    if (threads > 0) {
        used += snprintf(name + used, size_bytes - (size_t)used, " t%.0f", threads);
    }
    snprintf(name + used, size_bytes - (size_t)used, " %s", precision);
}

static void widen(roof *r, const sm_report_row *row) {
    r->peak_lo = fmin(r->peak_lo, row->peak_flops);
    r->peak_hi = fmax(r->peak_hi, row->peak_flops);
    r->bandwidth_lo = fmin(r->bandwidth_lo, row->peak_bandwidth);
    r->bandwidth_hi = fmax(r->bandwidth_hi, row->peak_bandwidth);
}

// Returns the number of all roofs; *n of them are in `roofs`.
static int find_roofs(const sm_report_rows *report, roof roofs[MAX_ROOFS], int *n) {
    int n_left_out = 0;
    *n = 0;
    for (size_t i = 0; i < report->n; i++) {
        const sm_report_row *row = &report->rows[i];
        roof own = {.colour = report->n_devices > 1 ? row->colour : 0, .peak_lo = INFINITY, .bandwidth_lo = INFINITY};
        int k = 0;
        if (!has_roof(row)) {
            continue;
        }
        name_roof(row, report->n_devices > 1 ? row->device : sm_rows_text(row->json, "device"), own.name,
                  sizeof(own.name));
        while (k < *n && strcmp(own.name, roofs[k].name) != 0) {
            k++;
        }
        if (k == MAX_ROOFS) {
            n_left_out++;
            continue;
        }
        if (k == *n) {
            roofs[(*n)++] = own;
        }
        widen(&roofs[k], row);
    }
    return *n + (n_left_out > 0);
}

// "6.6 GB/s to 28.6 GB/s", or "28.6 GB/s" if the difference is too small to draw.
static void range_text(double lo, double hi, const char *unit, char *text, size_t size_bytes) {
    char least[32];
    char most[32];
    sm_text_scaled(lo, unit, least, sizeof(least));
    sm_text_scaled(hi, unit, most, sizeof(most));
    if (hi > lo * one_line_ratio) {
        snprintf(text, size_bytes, "%s to %s", least, most);
    } else {
        snprintf(text, size_bytes, "%s", most);
    }
}

static void add_roof(sm_figures *figures, json_t *figure, json_t *panel, const roof *r, int number) {
    char peak[72];
    char bandwidth[72];
    char title[2 * SM_SERIES_NAME_SIZE];
    range_text(r->peak_lo, r->peak_hi, "FLOP/s", peak, sizeof(peak));
    range_text(r->bandwidth_lo, r->bandwidth_hi, "B/s", bandwidth, sizeof(bandwidth));
    snprintf(title, sizeof(title), "%.150s: %s, %s", r->name, peak, bandwidth);
    bool is_wide = r->peak_hi > r->peak_lo * one_line_ratio || r->bandwidth_hi > r->bandwidth_lo * one_line_ratio;
    int series = sm_figure_series(figures, figure, title, r->colour, number);
    json_t *entry = json_array_get(json_object_get(figure, "series"), (size_t)series);
    sm_figure_set(figures, entry, "is_roof", json_true());
    sm_figure_append(figures, panel, "roofs",
                     json_pack("{s:i, s:f, s:f, s:f, s:f, s:b}", "series", series, "peak_lo", r->peak_lo * 1e-9,
                               "peak_hi", r->peak_hi * 1e-9, "bandwidth_lo", r->bandwidth_lo * 1e-9, "bandwidth_hi",
                               r->bandwidth_hi * 1e-9, "is_wide", is_wide));
}

static void add_roof_points(const sm_report_rows *report, sm_figures *figures, json_t *figure, json_t *panel) {
    int n = 0;
    for (size_t i = 0; i < report->n; i++) {
        const sm_report_row *row = &report->rows[i];
        if (!has_roof(row) || n++ >= MAX_POINTS) {
            continue;
        }
        const char *name = report->n_devices > 1 ? row->device : row->series;
        int series = sm_figure_series(figures, figure, name, row->colour, report->n_devices > 1 ? 0 : row->style);
        json_t *entry = json_array_get(json_object_get(figure, "series"), (size_t)series);
        sm_figure_set(figures, entry, "is_loose", json_true());
        const sm_figure_point point = {row->flops / row->bytes, row->flops / row->step_s * 1e-9, NAN, NAN, row->index};
        sm_figure_add_point(figures, panel, series, &point);
    }
}

void sm_chart_roofline(const sm_report_rows *report, sm_figures *figures) {
    roof roofs[MAX_ROOFS];
    int n_roofs;
    int n_all_roofs = find_roofs(report, roofs, &n_roofs);
    char caption[512];
    if (n_roofs == 0) {
        return;
    }
    snprintf(caption, sizeof(caption),
             "Whole samples under their own measured ceilings. Across: floating-point operations for each byte, if "
             "every operation reads and writes its operands once. Lines: the lower of peak and bandwidth times "
             "intensity, of each device, thread count and precision; where its rows measured it differently, the "
             "highest and (thin) the lowest.%s",
             n_all_roofs > n_roofs ? " Only the first 12 ceilings found a place." : "");
    json_t *figure = sm_chart_begin(figures, SM_CHART_ROOFLINE, "roofline", caption);
    sm_figure_axis(figures, figure, "x", "FLOP per byte", "log");
    sm_figure_axis(figures, figure, "y", "GFLOP/s", "log");
    json_t *panel = sm_figure_panel(figures, figure, "");
    for (int r = 0; r < n_roofs; r++) {
        add_roof(figures, figure, panel, &roofs[r], r);
    }
    add_roof_points(report, figures, figure, panel);
}
