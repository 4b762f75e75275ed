// scaling_table.c: rows of a scaling table as records, their display, and the page.
#include "bench/runs/scaling.h"
#include "bench/pages/page.h"
#include "bench/rows/read_rows.h"
#include "bench/tables/show.h"

#include <math.h>

// "1.94 ± 0.02"
static void show_speedup(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const double speedup = sm_json_number(record, column->name);
    const double half = sm_json_number(record, "speedup_half");
    text[0] = '\0';
    if (isfinite(speedup)) {
        snprintf(text, size_bytes, half > 0 ? "%.2f ± %.2f" : "%.2f", speedup, half);
    }
}

static void show_rate(const json_t *record, SM_UNUSED const sm_column *column, char *text, size_t size_bytes) {
    double rate = sm_json_number(record, "tokens_per_s");
    double half = sm_json_number(record, "tokens_half_per_s");
    sm_text_count(rate, text, size_bytes);
    sm_append_spread(100 * half / rate, text, size_bytes);
}

static void show_s_as_ms(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    sm_text_ms(1e9 * sm_json_number(record, column->name), text, size_bytes);
}

// "published: V100"
static void show_kind(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const char *on = sm_rows_text(record, "on");
    snprintf(text, size_bytes, "%s%s%s", sm_rows_text(record, column->name), on[0] != '\0' ? ": " : "", on);
}

// Ten blocks are an efficiency of 1.
static void show_bar(const json_t *record, SM_UNUSED const sm_column *column, char *text, size_t size_bytes) {
    double n = round(10 * sm_json_number(record, "efficiency"));
    const bool is_predicted = strcmp(json_string_value(json_object_get(record, "kind")), "predicted") == 0;
    text[0] = '\0';
    for (size_t used = 0; n >= 1 && used < 15 * 3 && used + 4 < size_bytes; n--, used += 3) {
        memcpy(text + used, is_predicted ? "░" : "█", 4);
    }
}

static const sm_column columns[] = {
    SM_TEXT("scaling", "strong or weak", .heading = "scaling", .view = SM_SHOWN_WHEN_VARIED),
    SM_INTEGER("n_processes", "", "processes", .heading = "processes", .rank = SM_RANK_ALWAYS, .show = sm_show_count),
    SM_TEXT("kind", "measured, predicted by the model, or published", .heading = "kind", .rank = SM_RANK_ALWAYS,
            .show = show_kind),
    SM_TEXT("on", "of a published run: its devices"),
    SM_INTEGER("n_nodes", "", "hosts", .heading = "hosts", .view = SM_SHOWN_WHEN_VARIED, .rank = 6),
    SM_INTEGER("n_runs", "", "runs that the figures are means of", .heading = "runs", .view = SM_SHOWN_WHEN_VARIED,
               .rank = 1),
    SM_INTEGER("global_batch", "sequences", "sequences a step", .heading = "global batch", .view = SM_SHOWN_WHEN_VARIED,
               .rank = 4, .show = sm_show_count),
    SM_INTEGER("steps", "", "optimizer steps", .heading = "steps", .view = SM_SHOWN_WHEN_VARIED, .rank = 2,
               .show = sm_show_count),
    SM_INTEGER("tokens", "", "tokens of all processes", .heading = "tokens", .view = SM_SHOWN_WHEN_VARIED, .rank = 1,
               .show = sm_show_count),
    SM_REAL("step_s", "s", "mean time of a step", .heading = "step ms", .rank = 2, .show = show_s_as_ms),
    SM_REAL("tokens_per_s", "1/s", "tokens / timed seconds", .heading = "tokens/s", .rank = 8, .show = show_rate),
    SM_REAL("timed_s", "s", "time of all steps", .heading = "timed s", .rank = 3, .show = sm_show_real),
    SM_REAL("wall_s", "s", "with start-up, validation, checkpoints and the rest", .heading = "wall s", .rank = 3,
            .show = sm_show_real),
    SM_REAL("speedup", "", "tokens/s over those of the fewest processes", .heading = "speed-up", .rank = 8,
            .show = show_speedup),
    SM_REAL("efficiency", "", "speed-up / processes", .heading = "efficiency", .rank = 8, .format = "%.2f"),
    SM_TEXT("bar", "efficiency, drawn", .heading = "of 1.00", .rank = 5, .show = show_bar),
    SM_REAL("comm_share", "fraction", "of a step: communication that nothing hid", .heading = "exposed comm.",
            .rank = 6, .show = sm_show_percent),
    SM_REAL("model_s", "s", "the model's time of a step", .heading = "model ms", .show = show_s_as_ms),
    SM_REAL("step_half_s", "s", "half of the 95% interval of step_s"),
    SM_REAL("tokens_half_per_s", "1/s", "half of the 95% interval of tokens_per_s"),
    SM_REAL("speedup_half", "", "half of the 95% interval of speedup"),
    SM_REAL("comm_s", "s", "of a step: communication that nothing hid"),
    SM_REAL("model_serial_s", "s", "the model's part of every process"),
    SM_REAL("model_compute_s", "s", "the model's part of the sequences"),
    SM_REAL("model_comm_s", "s", "the model's part of exposed communication"),
};

const sm_table sm_scaling_table = {"scaling", columns, (int)SM_COUNT(columns)};

static json_t *whole(double value) { return isfinite(value) ? json_integer((json_int_t)llround(value)) : json_null(); }

static json_t *record_of(const sm_scaling_row *r) {
    return sm_json_put(
        json_object(), {"scaling", json_string(r->work == SM_WORK_FIXED ? "strong" : "weak")},
        {"kind", json_string(r->is_predicted ? "predicted" : "measured")}, {"n_processes", whole(r->n_processes)},
        {"n_nodes", whole(r->n_nodes)}, {"n_runs", whole(r->n_runs)}, {"global_batch", whole(r->global_batch)},
        {"steps", whole(r->steps)}, {"tokens", whole(r->tokens)}, {"step_s", sm_json_real(r->step_s)},
        {"step_half_s", sm_json_real(r->step_half_s)}, {"tokens_per_s", sm_json_real(r->tokens_per_s)},
        {"tokens_half_per_s", sm_json_real(r->tokens_half_per_s)}, {"timed_s", sm_json_real(r->timed_s)},
        {"wall_s", sm_json_real(r->wall_s)}, {"speedup", sm_json_real(r->speedup)},
        {"speedup_half", sm_json_real(r->speedup_half)}, {"efficiency", sm_json_real(r->efficiency)},
        {"comm_s", sm_json_real(r->comm_s)}, {"comm_share", sm_json_real(r->comm_s / r->step_s)},
        {"model_s", sm_json_real(r->model.step_s)}, {"model_serial_s", sm_json_real(r->model.serial_s)},
        {"model_compute_s", sm_json_real(r->model.compute_s)}, {"model_comm_s", sm_json_real(r->model.comm_s)});
}

// Speed-ups by tokens/s over the run of one process.
static void add_published(json_t *records) {
    SM_OWN(json_t) *rows = sm_bundle_published();
    double first = NAN;
    SM_EACH(row, rows) {
        const double n = sm_json_number(row, "n_processes");
        const double rate = sm_json_number(row, "median_ts");
        first = n == 1 ? rate : first;
        if (n > 0) {
            json_t *record = sm_json_copy(
                json_object(), row, "on=gpu_info n_processes global_batch steps tokens tokens_per_s=median_ts wall_s");
            json_array_append_new(records, sm_json_put(record, {"scaling", json_string("strong")},
                                                       {"kind", json_string("published")},
                                                       {"speedup", sm_json_real(rate / first)},
                                                       {"efficiency", sm_json_real(rate / first / n)}));
        }
    }
}

json_t *sm_scaling_records(const sm_scaling *scaling, const sm_work *work) {
    json_t *records = json_array();
    for (size_t i = 0; i < scaling->n; i++) {
        if (work == NULL || scaling->rows[i].work == *work) {
            json_array_append_new(records, record_of(&scaling->rows[i]));
        }
    }
    if (scaling->has_verdict && (work == NULL || *work == SM_WORK_FIXED)) {
        add_published(records);
    }
    return records;
}

void sm_scaling_page(const sm_scaling *scaling, FILE *out) {
    static const sm_work works[] = {SM_WORK_FIXED, SM_WORK_FIXED_A_PROCESS};
    json_t *page = json_pack("{s:b, s:o, s:O}", "has_verdict", scaling->has_verdict, "records",
                             sm_scaling_records(scaling, NULL), "notes", scaling->notes);
    for (int k = 0; k < 2; k++) {
        SM_OWN(json_t) *records = sm_scaling_records(scaling, &works[k]);
        json_object_set_new(page, k == 0 ? "strong" : "weak", sm_page_table(&sm_scaling_table, records));
    }
    sm_page_write(out, "Scaling of a training", (const char *const[2]){"scaling.js"}, 0, page);
}
