// phases.c: see loop.h.
#include "bench/loop/loop.h"

#include <math.h>

#include "bench/compare/compare.h"
#include "bench/rows/read_rows.h"
#include "bench/stats/stats.h"
#include "bench/tables/show.h"
#include "src/train/phases.h"

enum { NAME_SIZE = 64 };

static const double alpha = 0.05;

// "-3.1% (-4.0 to -2.2)"; without an interval "-3.1%".
static void show_change(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const double percent = sm_json_number(record, column->name);
    const double lo = sm_json_number(record, "change_lo_percent");
    const double hi = sm_json_number(record, "change_hi_percent");
    text[0] = '\0';
    if (isfinite(percent) && isfinite(lo) && isfinite(hi)) {
        snprintf(text, size_bytes, "%+.1f%% (%+.1f to %+.1f)", percent, lo, hi);
    } else if (isfinite(percent)) {
        snprintf(text, size_bytes, "%+.1f%%", percent);
    }
}

static const sm_column columns[] = {
    SM_COLUMN_OF_MODEL,
    SM_COLUMN_OF_TEST,
    SM_SHARED_COLUMN("mode", "naive, fused or tuned", "mode"),
    SM_SHARED_COLUMN("loader", "who makes the batches: inline, or threads and how many", "loader"),
    SM_COLUMNS_OF_DEVICE,
    SM_TEXT("phase", "part of the step; step: all of them; undisturbed: a plain step", .heading = "phase",
            .rank = SM_RANK_ALWAYS),
    SM_TEXT("meaning", "what it is", .heading = "what it is"),
    SM_INTEGER("ns", "ns", "mean of the middle half of the instrumented steps; undisturbed: median", .heading = "ms",
               .show = sm_show_ms, .rank = SM_RANK_ALWAYS),
    SM_REAL("share", "", "of the instrumented step", .heading = "share", .show = sm_show_percent, .rank = 8),
    SM_REAL("alone_ts", "tokens/s", "throughput that it alone would allow", .heading = "tokens/s alone",
            .show = sm_show_count, .rank = 6),
    SM_INTEGER("baseline_ns", "ns", "the baseline's", .heading = "baseline ms", .show = sm_show_ms, .rank = 5),
    SM_REAL("change_percent", "%", "against the baseline", .heading = "change (95%)", .show = show_change, .rank = 7),
    SM_REAL("change_lo_percent", "%", "its 95% interval; null below six steps a side"),
    SM_REAL("change_hi_percent", "%", "its upper end"),
    SM_JSON("warnings", "disturbances of the figures", .heading = "warning", .view = SM_SHOWN_AS_NOTES),
};

const sm_table sm_loop_table = {"loop", columns, (int)SM_COUNT(columns)};

// --- the baseline ------------------------------------------------------------------------------------

const json_t *sm_loop_baseline(const json_t *rows, const json_t *row) {
    const json_t *found = NULL;
    SM_EACH(other, rows) {
        const bool is_loop = sm_json_number(other, "loop.wall_ns") > 0;
        found = is_loop && sm_row_is_usable(other) && (sm_identity_difference(row, other) & SM_SAME_WORK) == 0 ? other
                                                                                                               : found;
    }
    return found;
}

// The samples are times by step; fewer than six have no interval.
static void add_change(const json_t *row, const json_t *baseline, const char *samples, const char *field,
                       json_t *record) {
    if (baseline == NULL) {
        return;
    }
    const sm_difference d = sm_compare_samples(baseline, row, samples, alpha);
    const double then_ns = sm_json_number(baseline, field);
    const bool is_told = isfinite(d.estimate) || then_ns > 0;
    const double change = isfinite(d.estimate) ? expm1(d.estimate) : sm_json_number(row, field) / then_ns - 1;
    sm_json_put(
        record, {"baseline_ns", sm_json_real(then_ns)}, {"change_percent", sm_json_real(is_told ? 100 * change : NAN)},
        {"change_lo_percent", sm_json_real(100 * expm1(d.lo))}, {"change_hi_percent", sm_json_real(100 * expm1(d.hi))});
}

// --- records -----------------------------------------------------------------------------------------

static json_t *start_record(const json_t *row, const char *phase, const char *meaning, const char *field) {
    const double ns = sm_json_number(row, field);
    const char *gpu = sm_rows_text(row, "gpu_info");
    json_t *record = sm_json_copy(
        json_object(), row,
        "mode precision emulated device isa n_threads binding own_kernels test warnings loader=loop.loader");
    sm_json_put(record, {"model", sm_json_text(sm_rows_text(row, "model_type"))},
                {"name", sm_json_text(gpu[0] != '\0' ? gpu : sm_rows_text(row, "cpu_info"))},
                {"phase", json_string(phase)}, {"meaning", json_string(meaning)}, {"ns", sm_json_real(ns)});
    sm_json_set_new(
        record, "alone_ts",
        sm_json_real(strcmp(phase, "unaccounted") != 0 ? 1e9 * sm_json_number(row, "real_tokens") / ns : NAN));
    return record;
}

static void add_phase(const json_t *row, const json_t *baseline, const char *member, const char *name,
                      const char *meaning, json_t *records) {
    char field[NAME_SIZE];
    char samples[NAME_SIZE];
    snprintf(field, sizeof(field), "loop.%s_ns", member);
    snprintf(samples, sizeof(samples), "loop.samples.%s", member);
    const double ns = sm_json_number(row, field);
    const double then_ns = baseline != NULL ? sm_json_number(baseline, field) : NAN;
    if (!(fabs(ns) > 0) && !(then_ns > 0)) { // unknown also for a row without the field
        return;
    }
    json_t *record = start_record(row, name, meaning, field);
    sm_json_set_new(record, "share", sm_json_real(ns / sm_json_number(row, "loop.wall_ns")));
    json_array_append_new(records, record);
    add_change(row, baseline, samples, field, record);
}

json_t *sm_loop_records(const json_t *row, const json_t *baseline) {
    json_t *records = json_array();
#define X(code, member, name, text) add_phase(row, baseline, #member, name, text, records);
    SM_STEP_PHASE_LIST(X)
#undef X
    add_phase(row, baseline, "wall", "step", "all phases together: an instrumented step", records);
    json_t *plain = start_record(row, "undisturbed", "a step without instruments: the headline", "median_ns");
    json_array_append_new(records, plain);
    add_change(row, baseline, "samples_ns", "median_ns", plain);
    return records;
}
