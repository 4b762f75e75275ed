// report_charts_samples.c: charts of raw samples, and of the work against the machine's ceilings.
#include "report_charts.h"

#include "read_rows.h"
#include "show.h"
#include "stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DOTS = 200, MAX_ROOFS = 6 };

static const double one_line_ratio = 1.05; // ceilings closer than that are one line

// Samples in seconds with their statistics; nothing where a row has none.
typedef struct {
    const sm_report_row *row;
    double *values;
    size_t n;
    sm_stats stats;
} sampled;

typedef struct {
    sampled rows[SM_MAX_SERIES];
    int n;
} samples;

static void free_samples(samples *found) {
    for (int i = 0; i < found->n; i++) {
        free(found->rows[i].values);
    }
    found->n = 0;
}

// Appends the row where it has two samples or more.
static sm_status add_samples(const sm_report_row *row, samples *found) {
    sampled *s = &found->rows[found->n++];
    *s = (sampled){.row = row};
    SM_TRY(sm_rows_samples(row->json, "samples_ns", &s->values, &s->n));
    if (s->n > 1) {
        return sm_stats_compute_real(s->values, (int64_t)s->n, &s->stats);
    }
    free(s->values);
    found->n--;
    return SM_OK;
}

static sm_status find_samples(const sm_report_rows *report, const char *panel, samples *found) {
    const sm_report_row *rows[SM_MAX_SERIES];
    int n = sm_chart_rows_at_batch(report, panel, rows);
    sm_status status = SM_OK;
    found->n = 0;
    for (int i = 0; i < n; i++) {
        SM_TRY_GOTO(add_samples(rows[i], found));
    }
    return SM_OK;
cleanup:
    free_samples(found);
    return status;
}

static sm_plot *begin(sm_plots *plots, sm_chart kind, const char *panel, const sm_report_row *row, int height) {
    char title[SM_TITLE_SIZE];
    char batch[SM_SERIES_NAME_SIZE];
    sm_report_batch(row, batch, sizeof(batch));
    snprintf(title, sizeof(title), "%.110s, %.40s", panel, batch);
    return sm_plots_begin(plots, kind, height, title);
}

// --- spread --------------------------------------------------------------------------------------

static double from_median(const sampled *s, double value) { return 100 * (value / s->stats.median - 1); }

static void write_dots(FILE *script, const sampled *s, int i) {
    size_t step = (s->n + MAX_DOTS - 1) / MAX_DOTS;
    fprintf(script, "$d%d << EOD\n", i);
    for (size_t k = 0; k < s->n; k += step) { // dots are spread over the bar's height, in the order measured
        fprintf(script, "%.6g %.4g\n", from_median(s, s->values[k]), i - 0.3 + 0.6 * (double)k / (double)s->n);
    }
    fputs("EOD\n", script);
}

// How far out the picture reaches: all quartiles and most samples; what lies beyond is counted.
static void reach(const sampled *found, int n, double *lo, double *hi, size_t *n_beyond) {
    *lo = -1;
    *hi = 1;
    *n_beyond = 0;
    for (int i = 0; i < n; i++) {
        double width = fmax(6 * from_median(&found[i], found[i].stats.q3), 3);
        *lo = fmin(*lo, from_median(&found[i], found[i].stats.min) * 1.05);
        *hi = fmax(*hi, fmin(from_median(&found[i], found[i].stats.max) * 1.05, width));
    }
    for (int i = 0; i < n; i++) {
        for (size_t k = 0; k < found[i].n; k++) {
            *n_beyond += from_median(&found[i], found[i].values[k]) > *hi;
        }
    }
}

static void write_spread(const sampled *found, int n, const char *panel, sm_plots *plots) {
    double lo;
    double hi;
    size_t n_beyond;
    FILE *script = plots->script;
    sm_plot *plot = n > 0 ? begin(plots, SM_CHART_SPREAD, panel, found[0].row, 160 + 42 * n) : NULL;
    if (plot == NULL) {
        return;
    }
    reach(found, n, &lo, &hi, &n_beyond);
    snprintf(plot->caption, sizeof(plot->caption),
             "Raw samples, each as its distance from the median of its row, in the order measured from top to bottom; "
             "box: quartiles. Samples beyond the right edge: %zu.",
             n_beyond);
    fputs("$q << EOD\n", script);
    for (int i = 0; i < n; i++) {
        fprintf(script, "%d %.6g %.6g\n", i, from_median(&found[i], found[i].stats.q1),
                from_median(&found[i], found[i].stats.q3));
    }
    fputs("EOD\n", script);
    for (int i = 0; i < n; i++) {
        write_dots(script, &found[i], i);
    }
    fputs("set ytics (", script);
    for (int i = 0; i < n; i++) {
        char label[64];
        snprintf(label, sizeof(label), "%.30s, %.4g ms", found[i].row->series, found[i].stats.median * 1e-6);
        fputs(i > 0 ? ", " : "", script);
        sm_plot_text(script, label);
        fprintf(script, " %d", i);
    }
    fprintf(script,
            ")\nset ytics scale 0\nset yrange [%g:-0.6]\nset xrange [%.6g:%.6g]\nset xlabel 'step time, %% from the "
            "median'\nunset key\n"
            "set style fill solid 0.3 noborder\n"
            "plot $q using 2:1:2:3:($1-0.36):($1+0.36) with boxxyerror lc rgb '#0a0008'",
            n - 0.4, lo, hi);
    for (int i = 0; i < n; i++) {
        fprintf(script, ", $d%d using 1:2 with points pt 7 ps 0.4 lc rgb '#0a00%02x'", i, i + 1);
    }
    fputc('\n', script);
}

sm_status sm_chart_spread(const sm_report_rows *report, const char *panel, sm_plots *plots) {
    samples found;
    SM_TRY(find_samples(report, panel, &found));
    write_spread(found.rows, found.n, panel, plots);
    free_samples(&found);
    return SM_OK;
}

// --- distribution --------------------------------------------------------------------------------

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void write_steps(FILE *script, sampled *s, int i) {
    size_t step = (s->n + MAX_DOTS - 1) / MAX_DOTS;
    qsort(s->values, s->n, sizeof(*s->values), compare_doubles);
    fprintf(script, "$e%d << EOD\n%.9g 0\n", i, s->values[0] * 1e-6);
    for (size_t k = 0; k < s->n; k += step) {
        fprintf(script, "%.9g %.6g\n", s->values[k] * 1e-6, 100 * (double)(k + 1) / (double)s->n);
    }
    fprintf(script, "%.9g 100\nEOD\n", s->values[s->n - 1] * 1e-6);
}

static void write_distribution(sampled *found, int n, const char *panel, sm_plots *plots) {
    FILE *script = plots->script;
    double lo = INFINITY;
    double hi = 0;
    sm_plot *plot = n > 0 ? begin(plots, SM_CHART_DISTRIBUTION, panel, found[0].row, 300 + 19 * n) : NULL;
    if (plot == NULL) {
        return;
    }
    snprintf(
        plot->caption, sizeof(plot->caption),
        "How many of a row's samples took at most that long. A steep line is a steady step; two steps in it are two "
        "modes; a long foot to the right, outliers.");
    for (int i = 0; i < n; i++) {
        write_steps(script, &found[i], i);
        lo = fmin(lo, found[i].stats.min);
        hi = fmax(hi, found[i].stats.max);
    }
    fprintf(script, "%sset xlabel 'step time, ms'\nset ylabel 'samples, %%'\nset yrange [0:102]\nplot ",
            hi > 8 * lo ? "set logscale x\n" : "");
    for (int i = 0; i < n; i++) {
        fprintf(script, "%s$e%d using 1:2 with steps lw 1.4", i > 0 ? ", " : "", i);
        sm_plot_style(script, i);
        fputs(" title ", script);
        sm_plot_text(script, found[i].row->series);
    }
    fputc('\n', script);
}

sm_status sm_chart_distribution(const sm_report_rows *report, const char *panel, sm_plots *plots) {
    samples found;
    SM_TRY(find_samples(report, panel, &found));
    write_distribution(found.rows, found.n, panel, plots);
    free_samples(&found);
    return SM_OK;
}

// --- roofline ------------------------------------------------------------------------------------

static bool has_roof(const sm_report_row *row) {
    return row->usable && row->flops > 0 && row->bytes > 0 && row->step_s > 0 && row->peak_flops > 0 &&
           row->peak_bandwidth > 0;
}

static const char *series_with_roof(const sm_report_row *row) { return has_roof(row) ? row->series : NULL; }

// The ceilings of a device, by threads and precision: each has its own. Rows that share a roof measured it each for
// itself: it is drawn as far as they differ.
typedef struct {
    char name[SM_SERIES_NAME_SIZE];
    double peak_lo, peak_hi;           // FLOP/s
    double bandwidth_lo, bandwidth_hi; // bytes/s
} roof;

static void name_roof(const sm_report_row *row, char *name, size_t size_bytes) {
    char precision[64];
    double threads = sm_json_number(row->json, "n_threads");
    sm_text_precision(row->json, precision, sizeof(precision));
    int used = snprintf(name, size_bytes, "%.60s", sm_rows_text(row->json, "device"));
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

// How many there are in all is returned; *n of them are in `roofs`.
static int find_roofs(const sm_report_rows *report, roof roofs[MAX_ROOFS], int *n) {
    int n_left_out = 0;
    *n = 0;
    for (size_t i = 0; i < report->n; i++) {
        const sm_report_row *row = &report->rows[i];
        roof own = {.peak_lo = INFINITY, .bandwidth_lo = INFINITY};
        int k = 0;
        if (!has_roof(row)) {
            continue;
        }
        name_roof(row, own.name, sizeof(own.name));
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

// "6.6 to 28.6", or "28.6" where they differ by less than is drawn.
static void range_text(double lo, double hi, char *text, size_t size_bytes) {
    if (hi > lo * one_line_ratio) {
        snprintf(text, size_bytes, "%.3g to %.4g", lo * 1e-9, hi * 1e-9);
    } else {
        snprintf(text, size_bytes, "%.4g", hi * 1e-9);
    }
}

static void write_roof(FILE *script, const roof *r, int number) {
    char peak[64];
    char bandwidth[64];
    char title[2 * SM_SERIES_NAME_SIZE];
    range_text(r->peak_lo, r->peak_hi, peak, sizeof(peak));
    range_text(r->bandwidth_lo, r->bandwidth_hi, bandwidth, sizeof(bandwidth));
    snprintf(title, sizeof(title), "%.150s: %s GFLOP/s, %s GB/s", r->name, peak, bandwidth);
    const double ends[2][2] = {{r->peak_hi * 1e-9, r->bandwidth_hi * 1e-9},
                               {r->peak_lo * 1e-9, r->bandwidth_lo * 1e-9}};
    bool is_wide = r->peak_hi > r->peak_lo * one_line_ratio || r->bandwidth_hi > r->bandwidth_lo * one_line_ratio;
    for (int i = 0; i < 1 + is_wide; i++) { // the highest that was measured, and the lowest, thinner
        fprintf(script, "%.9g < %.9g*x ? %.9g : %.9g*x with lines lw %s dt %d lc rgb '#010101' ", ends[i][0],
                ends[i][1], ends[i][0], ends[i][1], i == 0 ? "1.6" : "0.7", number + 1);
        if (i == 0) {
            fputs("title ", script);
            sm_plot_text(script, title);
        } else {
            fputs("notitle", script);
        }
        fputs(", ", script);
    }
}

static void write_roof_points(FILE *script, const sm_report_rows *report, const sm_names *series, double *lo,
                              double *hi) {
    for (int k = 0; k < series->n; k++) {
        fprintf(script, "$r%d << EOD\n", k);
        for (size_t i = 0; i < report->n; i++) {
            const sm_report_row *row = &report->rows[i];
            if (has_roof(row) && strcmp(row->series, series->names[k]) == 0) {
                double x = row->flops / row->bytes;
                fprintf(script, "%.6g %.6g\n", x, row->flops / row->step_s * 1e-9);
                *lo = fmin(*lo, x);
                *hi = fmax(*hi, x);
            }
        }
        fputs("EOD\n", script);
    }
}

void sm_chart_roofline(const sm_report_rows *report, sm_plots *plots) {
    sm_names series;
    roof roofs[MAX_ROOFS];
    int n_roofs;
    double lo = INFINITY;
    double hi = 0;
    FILE *script = plots->script;
    int n_series = sm_report_names(report, series_with_roof, SM_MAX_SERIES, &series);
    int n_all_roofs = find_roofs(report, roofs, &n_roofs);
    sm_plot *plot = n_roofs > 0 ? sm_plots_begin(plots, SM_CHART_ROOFLINE, 320 + 19 * (series.n + n_roofs),
                                                 "whole samples under their own measured ceilings")
                                : NULL;
    if (plot == NULL) {
        return;
    }
    snprintf(
        plot->caption, sizeof(plot->caption),
        "Across: floating-point operations for each byte, if every operation reads and writes its operands once. "
        "Up: what was reached. Lines: the lower of peak and bandwidth times intensity, of each device, thread count "
        "and precision; where its rows measured it differently, the highest and (thin) the lowest.%s%s",
        n_series > series.n ? " Only the first 8 configurations found a place." : "",
        n_all_roofs > n_roofs ? " Only the first 6 ceilings found a place." : "");
    write_roof_points(script, report, &series, &lo, &hi);
    for (int r = 0; r < n_roofs; r++) {
        lo = fmin(lo, roofs[r].peak_lo / roofs[r].bandwidth_hi);
        hi = fmax(hi, roofs[r].peak_hi / roofs[r].bandwidth_lo);
    }
    fprintf(script,
            "set logscale xy\nset xrange [%.6g:%.6g]\nset xlabel 'FLOP per byte'\nset ylabel 'GFLOP/s'\n"
            "set format y '%%g'\nset samples 200\nplot ",
            lo / 3, hi * 3);
    for (int r = 0; r < n_roofs; r++) {
        write_roof(script, &roofs[r], r);
    }
    for (int k = 0; k < series.n; k++) {
        fprintf(script, "%s$r%d using 1:2 with points", k > 0 ? ", " : "", k);
        sm_plot_style(script, k);
        fputs(" title ", script);
        sm_plot_text(script, series.names[k]);
    }
    fputc('\n', script);
}
