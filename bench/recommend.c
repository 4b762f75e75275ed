// recommend.c: see recommend.h.
#include "recommend.h"

#include "read_rows.h"
#include "show.h"

#include <math.h>
#include <string.h>

enum { GROUP_SIZE = 512, STEADY_MIN_SAMPLES = 6 };

static const double bytes_per_gib = 1024.0 * 1024 * 1024;

static const sm_column columns[] = {
    {.name = "topic", .type = SM_COLUMN_TEXT, .unit = "", .description = "what is advised on", .heading = "topic"},
    {.name = "group",
     .type = SM_COLUMN_TEXT,
     .unit = "",
     .description = "rows compared",
     .heading = "among",
     .view = SM_SHOWN_WHEN_VARIED},
    {.name = "configuration", .type = SM_COLUMN_TEXT, .unit = "", .description = "the one", .heading = "configuration"},
    {.name = "figure", .type = SM_COLUMN_TEXT, .unit = "", .description = "why", .heading = "figure"},
    {.name = "value", .type = SM_COLUMN_REAL, .unit = "", .description = "the figure as a number"},
    {.name = "unit", .type = SM_COLUMN_TEXT, .unit = "", .description = "of value"},
    {.name = "caution",
     .type = SM_COLUMN_TEXT,
     .unit = "",
     .description = "how far to believe it",
     .heading = "caution"},
};

const sm_table sm_recommend_table = {"recommendations", columns, (int)(sizeof(columns) / sizeof(columns[0]))};

// --- rows ------------------------------------------------------------------------------------------

void sm_recommend_group(const json_t *row, char *text, size_t size_bytes) {
    const char *gpu = sm_rows_text(row, "gpu_info");
    snprintf(text, size_bytes, "%s (%s), %s, %s s%.0f", sm_rows_text(row, "device"),
             gpu[0] != '\0' ? gpu : sm_rows_text(row, "cpu_info"), sm_rows_text(row, "model_type"),
             sm_rows_text(row, "pass_type"), sm_json_number(row, "n_seq"));
}

void sm_recommend_configuration(const json_t *row, char *text, size_t size_bytes) {
    double n_threads = sm_json_number(row, "n_threads");
    char precision[64];
    sm_text_precision(row, precision, sizeof(precision));
    int used = snprintf(text, size_bytes, "%s %s %s", sm_rows_text(row, "test"), sm_rows_text(row, "mode"), precision);
    if (n_threads > 0 && used > 0 && (size_t)used < size_bytes) {
        snprintf(text + used, size_bytes - (size_t)used, ", %.0f threads", n_threads);
    }
}

static bool is_ok(const json_t *row) {
    return strcmp(sm_rows_status(row), "ok") == 0 && sm_json_number(row, "median_ns") > 0;
}

static bool same_group(const json_t *a, const json_t *b) {
    char of_a[GROUP_SIZE];
    char of_b[GROUP_SIZE];
    sm_recommend_group(a, of_a, sizeof(of_a));
    sm_recommend_group(b, of_b, sizeof(of_b));
    return strcmp(of_a, of_b) == 0;
}

static bool same_fields(const json_t *a, const json_t *b, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const json_t *x = sm_json_get(a, names[i]);
        const json_t *y = sm_json_get(b, names[i]);
        bool absent = (x == NULL || json_is_null(x)) && (y == NULL || json_is_null(y));
        if (!absent && !json_equal(x, y)) {
            return false;
        }
    }
    return true;
}

// What two rows must share to be one configuration but for mode, batch and length.
static bool alike(const json_t *a, const json_t *b) {
    static const char *const names[] = {"backend_used", "device", "cpu_info",  "gpu_info", "model_type", "precision",
                                        "n_threads",    "isa",    "pass_type", "n_accum",  "vocab",      "n_ctx",
                                        "n_layer",      "n_head", "d_model",   "d_ff",     "dropout"};
    return same_fields(a, b, names, sizeof(names) / sizeof(names[0]));
}

static double per_token(const json_t *row, const char *name) {
    double n_accum = sm_json_number(row, "n_accum");
    return sm_json_number(row, name) /
           (sm_json_number(row, "n_batch") * sm_json_number(row, "n_seq") * (n_accum > 0 ? n_accum : 1));
}

// Do the intervals of the two medians, a token, leave no room between them?
static bool overlap(const json_t *a, const json_t *b) {
    double a_lo = per_token(a, "ci95_lo_ns");
    double a_hi = per_token(a, "ci95_hi_ns");
    double b_lo = per_token(b, "ci95_lo_ns");
    double b_hi = per_token(b, "ci95_hi_ns");
    return !(a_hi < b_lo || b_hi < a_lo); // also where an interval is missing
}

// --- records ---------------------------------------------------------------------------------------

sm_status sm_recommend_add(json_t *records, const char *topic, const char *group, const char *configuration,
                           const char *figure, double value, const char *unit, const char *caution) {
    json_t *record = json_object();
    int failed = 0;
    failed |= sm_json_set_new(record, "topic", sm_json_text(topic));
    failed |= sm_json_set_new(record, "group", sm_json_text(group));
    failed |= sm_json_set_new(record, "configuration", sm_json_text(configuration));
    failed |= sm_json_set_new(record, "figure", sm_json_text(figure));
    failed |= sm_json_set_new(record, "value", sm_json_real(value));
    failed |= sm_json_set_new(record, "unit", sm_json_text(unit));
    failed |= sm_json_set_new(record, "caution", sm_json_text(caution));
    if (json_array_append_new(records, record) != 0 || failed != 0) {
        return sm_fail(SM_ERR_OOM, "no memory for a recommendation");
    }
    return SM_OK;
}

// --- the best of a group -----------------------------------------------------------------------------

static double throughput(const json_t *row) { return sm_json_number(row, "median_ts"); }

static double throughput_per_gib(const json_t *row) {
    double on_device = sm_json_number(row, "device_peak_bytes");
    double bytes = on_device > 0 ? on_device : sm_json_number(row, "peak_rss_bytes");
    return bytes > 0 ? throughput(row) / (bytes / bytes_per_gib) : NAN;
}

// Negative: the largest is the best everywhere.
static double steadiness(const json_t *row) {
    bool enough = json_array_size(sm_json_get(row, "samples_ns")) >= STEADY_MIN_SAMPLES;
    return enough ? -100 * sm_json_number(row, "mad_ns") / sm_json_number(row, "median_ns") : NAN;
}

typedef struct {
    const char *topic;
    const char *unit;
    double (*score)(const json_t *row);
    double sign;  // of the score, as shown
    bool by_time; // the intervals of the medians decide whether it is told apart
} contest;

static const contest contests[] = {
    {"fastest", "tokens/s", throughput, 1, true},
    {"per GB", "tokens/s/GiB", throughput_per_gib, 1, true},
    {"steadiest", "% spread", steadiness, -1, false},
};

static sm_status award(const json_t *rows, const json_t *first_of_group, const contest *c, json_t *records) {
    const json_t *best = NULL;
    const json_t *second = NULL;
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row) {
        if (!is_ok(row) || !same_group(row, first_of_group) || isnan(c->score(row))) {
            continue;
        }
        if (best == NULL || c->score(row) > c->score(best)) {
            second = best;
            best = row;
        } else if (second == NULL || c->score(row) > c->score(second)) {
            second = row;
        }
    }
    if (best == NULL || second == NULL) {
        return SM_OK; // of one there is no best
    }
    char group[GROUP_SIZE];
    char winner[GROUP_SIZE];
    char figure[128];
    char caution[GROUP_SIZE + 64] = "";
    double value = c->sign * c->score(best);
    sm_recommend_group(best, group, sizeof(group));
    sm_recommend_configuration(best, winner, sizeof(winner));
    snprintf(figure, sizeof(figure), "%.4g %s", value, c->unit);
    if (c->by_time && overlap(best, second)) {
        char other[GROUP_SIZE];
        sm_recommend_configuration(second, other, sizeof(other));
        snprintf(caution, sizeof(caution), "not told apart from %s: take more samples", other);
    }
    return sm_recommend_add(records, c->topic, group, winner, figure, value, c->unit, caution);
}

static bool is_first_of_group(const json_t *rows, size_t index) {
    const json_t *row = json_array_get(rows, index);
    for (size_t i = 0; i < index; i++) {
        const json_t *before = json_array_get(rows, i);
        if (is_ok(before) && same_group(before, row)) {
            return false;
        }
    }
    return is_ok(row);
}

// --- break-even --------------------------------------------------------------------------------------

static double or_zero(double value) { return isfinite(value) ? value : 0; }

// What starting costs beyond the steps themselves.
static double start_ns(const json_t *row) {
    return or_zero(sm_json_number(row, "build_ns")) + or_zero(sm_json_number(row, "tune_ns")) +
           or_zero(sm_json_number(row, "first_step_ns")) - sm_json_number(row, "median_ns");
}

static sm_status break_even(const json_t *slow, const json_t *fast, json_t *records) {
    char group[GROUP_SIZE];
    char configuration[GROUP_SIZE];
    char figure[256];
    double gain_ns = sm_json_number(slow, "median_ns") - sm_json_number(fast, "median_ns");
    double extra_ns = start_ns(fast) - start_ns(slow);
    double steps = extra_ns > 0 ? ceil(extra_ns / gain_ns) : 0;
    sm_recommend_group(fast, group, sizeof(group));
    sm_recommend_configuration(fast, configuration, sizeof(configuration));
    snprintf(figure, sizeof(figure), "%.0f steps: starts %.3g ms %s than %s, each step is %.3g ms shorter", steps,
             fabs(extra_ns) / 1e6, extra_ns > 0 ? "later" : "sooner", sm_rows_text(slow, "mode"), gain_ns / 1e6);
    return sm_recommend_add(records, "break-even", group, configuration, figure, steps, "steps", "");
}

// Every pair that differs in mode only and in which one is faster beyond doubt.
static sm_status break_evens(const json_t *rows, json_t *records) {
    const size_t n = json_array_size(rows);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            static const char *const sizes[] = {"n_batch", "n_seq"};
            const json_t *slow = json_array_get(rows, i);
            const json_t *fast = json_array_get(rows, j);
            bool is_pair = is_ok(slow) && is_ok(fast) && alike(slow, fast) && same_fields(slow, fast, sizes, 2) &&
                           strcmp(sm_rows_text(slow, "mode"), sm_rows_text(fast, "mode")) != 0;
            if (is_pair && sm_json_number(fast, "ci95_hi_ns") < sm_json_number(slow, "ci95_lo_ns")) {
                SM_TRY(break_even(slow, fast, records));
            }
        }
    }
    return SM_OK;
}

// --- what did not fit ----------------------------------------------------------------------------------

static double tokens(const json_t *row) { return sm_json_number(row, "n_batch") * sm_json_number(row, "n_seq"); }

static sm_status advise_smaller(const json_t *rows, const json_t *oom, json_t *records) {
    static const char *const mode[] = {"mode"};
    const json_t *best = NULL;
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row) {
        if (is_ok(row) && alike(row, oom) && same_fields(row, oom, mode, 1) && tokens(row) < tokens(oom) &&
            (best == NULL || tokens(row) > tokens(best))) {
            best = row;
        }
    }
    char group[GROUP_SIZE];
    char configuration[GROUP_SIZE];
    char figure[GROUP_SIZE];
    sm_recommend_group(oom, group, sizeof(group));
    sm_recommend_configuration(oom, configuration, sizeof(configuration));
    if (best == NULL) {
        return sm_recommend_add(records, "did not fit", group, configuration, "nothing smaller of it was run", NAN, "",
                                "`stepmark sweep --find-batch` with its flags finds and runs the largest that fits");
    }
    snprintf(figure, sizeof(figure), "%s ran", sm_rows_text(best, "test"));
    return sm_recommend_add(records, "did not fit", group, configuration, figure, sm_json_number(best, "n_batch"),
                            "batch", "");
}

sm_status sm_recommend(const json_t *rows, json_t **records) {
    sm_status status = SM_OK;
    json_t *made = json_array();
    *records = NULL;
    if (made == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for recommendations");
    }
    for (size_t i = 0; i < json_array_size(rows); i++) {
        for (size_t c = 0; c < sizeof(contests) / sizeof(contests[0]) && is_first_of_group(rows, i); c++) {
            SM_TRY_GOTO(award(rows, json_array_get(rows, i), &contests[c], made));
        }
    }
    SM_TRY_GOTO(break_evens(rows, made));
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        bool is_probe = sm_rows_text(row, "sweep_note")[0] != '\0'; // a step of a search, which went on
        if (strcmp(sm_rows_status(row), "oom") == 0 && !is_probe) {
            SM_TRY_GOTO(advise_smaller(rows, row, made));
        }
    }
    *records = made;
    return SM_OK;
cleanup:
    json_decref(made);
    return status;
}
