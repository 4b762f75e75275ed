// report_plot.h: charts through gnuplot. A set collects the scripts of many charts; one run of gnuplot
// draws them all; each comes back as SVG for a page, its colours turned into names of roles
// (report_page.h), its ids made unique.
#ifndef STEPMARK_REPORT_PLOT_H
#define STEPMARK_REPORT_PLOT_H

#include "status.h"

#include <stdbool.h>
#include <stdio.h>

enum { SM_MAX_PLOTS = 48, SM_CAPTION_SIZE = 512, SM_TITLE_SIZE = 160 };

typedef struct {
    int kind; // the caller's
    char title[SM_TITLE_SIZE];
    char caption[SM_CAPTION_SIZE];
    char *svg; // after sm_plots_draw
} sm_plot;

typedef struct {
    sm_plot plots[SM_MAX_PLOTS];
    int n;
    FILE *script;
    char *script_text;
    size_t script_bytes;
} sm_plots;

sm_status sm_plots_open(sm_plots *plots);
void sm_plots_free(sm_plots *plots);

// Begins a chart `height` high (its width is 520): sets the terminal, the style and the title. The
// caller writes the rest of its script to plots->script. NULL when the set is full.
sm_plot *sm_plots_begin(sm_plots *plots, int kind, int height, const char *title);

// A text between single quotes, in which gnuplot expands nothing.
void sm_plot_text(FILE *script, const char *text);

// "lc rgb ... pt ... dt ..." of series 0, 1, ...; the style alone says which is which, without colour.
void sm_plot_style(FILE *script, int series);

// Draws all. SM_ERR_UNSUPPORTED, with how to install it, where gnuplot is not there.
sm_status sm_plots_draw(sm_plots *plots);

#endif
