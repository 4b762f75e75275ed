// compare.c: matches two sets of rows, compares each match, lists the rows left out.
#include "bench/compare/compare.h"

#include "bench/compare/noise_verdict.h"
#include "bench/rows/read_rows.h"
#include "bench/stats/compare_stats.h"
#include "bench/stats/stats.h"
#include "bench/tables/show.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// From MIN_STRETCHED samples on, the medians of N_STRETCHES consecutive parts of a run replace its samples.
enum { MIN_STRETCHED = 40, N_STRETCHES = 20, TEXT_SIZE = 512 };

static const double alpha_each = 0.01;
static const double alpha_all = 0.05;

static const char *const verdict_names[] = {
#define X(code, name) name,
    SM_VERDICT_LIST(X)
#undef X
};

const char *sm_verdict_name(sm_verdict verdict) { return verdict_names[verdict]; }

// --- the values of a side ------------------------------------------------------------------

typedef struct {
    double *a, *b;
    size_t n_a, n_b;
    bool paired;
    const char *basis;
} values;

static double run_time(const json_t *row) { return sm_json_number(row, "median_ns"); }

static void medians_of_runs(const sm_run_group *group, double **out, size_t *n) {
    *out = sm_malloc((group->n_usable + 1) * sizeof(**out));
    for (*n = 0; *n < group->n_usable; (*n)++) {
        (*out)[*n] = run_time(group->rows[*n]);
    }
}

// The run of a group with that pair's number; NULL if it has none.
static const json_t *run_of_pair(const sm_run_group *group, double pair) {
    for (size_t i = 0; i < group->n_usable; i++) {
        if (sm_json_number(group->rows[i], "compare_pair") == pair) {
            return group->rows[i];
        }
    }
    return NULL;
}

static void pairs_of_runs(const sm_run_group *a, const sm_run_group *b, values *v) {
    v->a = sm_malloc((a->n_usable + 1) * sizeof(*v->a));
    v->b = sm_malloc((a->n_usable + 1) * sizeof(*v->b));
    for (size_t i = 0; i < a->n_usable; i++) {
        const json_t *other = run_of_pair(b, sm_json_number(a->rows[i], "compare_pair"));
        if (other != NULL) {
            v->a[v->n_a++] = run_time(a->rows[i]);
            v->b[v->n_b++] = run_time(other);
        }
    }
    v->paired = true;
    v->basis = "pairs";
}

// NaN for n = 0.
static sm_status median_of(const double *from, size_t n, double *median) {
    sm_stats stats = {.median = NAN};
    SM_TRY(n > 0 ? sm_stats_compute_real(from, (int64_t)n, &stats) : SM_OK);
    *median = stats.median;
    return SM_OK;
}

static sm_status shorten(double *samples, size_t *n) {
    if (*n < MIN_STRETCHED) {
        return SM_OK;
    }
    for (size_t i = 0; i < N_STRETCHES; i++) {
        size_t first = i * *n / N_STRETCHES;
        size_t end = (i + 1) * *n / N_STRETCHES;
        SM_TRY(median_of(samples + first, end - first, &samples[i])); // writes only before what is still to be read
    }
    *n = N_STRETCHES;
    return SM_OK;
}

// Takes ownership of `samples`.
static sm_status append_samples(double *samples, size_t n_samples, double median, double **out, size_t *n) {
    sm_status status = SM_OK;
    SM_TRY_GOTO(shorten(samples, &n_samples));
    double *more = sm_realloc(*out, (*n + n_samples + 1) * sizeof(**out));
    *out = more;
    memcpy(more + *n, n_samples > 0 ? samples : &median, (n_samples > 0 ? n_samples : 1) * sizeof(*more));
    *n += n_samples > 0 ? n_samples : 1;
cleanup:
    free(samples);
    return status;
}

// All samples of a side's few runs; a row without samples counts as one sample, its median.
static sm_status samples_of_runs(const sm_run_group *group, double **out, size_t *n) {
    *out = NULL;
    *n = 0;
    for (size_t i = 0; i < group->n_usable; i++) {
        double *samples = NULL;
        size_t n_samples = 0;
        sm_rows_samples(group->rows[i], "samples_ns", &samples, &n_samples);
        SM_TRY(append_samples(samples, n_samples, run_time(group->rows[i]), out, n));
    }
    return SM_OK;
}

static sm_status collect(const sm_run_group *a, const sm_run_group *b, values *v) {
    *v = (values){.basis = "runs"};
    if (isfinite(sm_json_number(a->rows[0], "compare_pair"))) {
        pairs_of_runs(a, b, v);
        return SM_OK;
    }
    if (a->n_usable >= SM_COMPARE_MIN_RUNS && b->n_usable >= SM_COMPARE_MIN_RUNS) {
        medians_of_runs(a, &v->a, &v->n_a);
        medians_of_runs(b, &v->b, &v->n_b);
        return SM_OK;
    }
    v->basis = "samples";
    SM_TRY(samples_of_runs(a, &v->a, &v->n_a));
    return samples_of_runs(b, &v->b, &v->n_b);
}

// --- one comparison ------------------------------------------------------------------------

static double percent(double log_ratio) { return 100 * expm1(log_ratio); }

static sm_verdict judge(const sm_difference *d, double threshold, const char **reason) {
    double change = expm1(d->estimate);
    *reason = NULL;
    if (!d->has_interval) {
        *reason = "too few runs or samples for any verdict";
        return SM_VERDICT_INCONCLUSIVE;
    }
    if (!(d->lo > 0 || d->hi < 0)) {
        *reason = "the interval of the change contains zero";
    } else if (!(fabs(change) >= threshold)) {
        *reason = "the change is below the threshold";
    } else {
        return change > 0 ? SM_VERDICT_SLOWER : SM_VERDICT_FASTER;
    }
    return SM_VERDICT_SAME;
}

static json_t *describe(const json_t *row) {
    char text[TEXT_SIZE];
    const char *device = sm_rows_text(row, "device");
    const char *isa = sm_rows_text(row, "isa");
    char mode[192];
    char precision[64];
    sm_text_mode(row, mode, sizeof(mode));
    sm_text_precision(row, precision, sizeof(precision));
    snprintf(text, sizeof(text), "%s%s%s%s%s%s%s", device[0] != '\0' ? device : sm_rows_text(row, "backend_used"),
             isa[0] != '\0' ? " " : "", isa, mode[0] != '\0' ? " " : "", mode, precision[0] != '\0' ? " " : "",
             precision);
    return sm_json_text(text);
}

// Runs in turn see the same disturbances; other runs each need a verdict.
static bool bears_no_verdict(const sm_run_group *a, const sm_run_group *b, const values *v, char *text,
                             size_t size_bytes) {
    return !v->paired && (sm_doubt_rows(a->rows, a->n_usable, text, size_bytes) ||
                          sm_doubt_rows(b->rows, b->n_usable, text, size_bytes));
}

static sm_status make_record(const sm_run_group *of_a, const sm_run_group *of_b, const values *v,
                             const sm_difference *d, double alpha, double threshold, sm_verdict *verdict,
                             json_t **made) {
    const json_t *a = of_a->rows[0];
    const json_t *b = of_b->rows[0];
    char differs[TEXT_SIZE];
    char doubt[TEXT_SIZE];
    const char *reason;
    double median_a;
    double median_b;
    SM_TRY(median_of(v->a, v->n_a, &median_a));
    SM_TRY(median_of(v->b, v->n_b, &median_b));
    json_t *record = json_object();
    *verdict = judge(d, threshold, &reason);
    const bool is_doubted = bears_no_verdict(of_a, of_b, v, doubt, sizeof(doubt));
    if (is_doubted) {
        *verdict = SM_VERDICT_INCONCLUSIVE;
        reason = doubt;
    }
    sm_identity_text(a, b, SM_FACTORS, differs, sizeof(differs));
    sm_json_put(record, {"verdict", json_string(sm_verdict_name(*verdict))}, {"reason", sm_json_text(reason)},
                {"test", sm_json_text(sm_rows_text(a, "test"))},
                {"model_type", sm_json_text(sm_rows_text(a, "model_type"))}, {"a", describe(a)}, {"b", describe(b)},
                {"differs", sm_json_text(differs)}, {"basis", json_string(v->basis)},
                {"n_a", json_integer((json_int_t)v->n_a)}, {"n_b", json_integer((json_int_t)v->n_b)},
                {"median_a_ns", sm_json_real(median_a)}, {"median_b_ns", sm_json_real(median_b)},
                {"change_percent", sm_json_real(is_doubted ? NAN : percent(d->estimate))},
                {"ci_lo_percent", sm_json_real(is_doubted ? NAN : percent(d->lo))},
                {"ci_hi_percent", sm_json_real(is_doubted ? NAN : percent(d->hi))},
                {"confidence", json_real(1 - alpha)}, {"p_value", sm_json_real(is_doubted ? NAN : d->p_value)},
                {"detectable_percent", sm_json_real(is_doubted ? NAN : percent(d->detectable))},
                {"threshold_percent", json_real(100 * threshold)});
    *made = record;
    return SM_OK;
}

static void append_record(json_t *array, json_t *record) { json_array_append_new(array, record); }

static void note(json_t *notes, const char *text) {
    for (size_t i = 0; i < json_array_size(notes); i++) {
        if (strcmp(json_string_value(json_array_get(notes, i)), text) == 0) {
            return;
        }
    }
    append_record(notes, json_string(text));
}

static void note_basis(json_t *notes, const char *basis) {
    if (strcmp(basis, "samples") == 0) {
        note(notes, "fewer than 5 runs a side: differences from run to run are unknown, so the verdict "
                    "holds for these runs only; compare --interleaved measures them");
        return;
    }
    if (strcmp(basis, "runs") == 0) {
        note(notes, "the runs of A and B were not interleaved: a drift of the machine would look like a "
                    "difference");
        return;
    }
}

// For few runs: whether their samples are reliable. For pairs: whether the machine was busy.
static void note_noise(json_t *notes, const char *basis, const char *side, const json_t *row) {
    char noise[256];
    char text[TEXT_SIZE];
    const bool is_doubted = sm_doubt_row(row, noise);
    if (!is_doubted) {
        sm_noise_text(row, noise, sizeof(noise));
    }
    if ((strcmp(basis, "samples") != 0 && !is_doubted) || noise[0] == '\0') {
        return;
    }
    snprintf(text, sizeof(text), "%s, %.100s: %s", side, sm_rows_text(row, "test"), noise);
    note(notes, text);
}

static sm_status weigh(const sm_run_group *a, const sm_run_group *b, double alpha, double threshold, sm_comparison *c) {
    values v;
    sm_difference d;
    sm_verdict verdict;
    json_t *record = NULL;
    sm_status status = SM_OK;
    SM_TRY_GOTO(collect(a, b, &v));
    SM_TRY_GOTO(v.paired ? sm_compare_paired(v.a, v.b, v.n_a, alpha, &d)
                         : sm_compare_unpaired(v.a, v.n_a, v.b, v.n_b, alpha, &d));
    SM_TRY_GOTO(make_record(a, b, &v, &d, alpha, threshold, &verdict, &record));
    append_record(c->compared, record);
    note_noise(c->notes, v.basis, "A", a->rows[0]);
    note_noise(c->notes, v.basis, "B", b->rows[0]);
    note_basis(c->notes, v.basis);
    c->verdict = verdict > c->verdict ? verdict : c->verdict;
cleanup:
    free(v.a);
    free(v.b);
    return status;
}

// --- what is not -----------------------------------------------------------------------------

static void set_apart(sm_comparison *c, const char *side, const json_t *row, const char *reason) {
    json_t *record = json_object();
    sm_json_put(record, {"side", json_string(side)}, {"model_type", sm_json_text(sm_rows_text(row, "model_type"))},
                {"test", sm_json_text(sm_rows_text(row, "test"))}, {"configuration", describe(row)},
                {"reason", sm_json_text(reason)});
    append_record(c->apart, record);
}

static void failure_text(const json_t *row, char *text, size_t size_bytes) {
    const char *reason = sm_rows_text(row, "reason");
    snprintf(text, size_bytes, "%s%s%s", sm_rows_status(row), reason[0] != '\0' ? ": " : "", reason);
}

// One side has no figure: reported without a verdict.
static void failed_match(sm_comparison *c, const sm_match *m) {
    char failure[TEXT_SIZE];
    char text[2 * TEXT_SIZE];
    bool a_failed = m->a->n_usable == 0;
    bool b_failed = m->b->n_usable == 0;
    const json_t *row = b_failed ? m->b->rows[0] : m->a->rows[0];
    failure_text(row, failure, sizeof(failure));
    snprintf(text, sizeof(text), "%s: %s", a_failed && b_failed ? "failed in both" : "failed here, ran in the other",
             failure);
    c->n_failed += b_failed && !a_failed && strcmp(sm_rows_status(row), "error") == 0;
    set_apart(c, a_failed && b_failed ? "both" : b_failed ? "b" : "a", row, text);
}

// The difference between a row and the most similar row of the other side; work counts first.
static void nearest_text(const sm_run_group *group, const sm_run_groups *others, bool is_a, char text[TEXT_SIZE]) {
    const json_t *row = group->rows[0];
    const sm_identity_key *key = &group->key;
    char work[TEXT_SIZE];
    char factor[TEXT_SIZE];
    const json_t *nearest = NULL;
    int least = INT_MAX;
    for (size_t j = 0; j < others->n; j++) {
        int distance;
        const unsigned differs = sm_identity_key_difference(key, &others->groups[j].key, 0, &distance);
        distance = SM_IDENTITY_COUNT * distance + __builtin_popcount(differs & SM_FACTORS);
        nearest = distance < least ? others->groups[j].rows[0] : nearest;
        least = distance < least ? distance : least;
    }
    if (nearest == NULL) {
        snprintf(text, TEXT_SIZE, "the other side is empty");
        return;
    }
    sm_identity_text(is_a ? row : nearest, is_a ? nearest : row, SM_SAME_WORK, work, sizeof(work));
    sm_identity_text(is_a ? row : nearest, is_a ? nearest : row, SM_FACTORS, factor, sizeof(factor));
    snprintf(text, TEXT_SIZE, "no match; the nearest differs in %.230s%s%.230s", work,
             work[0] != '\0' && factor[0] != '\0' ? ", " : "", factor);
}

static void list_unmatched(sm_comparison *c, const sm_run_groups *groups, const sm_run_groups *others, bool is_a) {
    char text[TEXT_SIZE];
    for (size_t i = 0; i < groups->n; i++) {
        if (!groups->groups[i].is_matched) {
            nearest_text(&groups->groups[i], others, is_a, text);
            set_apart(c, is_a ? "a" : "b", groups->groups[i].rows[0], text);
        }
    }
}

// --- all -------------------------------------------------------------------------------------

static sm_status compare_groups(sm_run_groups *a, sm_run_groups *b, const sm_compare_options *options, sm_matches *m,
                                sm_comparison *c) {
    SM_TRY(sm_find_matches(a, b, options->across, options->any_factor, m));
    double alpha = fmin(alpha_each, alpha_all / (double)(m->n > 0 ? m->n : 1));
    for (size_t i = 0; i < m->n; i++) {
        sm_match *pair = &m->matches[i];
        pair->a->is_matched = true;
        pair->b->is_matched = true;
        if (pair->a->n_usable == 0 || pair->b->n_usable == 0) {
            failed_match(c, pair);
        } else {
            SM_TRY(weigh(pair->a, pair->b, alpha, options->threshold, c));
        }
    }
    if (json_array_size(c->compared) == 0) {
        c->verdict = SM_VERDICT_INCONCLUSIVE;
    }
    list_unmatched(c, a, b, true);
    list_unmatched(c, b, a, false);
    return SM_OK;
}

static void show_interval(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    double lo = sm_json_number(record, column->name);
    double hi = sm_json_number(record, "ci_hi_percent");
    text[0] = '\0';
    if (isfinite(lo) && isfinite(hi)) {
        snprintf(text, size_bytes, "%+.2f to %+.2f%%", lo, hi);
    }
}

static const sm_column compare_columns[] = {
    SM_TEXT("verdict", "B against A: faster, slower, no-difference or inconclusive", .heading = "verdict",
            .rank = SM_RANK_ALWAYS),
    SM_TEXT("model_type", "size of the model by name", .heading = "model", .view = SM_SHOWN_WHEN_VARIED),
    SM_TEXT("test", "part of the step that a sample times", .heading = "test", .rank = 8),
    SM_TEXT("a", "configuration of A", .heading = "A", .rank = 6),
    SM_TEXT("b", "configuration of B", .heading = "B", .rank = 6),
    SM_TEXT("differs", "factors in which the two differ"),
    SM_REAL("median_a_ns", "ns", "median of A's values", .heading = "A ms", .show = sm_show_ms, .rank = 5),
    SM_REAL("median_b_ns", "ns", "median of B's values", .heading = "B ms", .show = sm_show_ms, .rank = 5),
    SM_REAL("change_percent", "%", "time of B against A's, Hodges-Lehmann; above zero: slower", .heading = "change",
            .format = "%+.2f%%", .rank = SM_RANK_ALWAYS),
    SM_REAL("ci_lo_percent", "%", "lower end of its interval", .heading = "interval", .show = show_interval, .rank = 7),
    SM_REAL("ci_hi_percent", "%", "upper end"),
    SM_REAL("confidence", "", "of the interval"),
    SM_REAL("p_value", "", "probability of a difference at least as large by chance", .heading = "p",
            .show = sm_show_real),
    SM_REAL("detectable_percent", "%", "smallest change that 4 of 5 such comparisons would detect",
            .heading = "could see", .format = "%.2f%%", .rank = 4),
    SM_REAL("threshold_percent", "%", "smallest change that counts"),
    SM_TEXT("basis", "kind of the values: medians of interleaved pairs, of runs, or samples", .heading = "basis"),
    SM_INTEGER("n_a", "", "values of A"),
    SM_INTEGER("n_b", "", "values of B"),
    SM_TEXT("reason", "why it is neither faster nor slower", .heading = "why not", .rank = 3),
};

const sm_table sm_compare_table = {"comparisons", compare_columns,
                                   sizeof(compare_columns) / sizeof(compare_columns[0])};

static const sm_column apart_columns[] = {
    SM_TEXT("side", "a, b or both", .heading = "side"),
    SM_TEXT("model_type", "size of the model by name", .heading = "model"),
    SM_TEXT("test", "part of the step that a sample times", .heading = "test"),
    SM_TEXT("configuration", "device, mode, precision", .heading = "configuration"),
    SM_TEXT("reason", "why it was not compared", .heading = "not compared because"),
};

const sm_table sm_apart_table = {"not_compared", apart_columns, sizeof(apart_columns) / sizeof(apart_columns[0])};

sm_status sm_compare(const json_t *rows_a, const json_t *rows_b, const sm_compare_options *options,
                     sm_comparison *comparison) {
    sm_run_groups a = {NULL, 0};
    sm_run_groups b = {NULL, 0};
    sm_matches m = {NULL, 0};
    sm_status status = SM_OK;
    *comparison = (sm_comparison){json_array(), json_array(), json_array(), SM_VERDICT_SAME, 0};
    sm_group_rows(rows_a, &a);
    sm_group_rows(rows_b, &b);
    SM_TRY_GOTO(compare_groups(&a, &b, options, &m, comparison));
cleanup:
    free(m.matches);
    sm_run_groups_free(&a);
    sm_run_groups_free(&b);
    if (status != SM_OK) {
        sm_comparison_free(comparison);
    }
    return status;
}

void sm_comparison_free(sm_comparison *comparison) {
    json_decref(comparison->compared);
    json_decref(comparison->apart);
    json_decref(comparison->notes);
    *comparison = (sm_comparison){NULL, NULL, NULL, SM_VERDICT_SAME, 0};
}
