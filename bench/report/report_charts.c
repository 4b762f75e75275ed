// report_charts.c: charts against the batch, and the bars of the warm-up.
#include "report_charts.h"

#include "compare_match.h"
#include "compare_stats.h"
#include "read_rows.h"
#include "show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COMPARED = 500 }; // samples a side: the work grows with their product

static const double gib = 1024.0 * 1024.0 * 1024.0;

static const char *const headings[] = {
#define X(code, heading, missing) heading,
    SM_CHART_LIST(X)
#undef X
};

static const char *const missing_texts[] = {
#define X(code, heading, missing) missing,
    SM_CHART_LIST(X)
#undef X
};

const char *sm_chart_heading(sm_chart chart) { return headings[chart]; }
const char *sm_chart_missing(sm_chart chart) { return missing_texts[chart]; }

// --- lines against the batch -----------------------------------------------------------------

// What a row puts into a chart: y with its interval. y NaN: nothing. `baseline` is the panel's.
typedef sm_status (*value_of)(const sm_report_rows *report, const sm_report_row *row, int baseline, double *y,
                              double *lo, double *hi);

typedef struct {
    sm_chart kind;
    const char *y_label;
    const char *caption;
    value_of value;
    bool from_zero;
} line_chart;

static sm_status throughput(const sm_report_rows *report, const sm_report_row *row, int baseline, double *y, double *lo,
                            double *hi) {
    (void)baseline;
    (void)report;
    *y = row->tokens_per_s;
    *lo = isfinite(row->tokens_lo) ? row->tokens_lo : *y;
    *hi = isfinite(row->tokens_hi) ? row->tokens_hi : *y;
    return SM_OK;
}

static sm_status memory(const sm_report_rows *report, const sm_report_row *row, int baseline, double *y, double *lo,
                        double *hi) {
    (void)baseline;
    (void)report;
    *y = row->memory_bytes > 0 ? row->memory_bytes / gib : NAN;
    *lo = *y;
    *hi = *y;
    return SM_OK;
}

// --- the matched baseline --------------------------------------------------------------------

static const struct {
    sm_factor factor;
    const char *field;
    const char *values[2]; // either is a baseline
} baselines[] = {
    {SM_FACTOR_MODE, "mode", {"naive", "eager"}},
    {SM_FACTOR_PRECISION, "precision", {"fp32", "float32"}},
    {SM_FACTOR_THREADS, "n_threads", {"1", "1"}},
    {SM_FACTOR_DEVICE, "backend_used", {"cpu", "reference"}},
};
enum { N_BASELINES = sizeof(baselines) / sizeof(baselines[0]) };

static bool is_baseline(const json_t *row, int b) {
    double number = sm_json_number(row, baselines[b].field);
    if (isfinite(number)) {
        return number == atof(baselines[b].values[0]);
    }
    const char *value = sm_rows_text(row, baselines[b].field);
    return strcmp(value, baselines[b].values[0]) == 0 || strcmp(value, baselines[b].values[1]) == 0;
}

// The row that `row` may be held against: the same work, different in one factor only, and of that
// factor's base value.
static const sm_report_row *find_baseline(const sm_report_rows *report, const sm_report_row *row, int b) {
    for (size_t i = 0; i < report->n && row->usable && !is_baseline(row->json, b); i++) {
        const sm_report_row *other = &report->rows[i];
        if (other->batch != row->batch || !other->usable || strcmp(other->panel, row->panel) != 0 ||
            !is_baseline(other->json, b)) {
            continue;
        }
        if (sm_work_distance(other->json, row->json) == 0 &&
            sm_factor_difference(other->json, row->json) == 1u << baselines[b].factor) {
            return other;
        }
    }
    return NULL;
}

// The first factor for which there is a baseline counts for the whole panel; N_BASELINES: none.
static int find_baseline_of_panel(const sm_report_rows *report, const char *panel) {
    for (int b = 0; b < N_BASELINES; b++) {
        for (size_t i = 0; i < report->n; i++) {
            const sm_report_row *row = &report->rows[i];
            if (strcmp(row->panel, panel) == 0 && find_baseline(report, row, b) != NULL) {
                return b;
            }
        }
    }
    return N_BASELINES;
}

// The interval of the difference between two rows' samples; where there are too few or too many, `lo` and `hi` stay.
static sm_status speedup_interval(const json_t *base, const json_t *row, double *lo, double *hi) {
    sm_difference d = {.has_interval = false};
    double *a = NULL;
    double *b = NULL;
    size_t n_a = 0;
    size_t n_b = 0;
    sm_status status = SM_OK;
    SM_TRY_GOTO(sm_rows_samples(base, "samples_ns", &a, &n_a));
    SM_TRY_GOTO(sm_rows_samples(row, "samples_ns", &b, &n_b));
    if (n_a > 0 && n_b > 0 && n_a < MOST_COMPARED && n_b < MOST_COMPARED) {
        SM_TRY_GOTO(sm_compare_unpaired(a, n_a, b, n_b, 0.05, &d));
    }
    if (d.has_interval) {
        *lo = fmin(*lo, 100 * expm1(-d.hi));
        *hi = fmax(*hi, 100 * expm1(-d.lo));
    }
cleanup:
    free(a);
    free(b);
    return status;
}

static sm_status speedup(const sm_report_rows *report, const sm_report_row *row, int baseline, double *y, double *lo,
                         double *hi) {
    const sm_report_row *base = baseline < N_BASELINES ? find_baseline(report, row, baseline) : NULL;
    *y = base != NULL ? 100 * (base->step_s / row->step_s - 1) : NAN;
    *lo = *y;
    *hi = *y;
    return base != NULL ? speedup_interval(base->json, row->json, lo, hi) : SM_OK;
}

static const line_chart line_charts[] = {
    {SM_CHART_THROUGHPUT, "tokens per second",
     "Median of the samples; bars: its 95% interval, or the quartiles where there are too few samples.", throughput,
     true},
    {SM_CHART_MEMORY, "peak memory, GiB",
     "Peak resident memory of the process, or what is allocated on a device with memory of its own.", memory, true},
    {SM_CHART_SPEEDUP, "speed-up, % tokens per second",
     "Each point against the row of the same batch, length and model that differs in one thing only: mode naive; in a "
     "picture without it precision fp32, else one thread, else the cpu. Bars: 95% interval of the difference, from the "
     "samples.",
     speedup, false},
};

// --- writing them ----------------------------------------------------------------------------

static int by_batch(const void *a, const void *b) {
    const sm_report_row *x = *(const sm_report_row *const *)a;
    const sm_report_row *y = *(const sm_report_row *const *)b;
    return x->batch != y->batch ? (x->batch > y->batch) - (x->batch < y->batch) : (x > y) - (x < y);
}

// The panel's rows, by batch; the caller frees them.
static sm_status sorted_rows(const sm_report_rows *report, const char *panel, const sm_report_row ***rows, size_t *n) {
    *rows = malloc((report->n + 1) * sizeof(**rows));
    *n = 0;
    if (*rows == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a chart");
    }
    for (size_t i = 0; i < report->n; i++) {
        const sm_report_row *row = &report->rows[i];
        if (row->batch > 0 && strcmp(row->panel, panel) == 0) {
            (*rows)[(*n)++] = row;
        }
    }
    qsort(*rows, *n, sizeof(**rows), by_batch);
    return SM_OK;
}

static sm_status write_series(FILE *script, const sm_report_rows *report, const sm_report_row **rows, size_t n,
                              const char *series, int number, const line_chart *chart, int baseline, size_t *n_points) {
    fprintf(script, "$s%d << EOD\n", number);
    for (size_t i = 0; i < n; i++) {
        double y;
        double lo;
        double hi;
        if (!rows[i]->usable || strcmp(rows[i]->series, series) != 0) {
            continue;
        }
        SM_TRY(chart->value(report, rows[i], baseline, &y, &lo, &hi));
        if (isfinite(y)) {
            fprintf(script, "%.9g %.9g %.9g %.9g\n", rows[i]->batch, y, lo, hi);
            (*n_points)++;
        }
    }
    fputs("EOD\n", script);
    return SM_OK;
}

// Batches that did not fit: a cross at the top.
static size_t write_oom(FILE *script, const sm_report_row **rows, size_t n) {
    size_t n_points = 0;
    fputs("$oom << EOD\n", script);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(rows[i]->status, "oom") == 0) {
            fprintf(script, "%.9g 0\n", rows[i]->batch);
            n_points++;
        }
    }
    fputs("EOD\n", script);
    return n_points;
}

static void write_batch_axis(FILE *script, const sm_report_row **rows, size_t n) {
    double lo = rows[0]->batch;
    double hi = rows[n - 1]->batch;
    double last = 0;
    fputs("set xlabel 'batch, sequences'\nset xtics (", script);
    for (size_t i = 0; i < n; i++) {
        if (rows[i]->batch > last * (hi > 4 * lo ? 1.3 : 1.0)) {
            fprintf(script, "%s'%.0f' %.9g", last > 0 ? ", " : "", rows[i]->batch, rows[i]->batch);
            last = rows[i]->batch;
        }
    }
    fputs(")\n", script);
    if (hi > 4 * lo) {
        fprintf(script, "set logscale x 2\nset xrange [%.9g:%.9g]\n", lo / 1.3, hi * 1.3);
    } else {
        fprintf(script, "set xrange [%.9g:%.9g]\n", lo - 0.5, hi + 0.5);
    }
}

static void write_lines(FILE *script, const sm_names *series, const size_t n_points[], size_t n_oom) {
    const char *before = "plot ";
    for (int k = 0; k < series->n; k++) {
        if (n_points[k] > 0) {
            fprintf(script, "%s$s%d using 1:2:3:4 with yerrorlines", before, k);
            sm_plot_style(script, k);
            fputs(" title ", script);
            sm_plot_text(script, series->names[k]);
            before = ", ";
        }
    }
    if (n_oom > 0) {
        fprintf(script, "%s$oom using 1:2 with points pt 2 ps 1.2 lc rgb '#030303' title 'out of memory'", before);
    }
    fputc('\n', script);
}

// Where the series have nothing to show, the chart is taken back: its script draws nothing.
static sm_status add_line_chart(const sm_report_rows *report, const char *panel, const line_chart *chart,
                                sm_plots *plots) {
    sm_names series;
    const sm_report_row **rows = NULL;
    size_t n_rows = 0;
    size_t n_points[SM_MAX_SERIES] = {0};
    size_t n_all = 0;
    sm_status status = SM_OK;
    SM_TRY(sorted_rows(report, panel, &rows, &n_rows));
    int n_series = sm_report_series(report, panel, &series);
    int baseline = chart->kind == SM_CHART_SPEEDUP ? find_baseline_of_panel(report, panel) : N_BASELINES;
    FILE *script = plots->script;
    for (int k = 0; k < series.n; k++) {
        SM_TRY_GOTO(write_series(script, report, rows, n_rows, series.names[k], k, chart, baseline, &n_points[k]));
        n_all += n_points[k];
    }
    size_t n_oom = chart->kind == SM_CHART_MEMORY ? write_oom(script, rows, n_rows) : 0;
    sm_plot *plot = n_all > 0 ? sm_plots_begin(plots, chart->kind, 330 + 19 * series.n, panel) : NULL;
    if (plot != NULL) {
        snprintf(plot->caption, sizeof(plot->caption), "%s%s", chart->caption,
                 n_series > series.n ? " Only the first 8 lines found a place." : "");
        write_batch_axis(script, rows, n_rows);
        fprintf(script, "set ylabel '%s'\nset format y '%%.7g'\n%s", chart->y_label,
                chart->from_zero ? "set yrange [0:*]\n"
                                 : "set yrange [*<0:0<*]\nset xzeroaxis lt 1 lc rgb '#010101'\n");
        write_lines(script, &series, n_points, n_oom);
    }
cleanup:
    free(rows);
    return status;
}

// --- warm-up -----------------------------------------------------------------------------------

int sm_chart_rows_at_batch(const sm_report_rows *report, const char *panel, const sm_report_row **rows) {
    sm_names series;
    int best = 0;
    double best_batch = NAN;
    sm_report_series(report, panel, &series);
    for (size_t i = 0; i < report->n; i++) {
        const sm_report_row *row = &report->rows[i];
        const sm_report_row *found[SM_MAX_SERIES] = {NULL};
        int n = 0;
        if (!row->usable || strcmp(row->panel, panel) != 0 || row->batch == best_batch) {
            continue;
        }
        for (int k = 0; k < series.n; k++) {
            for (size_t j = 0; j < report->n && found[k] == NULL; j++) {
                const sm_report_row *other = &report->rows[j];
                bool same_batch = other->batch == row->batch || (isnan(other->batch) && isnan(row->batch));
                bool fits = same_batch && other->usable && strcmp(other->panel, panel) == 0 &&
                            strcmp(other->series, series.names[k]) == 0;
                found[k] = fits ? other : NULL;
            }
            if (found[k] != NULL) {
                found[n++] = found[k];
            }
        }
        if (n > best || (n == best && row->batch > best_batch)) {
            best = n;
            best_batch = row->batch;
            memcpy(rows, found, (size_t)n * sizeof(rows[0]));
        }
    }
    return best;
}

static double or_zero(double value) { return isfinite(value) ? value : 0; }

// A distance between ticks that cuts `range` into at most five: 1, 2 or 5 times a power of ten.
static double tick_distance(double range) {
    double power = pow(10, floor(log10(range / 5)));
    double digits = range / 5 / power;
    return power * (digits <= 1 ? 1 : digits <= 2 ? 2 : digits <= 5 ? 5 : 10);
}

// Horizontal bars, one a configuration, in four parts; the step time as a line, on the upper axis.
static void add_warmup(const sm_report_rows *report, const char *panel, sm_plots *plots) {
    static const char *const parts[] = {"open device, build plan", "tune kernels", "first step", "warm-up steps"};
    const sm_report_row *rows[SM_MAX_SERIES];
    char title[SM_TITLE_SIZE];
    FILE *script = plots->script;
    double n_all = 0;
    double slowest_ms = 0;
    double longest_s = 0;
    int n = sm_chart_rows_at_batch(report, panel, rows);
    for (int i = 0; i < n; i++) {
        double start_s = or_zero(rows[i]->open_s) + or_zero(rows[i]->build_s) + or_zero(rows[i]->first_step_s);
        n_all += start_s;
        longest_s = fmax(longest_s, start_s + or_zero(rows[i]->tune_s) + or_zero(rows[i]->warmup_s));
        slowest_ms = fmax(slowest_ms, rows[i]->step_s * 1e3);
    }
    if (!(n_all > 0)) {
        return;
    }
    char batch[SM_SERIES_NAME_SIZE];
    sm_report_batch(rows[0], batch, sizeof(batch));
    snprintf(title, sizeof(title), "%.110s, %.40s", panel, batch);
    const int key_height = 19 * 5; // its lines lie below the picture, from the left edge on
    const int height = 190 + 30 * n + key_height;
    sm_plot *plot = sm_plots_begin(plots, SM_CHART_WARMUP, height, title);
    if (plot == NULL) {
        return;
    }
    snprintf(plot->caption, sizeof(plot->caption),
             "What a process pays before its steady state, part by part (lower axis), and the steady step time (upper "
             "axis). Measuring the device's ceilings and checking the loss are not in it.");
    fputs("$w << EOD\n", script);
    for (int i = 0; i < n; i++) {
        double build = or_zero(rows[i]->open_s) + or_zero(rows[i]->build_s);
        double tune = build + or_zero(rows[i]->tune_s);
        double first = tune + or_zero(rows[i]->first_step_s);
        fprintf(script, "%d 0 %.9g %.9g %.9g %.9g %.9g\n", i, build, tune, first, first + or_zero(rows[i]->warmup_s),
                rows[i]->step_s * 1e3);
    }
    fputs("EOD\nset ytics (", script);
    for (int i = 0; i < n; i++) {
        char label[40];
        snprintf(label, sizeof(label), "%.34s", rows[i]->series);
        fputs(i > 0 ? ", " : "", script);
        sm_plot_text(script, label);
        fprintf(script, " %d", i);
    }
    fprintf(script,
            ")\nset border 7\nset ytics scale 0\nset yrange [%g:-0.6]\nset xrange [0:%.6g]\nset xtics %.6g\n"
            "set x2range [0:%.6g]\nset x2tics %.6g\nset xlabel 'seconds'\nset x2label 'step time, ms'\n"
            "set bmargin at screen %.4f\nset key at screen 0.02, screen 0.02 left bottom maxrows 5 maxcols 1\n"
            "set title offset screen -0.17,0\nplot ",
            n - 0.4, longest_s * 1.1, tick_distance(longest_s * 2.2), slowest_ms * 1.1, tick_distance(slowest_ms * 2.2),
            (key_height + 50.0) / height);
    for (int k = 0; k < 4; k++) {
        fprintf(script, "$w using %d:1:%d:%d:($1-0.33):($1+0.33) with boxxyerror lc rgb '#0a00%02x' title '%s', ",
                k + 2, k + 2, k + 3, k + 1, parts[k]);
    }
    fputs("$w using 7:1 axes x2y1 with linespoints pt 7 lc rgb '#010101' dt (3,3) title 'step time, ms'\n", script);
}

sm_status sm_report_charts(const sm_report_rows *report, sm_plots *plots) {
    sm_names panels;
    sm_report_panels(report, &panels);
    for (int p = 0; p < panels.n; p++) {
        for (size_t c = 0; c < sizeof(line_charts) / sizeof(line_charts[0]); c++) {
            SM_TRY(add_line_chart(report, panels.names[p], &line_charts[c], plots));
        }
        add_warmup(report, panels.names[p], plots);
        SM_TRY(sm_chart_spread(report, panels.names[p], plots));
        SM_TRY(sm_chart_distribution(report, panels.names[p], plots));
    }
    sm_chart_roofline(report, plots);
    return SM_OK;
}
