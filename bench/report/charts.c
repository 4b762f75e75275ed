// charts.c: charts of rows next to one another, against the batch, and of where time goes; and functions shared with
// charts_samples.c.
#include "bench/report/charts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/compare/compare_match.h"
#include "bench/rows/read_rows.h"
#include "bench/stats/compare_stats.h"
#include "bench/tables/show.h"

enum { MOST_COMPARED = 500, TEXT_SIZE = 512 }; // samples a side: the work grows with their product

// --- what each chart is --------------------------------------------------------------------------

static const struct {
    const char *id;
    const char *heading;
    const char *missing;
} charts[] = {
#define X(code, id, heading, missing) {id, heading, missing},
    SM_CHART_LIST(X)
#undef X
};

const char *sm_chart_id(sm_chart chart) { return charts[chart].id; }
const char *sm_chart_missing(sm_chart chart) { return charts[chart].missing; }

json_t *sm_chart_begin(sm_figures *figures, sm_chart chart, const char *kind, const char *caption) {
    return sm_figure_add(figures, kind, charts[chart].id, charts[chart].heading, caption);
}

int sm_chart_n_panels(const sm_report_rows *report) {
    return report->n_panels < SM_MAX_PANELS ? report->n_panels : SM_MAX_PANELS;
}

json_t *sm_chart_panel_at_batch(const sm_report_rows *report, int p, sm_figures *figures, json_t *figure,
                                const sm_report_row *rows[SM_MAX_SERIES], int *n) {
    char title[2 * SM_SERIES_NAME_SIZE];
    char batch[SM_SERIES_NAME_SIZE];
    *n = sm_report_at_batch(report, report->panels[p].id, rows);
    sm_report_batch(rows[0], batch, sizeof(batch));
    snprintf(title, sizeof(title), "%s, %s", report->panels[p].name, batch);
    return sm_figure_panel(figures, figure, title);
}

// --- side by side ----------------------------------------------------------------------------------

static json_t *interval_point(sm_figures *figures, json_t *figure, const sm_report_row *row, bool by_device) {
    char mode[SM_SERIES_NAME_SIZE];
    char precision[SM_SERIES_NAME_SIZE];
    char batch[SM_SERIES_NAME_SIZE];
    char text[3 * SM_SERIES_NAME_SIZE + 4];
    const char *name = by_device ? row->device : row->series;
    sm_text_mode(row->json, mode, sizeof(mode));
    sm_text_precision(row->json, precision, sizeof(precision));
    sm_report_batch(row, batch, sizeof(batch));
    if (by_device) {
        snprintf(text, sizeof(text), "%s %s, %s", mode, precision, batch);
    } else {
        snprintf(text, sizeof(text), "%s", batch);
    }
    int series = sm_figure_series(figures, figure, name, row->colour, 0);
    return json_pack("{s:o, s:i, s:o, s:o, s:o, s:i, s:o}", "name", sm_json_bytes(name), "series", series, "x",
                     sm_json_real(row->tokens_per_s), "lo", sm_json_real(row->tokens_lo), "hi",
                     sm_json_real(row->tokens_hi), "row", row->index, "text", sm_json_bytes(text));
}

static void add_side_by_side(const sm_report_rows *report, sm_figures *figures) {
    const sm_report_row *rows[SM_MAX_SERIES];
    bool by_device = report->n_devices > 1;
    json_t *figure = sm_chart_begin(
        figures, SM_CHART_SIDE_BY_SIDE, "intervals",
        by_device ? "The fastest row of each device, at the batch and mode that suit it; bars: 95% interval of the "
                    "median, or the quartiles where there are too few samples."
                  : "The fastest row of each configuration; bars: 95% interval of the median, or the quartiles where "
                    "there are too few samples.");
    sm_figure_axis(figures, figure, "x", "tokens per second", "auto");
    for (int p = 0; p < sm_chart_n_panels(report); p++) {
        int n;
        json_t *panel = sm_figure_panel(figures, figure, report->panels[p].name);
        sm_report_best(report, report->panels[p].id, by_device, rows, &n);
        for (int i = 0; i < n; i++) {
            sm_figure_append(figures, panel, "points", interval_point(figures, figure, rows[i], by_device));
        }
    }
    sm_figure_close(figures, figure, "points", 2);
}

// --- lines against the batch -----------------------------------------------------------------------

// A row's value in a chart: y with its interval. y NaN: none. `baseline` is the panel's.
typedef sm_status (*value_of)(const sm_report_rows *report, const sm_report_row *row, int baseline, double *y,
                              double *lo, double *hi);

typedef struct {
    sm_chart kind;
    const char *y_label;
    const char *caption;
    value_of value;
    double level; // a horizontal line; NaN: none
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

// The unit of all panels.
static double memory_unit(const sm_report_rows *report, const char **unit) {
    double largest = 0;
    for (size_t i = 0; i < report->n; i++) {
        largest = fmax(largest, report->rows[i].memory_bytes);
    }
    return sm_figure_byte_unit(largest, unit);
}

static sm_status memory(const sm_report_rows *report, const sm_report_row *row, int baseline, double *y, double *lo,
                        double *hi) {
    const char *unit;
    (void)baseline;
    *y = row->memory_bytes > 0 ? row->memory_bytes / memory_unit(report, &unit) : NAN;
    *lo = *y;
    *hi = *y;
    return SM_OK;
}

// --- the matched baseline --------------------------------------------------------------------

static const struct {
    sm_identity factor;
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

// The row to compare `row` with: the same work, different in only one factor, which has its base value.
static const sm_report_row *find_baseline(const sm_report_rows *report, const sm_report_row *row, int b) {
    for (size_t i = 0; i < report->n && row->usable && !is_baseline(row->json, b); i++) {
        const sm_report_row *other = &report->rows[i];
        if (other->batch != row->batch || !other->usable || other->panel_id != row->panel_id ||
            !is_baseline(other->json, b)) {
            continue;
        }
        if (sm_identity_difference(other->json, row->json) == SM_PART(baselines[b].factor)) {
            return other;
        }
    }
    return NULL;
}

// The first factor with a baseline, used for the whole panel; N_BASELINES: none.
static int find_baseline_of_panel(const sm_report_rows *report, int panel_id) {
    for (int b = 0; b < N_BASELINES; b++) {
        for (size_t i = 0; i < report->n; i++) {
            const sm_report_row *row = &report->rows[i];
            if (row->panel_id == panel_id && find_baseline(report, row, b) != NULL) {
                return b;
            }
        }
    }
    return N_BASELINES;
}

// The interval of the difference between two rows' samples; with too few or too many, `lo` and `hi` do not change.
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
        *lo = fmin(*lo, exp(-d.hi));
        *hi = fmax(*hi, exp(-d.lo));
    }
cleanup:
    free(a);
    free(b);
    return status;
}

static sm_status speedup(const sm_report_rows *report, const sm_report_row *row, int baseline, double *y, double *lo,
                         double *hi) {
    const sm_report_row *base = baseline < N_BASELINES ? find_baseline(report, row, baseline) : NULL;
    *y = base != NULL ? base->step_s / row->step_s : NAN;
    *lo = *y;
    *hi = *y;
    return base != NULL ? speedup_interval(base->json, row->json, lo, hi) : SM_OK;
}

static const line_chart line_charts[] = {
    {SM_CHART_THROUGHPUT, "tokens per second",
     "Median of the samples; bars: its 95% interval, or the quartiles where there are too few samples.", throughput,
     NAN},
    {SM_CHART_MEMORY, "peak memory, ",
     "Peak resident memory of the process, or the bytes allocated on a device with memory of its own. Crosses: out of "
     "memory.",
     memory, NAN},
    {SM_CHART_SPEEDUP, "times the baseline's tokens per second",
     "Each point against the row of the same batch, length and model that differs in one thing only: mode naive; in a "
     "picture without it precision fp32, else one thread, else the cpu. Bars: 95% interval of the ratio, from the "
     "samples.",
     speedup, 1},
};

// --- writing them ----------------------------------------------------------------------------

static int by_batch(const void *a, const void *b) {
    const sm_report_row *x = *(const sm_report_row *const *)a;
    const sm_report_row *y = *(const sm_report_row *const *)b;
    return x->batch != y->batch ? (x->batch > y->batch) - (x->batch < y->batch) : x->index - y->index;
}

// The panel's rows with a known batch, by batch; the caller frees them.
static sm_status sorted_rows(const sm_report_rows *report, int panel_id, const sm_report_row ***rows, size_t *n) {
    *rows = malloc((report->n + 1) * sizeof(**rows));
    *n = 0;
    if (*rows == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a chart");
    }
    for (size_t i = 0; i < report->n; i++) {
        const sm_report_row *row = &report->rows[i];
        if (row->batch > 0 && row->panel_id == panel_id) {
            (*rows)[(*n)++] = row;
        }
    }
    qsort(*rows, *n, sizeof(**rows), by_batch);
    return SM_OK;
}

static bool is_chosen(const sm_report_row *row, const sm_report_row *const *best, int n_best) {
    for (int k = 0; k < n_best; k++) {
        if (best[k]->series_id == row->series_id) {
            return true;
        }
    }
    return false;
}

static sm_status add_lines_of_panel(const sm_report_rows *report, int panel_id, const line_chart *chart,
                                    sm_figures *figures, json_t *figure, json_t *panel) {
    const sm_report_row *best[SM_MAX_SERIES];
    const sm_report_row **rows = NULL;
    size_t n_rows = 0;
    sm_status status = SM_OK;
    SM_TRY(sorted_rows(report, panel_id, &rows, &n_rows));
    int n_best = sm_report_chosen(report, panel_id, best);
    int baseline = chart->kind == SM_CHART_SPEEDUP ? find_baseline_of_panel(report, panel_id) : N_BASELINES;
    for (size_t i = 0; i < n_rows; i++) {
        sm_figure_point point = {.x = rows[i]->batch, .row = rows[i]->index};
        if (chart->kind == SM_CHART_MEMORY && strcmp(rows[i]->status, "oom") == 0) {
            sm_figure_append(figures, panel, "crosses", json_pack("[f, i]", rows[i]->batch, rows[i]->index));
        }
        if (rows[i]->usable && is_chosen(rows[i], best, n_best)) {
            SM_TRY_GOTO(chart->value(report, rows[i], baseline, &point.y, &point.lo, &point.hi));
            if (isfinite(point.y)) {
                int series = sm_figure_series(figures, figure, rows[i]->series, rows[i]->colour, rows[i]->style);
                sm_figure_add_point(figures, panel, series, &point);
            }
        }
    }
cleanup:
    free(rows);
    return status;
}

static sm_status add_line_chart(const sm_report_rows *report, const line_chart *chart, sm_figures *figures) {
    json_t *figure = sm_chart_begin(figures, chart->kind, "lines", chart->caption);
    sm_figure_axis(figures, figure, "x", "batch, sequences", "log2");
    const char *unit = "";
    char label[64];
    if (chart->kind == SM_CHART_MEMORY) {
        memory_unit(report, &unit);
    }
    snprintf(label, sizeof(label), "%s%s", chart->y_label, unit);
    json_t *y = sm_figure_axis(figures, figure, "y", label, "auto");
    sm_figure_set(figures, y, "from_zero", json_true());
    sm_figure_set(figures, y, "level", sm_json_real(chart->level));
    for (int p = 0; p < sm_chart_n_panels(report); p++) {
        json_t *panel = sm_figure_panel(figures, figure, report->panels[p].name);
        SM_TRY(add_lines_of_panel(report, report->panels[p].id, chart, figures, figure, panel));
    }
    sm_figure_close(figures, figure, "series", 2);
    return SM_OK;
}

// --- where time goes -----------------------------------------------------------------------------

static double or_zero(double value) { return isfinite(value) ? value : 0; }

// A bar's parts, and the label next to it.
typedef struct {
    const char *field; // of the row, in ns
    const char *name;
    int colour;
} part;

static const part step_parts[] = {
    {"phases.zero_grad_ns", "zero gradients", 8}, {"phases.forward_ns", "forward", 1},
    {"phases.backward_ns", "backward", 2},        {"phases.optimizer_ns", "optimizer", 3},
    {"phases.scaler_ns", "loss scaler", 4},       {"phases.unaccounted_ns", "unaccounted", 5},
};

static const part start_parts[] = {
    {"open_ns", "open the device", 6},  {"build_ns", "build the plan", 1}, {"tune_ns", "tune kernels", 4},
    {"first_step_ns", "first step", 2}, {"warmup_ns", "warm-up steps", 3},
};

typedef struct {
    sm_chart kind;
    const char *unit;
    double per_ns;
    const char *caption;
    const part *parts;
    int n_parts;
    const char *mark_field; // NULL: none
    const char *mark_name;
} stack_chart;

#define PARTS(array) array, sizeof(array) / sizeof((array)[0])
static const stack_chart stack_charts[] = {
    {SM_CHART_PHASES, "ms", 1e-6,
     "Parts of one step of the attribution pass, which times each op; the line is the median of the plain samples.",
     PARTS(step_parts), "median_ns", "plain step"},
    {SM_CHART_WARMUP, "s", 1e-9,
     "Time of a process before its steady state, part by part, without measuring the ceilings and checking the loss.",
     PARTS(start_parts), NULL, NULL},
};

// Returns the sum of its parts.
static double add_bar(const stack_chart *chart, const sm_report_row *row, sm_figures *figures, json_t *panel) {
    double sum = 0;
    char text[SM_SERIES_NAME_SIZE] = "";
    json_t *parts = json_array();
    for (int k = 0; k < chart->n_parts; k++) {
        double value = or_zero(sm_json_number(row->json, chart->parts[k].field)) * chart->per_ns;
        value = value >= 0 && value < 1e15 ? value : 0;
        sum += value;
        figures->failed |= json_array_append_new(parts, json_real(value)) != 0;
    }
    if (chart->mark_field == NULL) {
        char step[64];
        sm_text_ms(row->step_s * 1e9, step, sizeof(step));
        snprintf(text, sizeof(text), "step %s ms", step);
    }
    double mark = chart->mark_field != NULL ? sm_json_number(row->json, chart->mark_field) * chart->per_ns : NAN;
    json_t *bar = json_pack("{s:o, s:i, s:o, s:o, s:s, s:i}", "name", sm_json_bytes(row->series), "colour", row->colour,
                            "parts", parts, "mark", sm_json_real(mark), "text", text, "row", row->index);
    if (sum > 0) {
        sm_figure_append(figures, panel, "bars", bar);
    } else {
        json_decref(bar);
    }
    return sum;
}

static void add_stack_chart(const sm_report_rows *report, const stack_chart *chart, sm_figures *figures) {
    const sm_report_row *rows[SM_MAX_SERIES];
    json_t *figure = sm_chart_begin(figures, chart->kind, "stacks", chart->caption);
    json_t *x = sm_figure_axis(figures, figure, "x", chart->unit, "linear");
    sm_figure_set(figures, x, "unit", json_string(chart->unit));
    if (chart->mark_name != NULL) {
        sm_figure_set(figures, figure, "mark_name", json_string(chart->mark_name));
    }
    for (int k = 0; k < chart->n_parts; k++) {
        sm_figure_series(figures, figure, chart->parts[k].name, chart->parts[k].colour, 0);
    }
    for (int p = 0; p < sm_chart_n_panels(report); p++) {
        int n;
        json_t *panel = sm_chart_panel_at_batch(report, p, figures, figure, rows, &n);
        for (int i = 0; i < n; i++) {
            add_bar(chart, rows[i], figures, panel);
        }
    }
    sm_figure_close(figures, figure, "bars", 1);
}

// --- all -----------------------------------------------------------------------------------------

sm_status sm_report_charts(const sm_report_rows *report, sm_figures *figures) {
    add_side_by_side(report, figures);
    for (size_t c = 0; c < sizeof(line_charts) / sizeof(line_charts[0]); c++) {
        SM_TRY(add_line_chart(report, &line_charts[c], figures));
    }
    add_stack_chart(report, &stack_charts[0], figures);
    return SM_OK;
}

void sm_chart_start(const sm_report_rows *report, sm_figures *figures) {
    add_stack_chart(report, &stack_charts[1], figures);
}
