// loops.c: see report/loops.h.
#include "bench/report/loops.h"

#include <math.h>
#include <string.h>

#include "bench/compare/compare_match.h"
#include "bench/compare/noise_verdict.h"
#include "bench/loop/phases.h"
#include "bench/rows/read_rows.h"
#include "bench/tables/show.h"
#include "src/train/phases.h"

enum { TEXT_SIZE = 512, MAX_BARS = 12, MAX_SERIES_PANELS = 6, MOST_POINTS = 200, MAX_FOLDED = 24 };

static bool is_loop(const sm_report_row *row) { return row->usable && sm_json_number(row->json, "loop.wall_ns") > 0; }

bool sm_report_has_loops(const sm_report_rows *report) {
    for (size_t i = 0; i < report->n; i++) {
        if (is_loop(&report->rows[i])) {
            return true;
        }
    }
    return false;
}

// The first loop of the same work, which others are compared with; NULL: this is the first.
static const sm_report_row *baseline_of(const sm_report_rows *report, const sm_report_row *row) {
    for (int i = 0; i < row->index; i++) {
        const sm_report_row *other = &report->rows[i];
        if (is_loop(other) && other->panel_id == row->panel_id &&
            (sm_identity_difference(other->json, row->json) & SM_SAME_WORK) == 0) {
            return other;
        }
    }
    return NULL;
}

// --- phases ------------------------------------------------------------------------------------------

static const struct {
    const char *field;
    const char *name;
} phases[] = {
#define X(code, member, name, text) {"loop." #member "_ns", name},
    SM_STEP_PHASE_LIST(X)
#undef X
};
// Phases that take no time in one of the loops may share a colour.
static const int colours[] = {
    [SM_STEP_READ] = 6,     [SM_STEP_TOKENISE] = 10, [SM_STEP_COLLATE] = 11,     [SM_STEP_WAIT] = 7,
    [SM_STEP_TRANSFER] = 9, [SM_STEP_FORWARD] = 1,   [SM_STEP_BACKWARD] = 2,     [SM_STEP_ALL_REDUCE] = 4,
    [SM_STEP_UNSCALE] = 12, [SM_STEP_UPDATE] = 3,    [SM_STEP_LOSS_SCALER] = 10, [SM_STEP_ZERO_GRAD] = 8,
    [SM_STEP_LAUNCH] = 5,   [SM_STEP_LOG] = 11,      [SM_STEP_UNACCOUNTED] = 0,
};

// "-3.1% (-4.0 to -2.2)" for each phase that took time in either; null: unknown.
static sm_status make_changes(const sm_report_row *row, const sm_report_row *baseline, json_t **changes) {
    json_t *records = NULL;
    *changes = json_array();
    SM_TRY(sm_loop_records(row->json, baseline->json, &records));
    const sm_column *column = &sm_loop_table.columns[sm_table_find(&sm_loop_table, "change_percent")];
    int failed = *changes == NULL;
    for (int k = 0; k < SM_STEP_PHASE_COUNT && !failed; k++) {
        char text[TEXT_SIZE] = "";
        size_t i;
        json_t *record;
        json_array_foreach(records, i, record) {
            if (strcmp(sm_rows_text(record, "phase"), phases[k].name) == 0) {
                column->show(record, column, text, sizeof(text));
            }
        }
        failed = json_array_append_new(*changes, sm_json_text(text));
    }
    json_decref(records);
    return failed ? sm_fail(SM_ERR_OOM, "no memory for a chart") : SM_OK;
}

static sm_status add_bar(const sm_report_rows *report, const sm_report_row *row, sm_figures *figures, json_t *panel) {
    const sm_report_row *baseline = baseline_of(report, row);
    char text[TEXT_SIZE] = "";
    json_t *parts = json_array();
    for (int k = 0; k < SM_STEP_PHASE_COUNT; k++) {
        const double ms = sm_json_number(row->json, phases[k].field) * 1e-6;
        figures->failed |= json_array_append_new(parts, json_real(ms > 0 && ms < 1e12 ? ms : 0)) != 0;
    }
    if (baseline != NULL) {
        snprintf(text, sizeof(text), "%.3g times row %d", baseline->step_s / row->step_s, baseline->index + 1);
    } else {
        snprintf(text, sizeof(text), "baseline");
    }
    json_t *bar = json_pack("{s:o, s:i, s:o, s:o, s:s, s:i}", "name", sm_json_bytes(row->series), "colour", row->colour,
                            "parts", parts, "mark", sm_json_real(row->step_s * 1e3), "text", text, "row", row->index);
    sm_figure_append(figures, panel, "bars", bar);
    if (baseline != NULL) {
        json_t *changes = NULL;
        SM_TRY(make_changes(row, baseline, &changes));
        sm_figure_set(figures, bar, "changes", changes);
    }
    return SM_OK;
}

static sm_status add_phases(const sm_report_rows *report, sm_figures *figures) {
    json_t *figure =
        sm_figure_add(figures, "stacks", "loop-phases", "Where a training step's time goes, loop included",
                      "Exclusive phases of an instrumented step, mean of the middle half of such steps; the line is "
                      "the undisturbed step. The first loop of a work is the baseline: next to each other loop, how "
                      "many times as fast it is, and in the hint the change of each phase with its 95% interval.");
    json_t *x = sm_figure_axis(figures, figure, "x", "ms", "linear");
    sm_figure_set(figures, x, "unit", json_string("ms"));
    sm_figure_set(figures, figure, "mark_name", json_string("undisturbed step"));
    for (int k = 0; k < SM_STEP_PHASE_COUNT; k++) {
        sm_figure_series(figures, figure, phases[k].name, colours[k], 0);
    }
    int n_panels = 0;
    for (int p = 0; p < report->n_panels && n_panels < SM_MAX_PANELS; p++) {
        json_t *panel = NULL;
        int n = 0;
        for (size_t i = 0; i < report->n && n < MAX_BARS; i++) {
            if (is_loop(&report->rows[i]) && report->rows[i].panel_id == report->panels[p].id) {
                panel = panel != NULL ? panel : sm_figure_panel(figures, figure, report->panels[p].name);
                SM_TRY(add_bar(report, &report->rows[i], figures, panel));
                n++;
            }
        }
        n_panels += n > 0;
    }
    sm_figure_close(figures, figure, "bars", 1);
    return SM_OK;
}

// --- over time ----------------------------------------------------------------------------------------

enum { IN_BYTES = 0 }; // the largest value determines the unit

typedef struct {
    const char *field; // of utilisation
    const char *name;
    int colour;
    double scale;
} line;

typedef struct {
    const char *id, *title, *label, *caption;
    line lines[2];
} time_chart;

static const time_chart time_charts[] = {
    {"utilisation",
     "Utilisation over time",
     "busy, %",
     "Every 100 ms or more: all processors together, and the GPU. From the dashed line on: the headline, without "
     "clocks in "
     "its steps; before it the warm-up.",
     {{"utilisation.cpu", "processors", 1, 100}, {"utilisation.gpu", "GPU", 2, 100}}},
    {"memory-time",
     "Memory while it was measured",
     "",
     "Resident memory of the process, and allocated memory of the GPU.",
     {{"utilisation.rss_bytes", "process", 1, IN_BYTES}, {"utilisation.gpu_memory_bytes", "GPU", 2, IN_BYTES}}},
    {"power-time", "Power over time", "W", "As the GPU tells it.", {{"utilisation.power_w", "GPU", 2, 1}}},
};

// Means of as many neighbours as needed.
static void add_line(const json_t *row, int index, const line *l, double scale, sm_figures *figures, json_t *figure,
                     json_t *panel) {
    const json_t *values = l->field != NULL ? sm_json_get(row, l->field) : NULL;
    const double interval_s = sm_json_number(row, "utilisation.interval_ms") * 1e-3;
    const size_t n = json_array_size(values);
    const size_t step = (n + MOST_POINTS - 1) / MOST_POINTS;
    for (size_t i = 0; i + step <= n && interval_s > 0 && step > 0; i += step) {
        double sum = 0;
        for (size_t k = i; k < i + step; k++) {
            const json_t *value = json_array_get(values, k);
            sum += json_is_number(value) ? json_number_value(value) : NAN;
        }
        const sm_figure_point point = {((double)i + 0.5 * (double)step) * interval_s, sum / (double)step * scale, NAN,
                                       NAN, index};
        if (isfinite(point.y)) {
            sm_figure_add_point(figures, panel, sm_figure_series(figures, figure, l->name, l->colour, 0), &point);
        }
    }
}

static double largest_of(const json_t *row, const char *field) {
    const json_t *values = sm_json_get(row, field);
    double largest = 0;
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *value = json_array_get(values, i);
        largest = fmax(largest, json_is_number(value) ? json_number_value(value) : 0);
    }
    return largest;
}

static double most_bytes(const sm_report_rows *report) {
    double most = 0;
    for (size_t i = 0; i < report->n; i++) {
        most = fmax(most, is_loop(&report->rows[i]) ? largest_of(report->rows[i].json, "utilisation.rss_bytes") : 0);
        most = fmax(most,
                    is_loop(&report->rows[i]) ? largest_of(report->rows[i].json, "utilisation.gpu_memory_bytes") : 0);
    }
    return most;
}

static void add_over_time(const sm_report_rows *report, const time_chart *chart, sm_figures *figures) {
    const char *unit = "";
    const double unit_bytes = sm_figure_byte_unit(most_bytes(report), &unit);
    json_t *figure = sm_figure_add(figures, "lines", chart->id, chart->title, chart->caption);
    sm_figure_axis(figures, figure, "x", "seconds", "linear");
    json_t *y = sm_figure_axis(figures, figure, "y", chart->label[0] != '\0' ? chart->label : unit, "linear");
    sm_figure_set(figures, y, "from_zero", json_true());
    sm_figure_set(figures, figure, "is_dense", json_true());
    int n = 0;
    for (size_t i = 0; i < report->n && n < MAX_SERIES_PANELS; i++) {
        const sm_report_row *row = &report->rows[i];
        if (is_loop(row)) {
            char title[TEXT_SIZE];
            const double begin_s = sm_json_number(row->json, "utilisation.n_warmup") *
                                   sm_json_number(row->json, "utilisation.interval_ms") * 1e-3;
            snprintf(title, sizeof(title), "row %d: %s", row->index + 1, row->series);
            json_t *panel = sm_figure_panel(figures, figure, title);
            for (int k = 0; k < 2; k++) {
                const double scale = chart->lines[k].scale;
                add_line(row->json, row->index, &chart->lines[k], scale != IN_BYTES ? scale : 1 / unit_bytes, figures,
                         figure, panel);
            }
            sm_figure_set(figures, panel, "begin", sm_json_real(begin_s));
            n++;
        }
    }
    sm_figure_close(figures, figure, "series", 2);
}

// --- memory over a step ---------------------------------------------------------------------------------

// Each op from its beginning to its end, in addition to what outlives a step.
static void add_memory_lines(const sm_report_row *row, double unit_bytes, sm_figures *figures, json_t *figure,
                             json_t *panel) {
    const json_t *ends = sm_json_get(row->json, "loop.memory.end_ns");
    const json_t *alive = sm_json_get(row->json, "loop.memory.alive_bytes");
    const double held_bytes = sm_json_number(row->json, "loop.memory.held_bytes");
    const size_t n = json_array_size(ends) < json_array_size(alive) ? json_array_size(ends) : json_array_size(alive);
    double begin_ms = 0;
    for (size_t i = 0; i < n && i < MOST_POINTS; i++) {
        const double end_ms = json_number_value(json_array_get(ends, i)) * 1e-6;
        const double bytes = json_number_value(json_array_get(alive, i));
        for (int edge = 0; edge < 2; edge++) {
            const double at_ms = edge == 0 ? begin_ms : end_ms;
            sm_figure_add_point(figures, panel,
                                sm_figure_series(figures, figure, "activations and scratch on top", 1, 0),
                                &(sm_figure_point){at_ms, (held_bytes + bytes) / unit_bytes, NAN, NAN, row->index});
            sm_figure_add_point(figures, panel,
                                sm_figure_series(figures, figure, "weights, gradients, optimizer's state", 3, 0),
                                &(sm_figure_point){at_ms, held_bytes / unit_bytes, NAN, NAN, row->index});
        }
        begin_ms = end_ms;
    }
    sm_figure_set(figures, panel, "begin", sm_json_real(sm_json_number(row->json, "loop.memory.backward_ns") * 1e-6));
}

static void add_memory_of_step(const sm_report_rows *report, sm_figures *figures) {
    const char *unit = "";
    double most_bytes = 0;
    for (size_t i = 0; i < report->n; i++) {
        if (is_loop(&report->rows[i])) {
            most_bytes = fmax(most_bytes, sm_json_number(report->rows[i].json, "loop.memory.held_bytes") +
                                              largest_of(report->rows[i].json, "loop.memory.alive_bytes"));
        }
    }
    const double unit_bytes = sm_figure_byte_unit(most_bytes, &unit);
    json_t *figure = sm_figure_add(figures, "lines", "memory-step", "Memory over a step",
                                   "Data on the device while each op runs, by the planner, ops laid end to end; over "
                                   "several micro-batches the times of an op are added. The backward begins at the "
                                   "dashed line. Memory of libraries and kernels is not included.");
    sm_figure_axis(figures, figure, "x", "ms", "linear");
    json_t *y = sm_figure_axis(figures, figure, "y", unit, "linear");
    sm_figure_set(figures, y, "from_zero", json_true());
    sm_figure_set(figures, figure, "is_dense", json_true());
    int n = 0;
    for (size_t i = 0; i < report->n && n < MAX_SERIES_PANELS; i++) {
        if (is_loop(&report->rows[i])) {
            char title[TEXT_SIZE];
            snprintf(title, sizeof(title), "row %d: %s", report->rows[i].index + 1, report->rows[i].series);
            add_memory_lines(&report->rows[i], unit_bytes, figures, figure, sm_figure_panel(figures, figure, title));
            n++;
        }
    }
    sm_figure_close(figures, figure, "series", 2);
}

sm_status sm_report_loop_figures(const sm_report_rows *report, sm_figures *figures) {
    SM_TRY(add_phases(report, figures));
    add_memory_of_step(report, figures);
    for (size_t k = 0; k < sizeof(time_charts) / sizeof(time_charts[0]); k++) {
        add_over_time(report, &time_charts[k], figures);
    }
    return SM_OK;
}

// --- tables --------------------------------------------------------------------------------------------

static void write_verdict(sm_doc *doc, const sm_report_row *row) {
    char text[TEXT_SIZE];
    char doubt[SM_DOUBT_SIZE];
    const bool is_doubted = sm_doubt_row(row->json, doubt);
    sm_doc_row_begin(doc);
    sm_doc_cell(doc, "%d", row->index + 1);
    sm_doc_cell(doc, "%s, %s", row->panel, row->series);
    sm_doc_cell(doc, "%s", sm_rows_text(row->json, "loop.loader"));
    sm_text_count(row->tokens_per_s, text, sizeof(text));
    sm_doc_cell(doc, "%s", text);
    sm_text_ms(row->step_s * 1e9, text, sizeof(text));
    sm_doc_cell(doc, "%s", text);
    sm_text_ms(sm_json_number(row->json, "loop.headline_wait_ns"), text, sizeof(text));
    sm_doc_cell(doc, "%s", text);
    sm_doc_cell(doc, "%s", is_doubted ? "no verdict" : sm_rows_text(row->json, "loop.bound"));
    sm_doc_number(doc, is_doubted ? NAN : 100 * sm_json_number(row->json, "loop.bound_share"), 1, "%");
    sm_text_count(is_doubted ? NAN : round(sm_json_number(row->json, "loop.ceiling_ts")), text, sizeof(text));
    sm_doc_cell(doc, "%s", text);
    sm_doc_row_end(doc);
}

static sm_status write_phases(sm_doc *doc, const sm_report_rows *report, const sm_report_row *row) {
    char title[TEXT_SIZE];
    char id[32];
    json_t *records = NULL;
    const sm_report_row *baseline = baseline_of(report, row);
    SM_TRY(sm_loop_records(row->json, baseline != NULL ? baseline->json : NULL, &records));
    if (baseline != NULL) {
        snprintf(title, sizeof(title), "Phases of row %d, against row %d", row->index + 1, baseline->index + 1);
    } else {
        snprintf(title, sizeof(title), "Phases of row %d", row->index + 1);
    }
    snprintf(id, sizeof(id), "phases-%d", row->index + 1);
    sm_doc_folded_begin(doc, title);
    sm_status status = sm_doc_records(doc, id, &sm_loop_table, records);
    sm_doc_folded_end(doc);
    json_decref(records);
    return status;
}

sm_status sm_report_loop_tables(sm_doc *doc, const sm_report_rows *report) {
    int n = 0;
    sm_doc_table_begin(doc,
                       "#row|configuration|loader|#tokens/s|#step ms|#of it waiting for data, ms|bound by|#share of a "
                       "step|#tokens/s without it");
    for (size_t i = 0; i < report->n; i++) {
        if (is_loop(&report->rows[i])) {
            write_verdict(doc, &report->rows[i]);
        }
    }
    sm_doc_table_end(doc);
    sm_doc_items_begin(doc);
    for (size_t i = 0; i < report->n; i++) {
        char doubt[SM_DOUBT_SIZE];
        if (is_loop(&report->rows[i]) && sm_doubt_row(report->rows[i].json, doubt)) {
            sm_doc_item(doc, "row %zu: No verdict: %s.", i + 1, doubt);
        } else if (is_loop(&report->rows[i])) {
            sm_doc_item(doc, "row %zu: %s", i + 1, sm_rows_text(report->rows[i].json, "loop.verdict"));
        }
    }
    sm_doc_items_end(doc);
    for (size_t i = 0; i < report->n && doc->html; i++) {
        if (is_loop(&report->rows[i]) && n++ < MAX_FOLDED) {
            SM_TRY(write_phases(doc, report, &report->rows[i]));
        }
    }
    return SM_OK;
}
