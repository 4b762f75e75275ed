// configuration_gains.c: see compare.h.
#include "bench/compare/compare.h"

#include <math.h>

enum { LEAST_PAIRS = 6 }; // with fewer there is no 95% interval
static const double alpha = 0.05;

// "1.36 (1.31-1.41)"; the status if there is no gain.
static void show_gain(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const double gain = sm_json_number(record, column->name);
    const double lo = sm_json_number(record, "gain_ci95_lo");
    const char *verdict = sm_rows_text(record, "verdict");
    snprintf(text, size_bytes, "%s", verdict[0] != '\0' ? verdict : sm_rows_text(record, "status"));
    if (isfinite(lo)) {
        snprintf(text, size_bytes, "%.2f (%.2f-%.2f)", gain, lo, sm_json_number(record, "gain_ci95_hi"));
    } else if (isfinite(gain)) {
        snprintf(text, size_bytes, "%.2f", gain);
    }
}

// On a terminal, flags lose their dashes, and flags whose values explain themselves lose their names.
static void show_brief_flags(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    static const char *const left_out[] = {"--precision=", "--mode=", "--optimizer=", "--"};
    const char *flags = sm_rows_text(record, column->name);
    size_t used = 0;
    while (*flags != '\0' && used + 1 < size_bytes) {
        const bool begins_word = used == 0 || text[used - 1] == ' ';
        for (size_t i = 0; begins_word && i < SM_COUNT(left_out); i++) {
            flags += strncmp(flags, left_out[i], strlen(left_out[i])) == 0 ? strlen(left_out[i]) : 0;
        }
        text[used++] = *flags++;
    }
    text[used] = '\0';
}

static void show_status(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const char *reason = sm_rows_text(record, "reason");
    snprintf(text, size_bytes, "%s%s%s", sm_rows_text(record, column->name), reason[0] != '\0' ? ": " : "", reason);
}

static const sm_column columns[] = {
    SM_SHARED_COLUMN("device", "device that ran", "device"),
    SM_SHARED_COLUMN("model", "size of the model by name", "model"),
    SM_TEXT("flags", "the differences from the default, as flags", .heading = "versus the default",
            .brief = show_brief_flags, .rank = SM_RANK_ALWAYS),
    SM_REAL("tokens_per_s", "tokens/s", "real tokens a second, by the median of its samples", .heading = "tokens/s",
            .show = sm_show_count, .rank = 7),
    SM_REAL("gain", "", "tokens a second against the default's; above 1 it is faster",
            .heading = "times the default's (95%)", .brief_heading = "gain (95%)", .show = show_gain,
            .rank = SM_RANK_ALWAYS),
    SM_REAL("gain_ci95_lo", "", "95% confidence interval of it; null with too few samples"),
    SM_REAL("gain_ci95_hi", "", "its upper end"),
    SM_TEXT("verdict", "faster, slower or not distinct: by the interval; or no verdict: reason says why",
            .heading = "it is", .rank = 4),
    SM_TEXT("basis", "basis of the interval: pairs (runs in turn), or samples (of these runs only)", .heading = "by"),
    SM_INTEGER("n_rounds", "", "rounds that both it and the default ran in", .heading = "rounds"),
    SM_INTEGER("n_samples", "", "its timed steps in all rounds", .heading = "samples"),
    SM_INTEGER("memory_bytes", "bytes",
               "measured: the bytes allocated on a device with its own memory, otherwise the process's peak",
               .heading = "memory", .show = sm_show_bytes, .rank = 6),
    SM_INTEGER("estimated_bytes", "bytes", "of its tensors, by the planner, before it ran"),
    SM_TEXT("changes", "its changes to the training itself: batch, rounding or optimizer; empty: none",
            .heading = "changes", .rank = 8),
    SM_TEXT("status", "ok, or how it failed", .heading = "status", .show = show_status, .brief = sm_show_plain,
            .rank = 5),
    SM_BOOLEAN("advised", "the one that was chosen, and measured most often"),
    SM_TEXT("reason", "why there is no figure, or no verdict"),
    SM_TEXT("command", "command that measures it again", .heading = "command"),
};

const sm_table sm_advice_table = {"advice", columns, (int)SM_COUNT(columns)};

// --- rows ------------------------------------------------------------------------------------------

// Seconds for each token, from the time of a step.
static double per_token_s(const json_t *row, double step_ns) {
    return step_ns * 1e-9 / sm_json_number(row, "real_tokens");
}

static bool has_figures(const json_t *row) {
    return json_is_object(row) && strcmp(sm_rows_status(row), "ok") == 0 && sm_json_number(row, "median_ns") > 0 &&
           sm_json_number(row, "real_tokens") > 0;
}

double sm_advice_speed(const json_t *row) {
    return has_figures(row) ? 1 / per_token_s(row, sm_json_number(row, "min_ns")) : NAN;
}

// Seconds a token of each sample of all rounds with figures. The caller frees them.
static double *samples_of(const json_t *rows, size_t *n) {
    double *all = NULL;
    *n = 0;
    SM_EACH(row, rows) {
        size_t n_more;
        SM_FREED double *samples_ns = sm_rows_samples(row, "samples_ns", &n_more);
        all = sm_realloc(all, (*n + n_more + 1) * sizeof(*all));
        for (size_t i = 0; i < n_more && has_figures(row); i++) {
            all[(*n)++] = per_token_s(row, samples_ns[i]);
        }
    }
    return all;
}

// --- a case ----------------------------------------------------------------------------------------

static void set_gain(json_t *record, sm_difference d, const char *basis) {
    const char *verdict = !d.has_interval ? "too few samples to say"
                          : d.hi < 0      ? "faster"
                          : d.lo > 0      ? "slower"
                                          : "not distinct";
    sm_json_put(record, {"gain", sm_json_real(exp(-d.estimate))}, {"gain_ci95_lo", sm_json_real(exp(-d.hi))},
                {"gain_ci95_hi", sm_json_real(exp(-d.lo))}, {"verdict", sm_json_text(verdict)},
                {"basis", sm_json_text(basis)});
}

// Whether half of the rows with figures support no verdict.
static bool is_doubted(const json_t *rows, char doubt[SM_DOUBT_SIZE]) {
    size_t n = 0;
    size_t n_doubted = 0;
    SM_EACH(row, rows) {
        char its[SM_DOUBT_SIZE];
        if (has_figures(row)) {
            n++;
            if (sm_doubt_row(row, its)) {
                n_doubted++;
                memcpy(doubt, its, sizeof(its));
            }
        }
    }
    return n_doubted > 0 && 2 * n_doubted >= n;
}

// By round, in rounds in which both have figures; by sample over all rounds, because a default that was disturbed in one
// round would affect all that ran in that round only.
static void judge(const json_t *default_rows, const json_t *rows, json_t *record) {
    const size_t n_rounds = json_array_size(rows);
    SM_FREED double *medians_a = sm_calloc(n_rounds + 1, sizeof(double));
    SM_FREED double *medians_b = sm_calloc(n_rounds + 1, sizeof(double));
    char doubt[SM_DOUBT_SIZE];
    size_t n = 0;
    size_t n_a;
    size_t n_b;
    for (size_t round = 0; round < n_rounds; round++) {
        const json_t *a = json_array_get(default_rows, round);
        const json_t *b = json_array_get(rows, round);
        if (has_figures(a) && has_figures(b)) {
            medians_a[n] = per_token_s(a, sm_json_number(a, "median_ns"));
            medians_b[n++] = per_token_s(b, sm_json_number(b, "median_ns"));
        }
    }
    SM_FREED double *a = samples_of(default_rows, &n_a);
    SM_FREED double *b = samples_of(rows, &n_b);
    if (n >= LEAST_PAIRS) {
        set_gain(record, sm_compare_paired(medians_a, medians_b, n, alpha), "pairs");
    } else if (is_doubted(default_rows, doubt) || is_doubted(rows, doubt)) {
        sm_json_put(record, {"verdict", sm_json_text("no verdict")}, {"reason", sm_json_text(doubt)});
    } else if (n_a > 0 && n_b > 0) {
        set_gain(record, sm_compare_unpaired(a, n_a, b, n_b, alpha), "samples");
    }
    if (json_object_get(record, "verdict") != NULL) {
        sm_json_set_new(record, "n_rounds", sm_json_integer((int64_t)n));
    }
}

// The largest value of a field in any round.
static int64_t largest(const json_t *rows, const char *name) {
    int64_t most = SM_ABSENT;
    for (size_t round = 0; round < json_array_size(rows); round++) {
        const json_t *value = json_object_get(json_array_get(rows, round), name);
        if (json_is_integer(value) && (most == SM_ABSENT || json_integer_value(value) > most)) {
            most = json_integer_value(value);
        }
    }
    return most;
}

// The row of a round that did not run, if there is one.
static const json_t *telling_row(const json_t *rows) {
    const json_t *last = NULL;
    SM_EACH(row, rows) {
        if (json_is_object(row)) {
            last = row;
            if (!has_figures(row)) {
                break;
            }
        }
    }
    return last;
}

static json_t *make_record(const sm_advice_case *its, const json_t *default_rows) {
    const json_t *row = telling_row(its->rows);
    const bool is_default = its->flags[0] == '\0';
    const bool on_card = sm_rows_text(row, "gpu_info")[0] != '\0';
    json_t *record = sm_json_put(json_object(), {"device", sm_json_text(sm_rows_text(row, "device"))},
                                 {"model", sm_json_text(SM_ROWS_MODEL(row))},
                                 {"flags", sm_json_text(is_default ? "(the default)" : its->flags)},
                                 {"changes", sm_json_text(its->changes)}, {"advised", json_boolean(its->is_advised)},
                                 {"status", sm_json_text(sm_rows_status(row))},
                                 {"reason", sm_json_text(has_figures(row) ? "" : sm_rows_text(row, "reason"))},
                                 {"command", sm_json_text(its->command)},
                                 {"estimated_bytes", sm_json_integer(largest(its->rows, "estimated_bytes"))});
    if (!has_figures(row)) {
        return record;
    }
    sm_json_set_new(record, "memory_bytes",
                    sm_json_integer(largest(its->rows, on_card ? "device_peak_bytes" : "peak_rss_bytes")));
    size_t n;
    SM_FREED double *samples = samples_of(its->rows, &n);
    if (n > 0) {
        sm_json_put(record, {"tokens_per_s", sm_json_real(1 / sm_stats_of_reals(samples, (int64_t)n).median)},
                    {"n_samples", sm_json_integer((int64_t)n)});
    }
    if (is_default) {
        sm_json_set_new(record, "gain", sm_json_real(1));
    } else {
        judge(default_rows, its->rows, record);
    }
    return record;
}

// --- all ---------------------------------------------------------------------------------------------

// In the table by gain, or by speed without a default; failures come last, in the order of trying.
json_t *sm_advice(const sm_advice_case *cases, size_t n) {
    const char *by = has_figures(telling_row(cases[0].rows)) ? "gain" : "tokens_per_s";
    json_t *records = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *record = make_record(&cases[i], cases[0].rows);
        size_t place = json_array_size(records);
        while (place > 0 && !(sm_json_number(json_array_get(records, place - 1), by) >= sm_json_number(record, by)) &&
               isfinite(sm_json_number(record, by))) {
            place--;
        }
        json_array_insert_new(records, place, record);
    }
    return records;
}
