#include "bench/compare/compare.h"

// Relative, by the format: for the first step as in src/verify/loss_check.c, for later ones as in bench/peers.
static const double first_tolerance_fp32 = 1e-4;
static const double later_tolerance_fp32 = 1e-3;
static const double tolerance_other = 1e-2;

enum { TEXT_SIZE = 256 };

// Fields that may differ between two runs of the same flags: `harmless` ones change no loss, `always` ones are shown.
static const char conditions[] =
    "build_commit context.build_dirty context.compiler context.compiler_flags cpu_info gpu_info device "
    "context.device.name context.device.driver context.device.blas_core isa tier n_threads own_kernels binding "
    "context.environment context.cpu.threads_allowed context.cpu.quota context.cpu.governor "
    "context.transparent_huge_pages context.memory_bytes context.kernel context.host";
static const char harmless[] = "binding context.cpu.threads_allowed context.cpu.quota context.cpu.governor "
                               "context.transparent_huge_pages context.memory_bytes context.kernel context.host";
static const char always[] = "build_commit cpu_info device isa n_threads";

#define COLUMN_LIST(X)                                                                                  \
    X("field", TEXT, "", "field of the rows", field, .heading = "field")                                \
    X("recorded", TEXT, "", "its value in the row that was run again", recorded, .heading = "recorded") \
    X("again", TEXT, "", "its value now", again, .heading = "again")                                    \
    X("same", TEXT, "", "yes or no; null: not known", same ? "yes" : "no", .heading = "same")

const sm_table sm_again_table = SM_LISTED_TABLE("again", COLUMN_LIST);

// Keeps only the first reason: later ones follow from it.
static void fail(sm_again *result, const char *reason) {
    if (result->is_reproduced) {
        snprintf(result->reason, sizeof(result->reason), "%s", reason);
    }
    result->is_reproduced = false;
}
#define FAIL(result, ...) fail((result), SM_TEXT_IN(sizeof((result)->reason), __VA_ARGS__))

// --- the table -------------------------------------------------------------------------------------

static void add_field(sm_again *result, const char *field, const char *recorded, const char *again, bool same) {
    json_t *record = json_object();
    COLUMN_LIST(SM_LISTED_VALUE)
    json_array_append_new(result->fields, record);
}

// As rows in files hold a number, with 12 digits: one that a process has just sent has all of them. NAN: no number.
static double held(const json_t *value) {
    char text[32];
    snprintf(text, sizeof(text), "%.12g", json_is_number(value) ? json_number_value(value) : NAN);
    return strtod(text, NULL);
}

static bool are_equal(const json_t *a, const json_t *b) {
    const bool has_a = a != NULL && !json_is_null(a), has_b = b != NULL && !json_is_null(b);
    return (!has_a && !has_b) || json_equal(a, b) || held(a) == held(b);
}

static void add_value(sm_again *result, const json_t *recorded, const json_t *again, const char *name) {
    add_field(result, name, sm_text_value(recorded, name, (char[TEXT_SIZE]){""}, TEXT_SIZE),
              sm_text_value(again, name, (char[TEXT_SIZE]){""}, TEXT_SIZE),
              are_equal(sm_json_get(recorded, name), sm_json_get(again, name)));
}

// --- conditions ------------------------------------------------------------------------------------

static bool is_clean_build(const json_t *row) {
    return sm_rows_has(row, "build_commit") && json_is_false(sm_json_get(row, "context.build_dirty"));
}

// *must_be_equal: no condition differs that may change a loss's last digits.
static void add_conditions(sm_again *result, const json_t *recorded, const json_t *again, bool *must_be_equal) {
    *must_be_equal = is_clean_build(recorded) && is_clean_build(again) && !sm_rows_is(recorded, "mode", "tuned");
    const char *names = conditions;
    for (char name[TEXT_SIZE]; sm_next_word(&names, name, sizeof(name));) {
        const bool same = are_equal(sm_json_get(recorded, name), sm_json_get(again, name));
        if (!same) {
            *must_be_equal = *must_be_equal && sm_is_word_of(name, harmless);
            sm_append_part(result->conditions, sizeof(result->conditions), ", ", name);
        }
        if (!same || sm_is_word_of(name, always)) {
            add_value(result, recorded, again, name);
        }
    }
}

// --- losses ----------------------------------------------------------------------------------------

static double tolerance_of(const json_t *row, size_t step) {
    const bool is_fp32 = sm_rows_is(row, "precision", "fp32");
    return !is_fp32 ? tolerance_other : step == 0 ? first_tolerance_fp32 : later_tolerance_fp32;
}

static double distance(double a, double b) { return fabs(a - b) / fmax(1, fabs(a)); }

static double number_at(const json_t *array, size_t i) { return held(json_array_get(array, i)); }

static void judge_losses(sm_again *result, const json_t *recorded, const json_t *again, bool must_be_equal) {
    const json_t *before = sm_json_get(recorded, "losses");
    const json_t *now = sm_json_get(again, "losses");
    const size_t n = json_array_size(before) < json_array_size(now) ? json_array_size(before) : json_array_size(now);
    size_t n_other = 0, n_bad = 0;         // steps that differ, and of these the ones beyond the tolerance
    size_t first_other = n, first_bad = 0; // the step to show: the first of these, or the last that both have
    double apart = 0;                      // the largest relative difference
    char *text = result->losses;
    for (size_t i = 0; i < n; i++) {
        const double its = distance(number_at(before, i), number_at(now, i));
        first_other = its != 0 && n_other++ == 0 ? i + 1 : first_other;
        first_bad = !(its <= tolerance_of(recorded, i)) && n_bad++ == 0 ? i + 1 : first_bad;
        apart = its <= apart ? apart : its; // NaN stays
    }
    if (n == 0) {
        snprintf(text, sizeof(result->losses), "none to compare: the two runs have no step in common");
    } else if (n_other == 0) {
        snprintf(text, sizeof(result->losses), "all %zu that both runs have are equal in every digit", n);
    } else if (n_bad == 0) {
        snprintf(text, sizeof(result->losses), "%zu of %zu differ, by at most %.2g, within the tolerance", n_other, n,
                 apart);
    } else {
        snprintf(text, sizeof(result->losses),
                 "%zu of %zu are beyond the tolerance, first at step %zu; at most %.2g apart", n_bad, n, first_bad,
                 apart);
    }
    if (n_bad > 0) {
        FAIL(result, "losses: %s", text);
    } else if (must_be_equal && n_other > 0) {
        FAIL(result, "losses: %s, though the same build ran on the same device", text);
    }
    // The first step's loss does not depend on the checks' draws. Without a check there is none, as the status says.
    const double was = held(sm_json_get(recorded, "loss"));
    const double is = held(sm_json_get(again, "loss"));
    if (isfinite(was) && isfinite(is) && !(distance(was, is) <= (must_be_equal ? 0 : tolerance_of(recorded, 0)))) {
        FAIL(result, "the checked loss is %.12g, was %.12g", is, was);
    }
    add_value(result, recorded, again, "loss");
    if (n > 0) {
        const size_t step = first_bad > 0 ? first_bad : first_other;
        const char *a = SM_TEXT_IN(TEXT_SIZE, "%.12g", number_at(before, step - 1));
        const char *b = SM_TEXT_IN(TEXT_SIZE, "%.12g", number_at(now, step - 1));
        add_field(result, SM_TEXT_IN(TEXT_SIZE, "losses, step %zu", step), a, b, strcmp(a, b) == 0);
    }
}

// --- outcome and speed -------------------------------------------------------------------------------

static void judge_outcome(sm_again *result, const json_t *recorded, const json_t *again) {
    char work[TEXT_SIZE];
    const char *before = sm_rows_status(recorded);
    const char *now = sm_rows_status(again);
    const bool same = strcmp(before, now) == 0;
    if (!same) {
        FAIL(result, "%s then, %s now: %s", before, now,
             sm_rows_text(strcmp(now, "ok") == 0 ? recorded : again, "reason"));
    }
    add_field(result, "status", before, now, same);
    if (!same || strcmp(now, "ok") != 0) {
        add_value(result, recorded, again, "reason");
    }
    sm_identity_text(recorded, again, SM_SAME_WORK, true, work, sizeof(work));
    if (work[0] != '\0') {
        FAIL(result, "the same flags made other work: %s", work);
        add_field(result, "work", work, "", false);
    }
}

static const char *text_of_step(const json_t *row, char text[TEXT_SIZE]) {
    const double median_ns = sm_json_number(row, "median_ns");
    sm_text_ms(median_ns, text, TEXT_SIZE);
    sm_append_spread(100 * sm_json_number(row, "mad_ns") / median_ns, text, TEXT_SIZE);
    return text;
}

static void judge_speed(sm_again *result, const json_t *recorded, const json_t *again, double threshold) {
    const sm_compare_options how = {.threshold = threshold, .any_factor = true};
    SM_OWN(json_t) *a = json_pack("[O]", recorded);
    SM_OWN(json_t) *b = json_pack("[O]", again);
    (void)sm_compare(a, b, &how, &result->comparison); // fails only for factors
    const json_t *c = json_array_get(result->comparison.compared, 0);
    const char *verdict = sm_rows_text(c, "verdict");
    if (c == NULL) {
        snprintf(result->speed, sizeof(result->speed), "not compared: there are no figures on both sides");
        return;
    }
    const double change = sm_json_number(c, "change_percent");
    const double lo = sm_json_number(c, "ci_lo_percent"), hi = sm_json_number(c, "ci_hi_percent");
    const char *finding = strcmp(verdict, sm_verdict_name(SM_VERDICT_SAME)) == 0 ? "not distinct" : verdict;
    if (isfinite(lo) && isfinite(hi)) {
        snprintf(result->speed, sizeof(result->speed),
                 "%s: the step's time changed by %+.1f%% (%+.1f%% to %+.1f%%), in the median over all pairs of samples",
                 finding, change, lo, hi);
    } else {
        snprintf(result->speed, sizeof(result->speed), "%s: %s", finding, sm_rows_text(c, "reason"));
    }
    add_field(result, "step ms ± spread", text_of_step(recorded, (char[TEXT_SIZE]){""}),
              text_of_step(again, (char[TEXT_SIZE]){""}), finding != verdict);
    if (!isfinite(lo) || !isfinite(hi)) { // too few samples give no interval
        json_object_set_new(json_array_get(result->fields, json_array_size(result->fields) - 1), "same", json_null());
    }
}

// --- all -----------------------------------------------------------------------------------------------

void sm_again_compare(const json_t *recorded, const json_t *again, double threshold, sm_again *result) {
    bool must_be_equal;
    memset(result, 0, sizeof(*result));
    result->is_reproduced = true;
    result->fields = json_array();
    add_value(result, recorded, again, "test");
    judge_outcome(result, recorded, again);
    add_conditions(result, recorded, again, &must_be_equal);
    judge_losses(result, recorded, again, must_be_equal);
    judge_speed(result, recorded, again, threshold);
}

void sm_again_free(sm_again *result) {
    json_decref(result->fields);
    result->fields = NULL;
    sm_comparison_free(&result->comparison);
}
