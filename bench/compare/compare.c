// compare.c: matches two sets of rows, compares each match, lists the rows left out.
#include "bench/compare/compare.h"

#include <limits.h>

// From MIN_STRETCHED samples on, the medians of N_STRETCHES consecutive parts of a run replace its samples.
enum { MIN_STRETCHED = 40, N_STRETCHES = 20, TEXT_SIZE = 512 };

static const double alpha_each = 0.01;
static const double alpha_all = 0.05;

SM_WORDS(sm_verdict_name, sm_verdict, SM_VERDICT_LIST)

// --- which rows may be compared --------------------------------------------------------------
//
// Rows that did the same work are compared; they differ in how and where (the factors of bench/rows/identity.h).
// Rows of one side with the same work and factors are runs of one configuration.

// The runs of one configuration on one side.
typedef struct {
    const json_t **rows; // borrowed, in the order of the file
    size_t n_rows;
    size_t n_usable; // number of rows with figures, which come first; the rest failed
    bool is_matched;
    sm_identity_key key;
} run_group;

typedef struct {
    run_group *groups;
    size_t n;
} run_groups;

// Two groups of the same work.
typedef struct {
    run_group *a, *b;
    unsigned differs; // factors that differ
} match;

typedef struct {
    match *matches;
    size_t n;
} matches;

bool sm_row_is_ok(const json_t *row) {
    return strcmp(sm_rows_status(row), "ok") == 0 && sm_json_number(row, "median_ns") > 0;
}

bool sm_row_is_usable(const json_t *row) {
    return sm_row_is_ok(row) || (strcmp(sm_rows_status(row), "timeout") == 0 && sm_json_number(row, "median_ns") > 0);
}

static void add_row(run_groups *groups, const json_t *row) {
    sm_identity_key key;
    size_t g = 0;
    sm_identity_key_of(row, &key);
    while (g < groups->n && sm_identity_key_difference(&groups->groups[g].key, &key, ~0u, NULL) != 0) {
        g++;
    }
    run_group *group = &groups->groups[g];
    if (g == groups->n) {
        group->key = key;
        groups->n++;
    }
    size_t at = group->n_rows;
    SM_PUSH(group->rows, group->n_rows, row);
    if (sm_row_is_usable(row)) {
        memmove(group->rows + group->n_usable + 1, group->rows + group->n_usable,
                (at - group->n_usable) * sizeof(*group->rows));
        at = group->n_usable++;
    }
    group->rows[at] = row;
}

static run_groups group_rows(const json_t *rows) {
    run_groups groups = {sm_calloc(json_array_size(rows) + 1, sizeof(run_group)), 0};
    SM_EACH(row, rows) { add_row(&groups, row); }
    return groups;
}

static void free_groups(run_groups *groups) {
    for (size_t g = 0; g < groups->n; g++) {
        free(groups->groups[g].rows);
    }
    free(groups->groups);
}

// --- what is compared ----------------------------------------------------------------------

// Matches every two groups of the same work. With `only_equal` no others are of use once two are equal; with
// `only_nearest`, for each group of A, those that differ in the fewest factors.
static void pair_same_work(run_groups *a, run_groups *b, bool only_equal, bool only_nearest, matches *m) {
    bool needs_equal = false;
    for (size_t i = 0; i < a->n; i++) {
        const size_t first = m->n;
        int n_fewest = SM_IDENTITY_COUNT;
        for (size_t j = 0; j < b->n; j++) {
            const unsigned differs =
                sm_identity_key_difference(&a->groups[i].key, &b->groups[j].key, SM_SAME_WORK, NULL);
            if ((differs & SM_SAME_WORK) != 0 || (needs_equal && differs != 0) ||
                (only_nearest && __builtin_popcount(differs) > n_fewest)) {
                continue;
            }
            needs_equal = needs_equal || (only_equal && differs == 0);
            m->n = only_nearest && __builtin_popcount(differs) < n_fewest ? first : m->n;
            n_fewest = __builtin_popcount(differs);
            SM_PUSH(m->matches, m->n, (match){&a->groups[i], &b->groups[j], differs});
        }
    }
}

// Keeps those that differ in some of these factors and no others; with none, equal ones. false: there is none.
static bool keep(matches *m, unsigned factors) {
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++) {
        const unsigned differs = m->matches[i].differs;
        if (differs != 0 ? (differs & ~factors) == 0 : factors == 0) {
            m->matches[n++] = m->matches[i];
        }
    }
    m->n = n > 0 ? n : m->n;
    return n > 0;
}

// Keeps those that differ in one factor, the same for all.
static sm_status keep_single(matches *m) {
    unsigned single = 0;
    char names[TEXT_SIZE] = "";
    for (size_t i = 0; i < m->n; i++) {
        single |= __builtin_popcount(m->matches[i].differs) == 1 ? m->matches[i].differs : 0;
    }
    if (__builtin_popcount(single) == 1) {
        keep(m, single);
        return SM_OK;
    }
    m->n = 0;
    for (int i = SM_FACTOR_MACHINE; i < SM_IDENTITY_COUNT; i++) {
        if (single & 1u << i) {
            sm_append_part(names, sizeof(names), " and ", sm_identity_name((sm_identity)i));
        }
    }
    return single == 0
               ? SM_OK
               : sm_fail(SM_ERR_USAGE,
                         "rows of A and B differ in %s; name the properties that may differ with --across", names);
}

// Finds the matches to compare: with `any_factor`, for each group of A the groups of B that differ in the fewest
// factors; with `across` (bits), those that differ only in some of these; otherwise those that do not differ, or, if
// there are none, those that differ in one factor, which must be the same for all (SM_ERR_USAGE).
static sm_status find_matches(run_groups *a, run_groups *b, unsigned across, bool any_factor, matches *m) {
    pair_same_work(a, b, !any_factor && across == 0, any_factor, m);
    if (!any_factor && across == 0) {
        return keep(m, 0) ? SM_OK : keep_single(m);
    }
    m->n = any_factor || keep(m, across) || keep(m, 0) ? m->n : 0;
    return SM_OK;
}

static void free_matches(matches *m) { free(m->matches); }

// --- the values of a side ------------------------------------------------------------------

typedef struct {
    double *a, *b;
    size_t n_a, n_b;
    bool paired;
    const char *basis;
} values;

static double run_time(const json_t *row) { return sm_json_number(row, "median_ns"); }

static double median_of(const double *from, size_t n) { return sm_stats_of_reals(from, (int64_t)n).median; }

static void pairs_of_runs(const run_group *a, const run_group *b, values *v) {
    v->a = sm_malloc(a->n_usable * sizeof(*v->a));
    v->b = sm_malloc(a->n_usable * sizeof(*v->b));
    for (size_t i = 0; i < a->n_usable; i++) {
        const double pair = sm_json_number(a->rows[i], "compare_pair");
        size_t k = 0;
        while (k < b->n_usable && sm_json_number(b->rows[k], "compare_pair") != pair) {
            k++;
        }
        if (k < b->n_usable) {
            v->a[v->n_a++] = run_time(a->rows[i]);
            v->b[v->n_b++] = run_time(b->rows[k]);
        }
    }
}

// The medians of a side's runs; or, of few runs, all of their samples: of a run with many the medians of its stretches,
// of one without any its median.
static void values_of_runs(const run_group *group, bool takes_samples, double **out, size_t *n) {
    for (size_t i = 0; i < group->n_usable; i++) {
        size_t n_samples;
        SM_FREED double *samples = sm_rows_samples(group->rows[i], "samples_ns", &n_samples);
        n_samples = takes_samples ? n_samples : 0;
        const size_t n_parts = n_samples >= MIN_STRETCHED ? N_STRETCHES : n_samples > 0 ? n_samples : 1;
        *out = sm_realloc(*out, (*n + n_parts) * sizeof(**out));
        for (size_t k = 0; k < n_parts; k++) {
            const size_t first = k * n_samples / n_parts;
            const size_t end = (k + 1) * n_samples / n_parts;
            (*out)[(*n)++] = n_samples > 0 ? median_of(samples + first, end - first) : run_time(group->rows[i]);
        }
    }
}

sm_difference sm_compare_samples(const json_t *row_a, const json_t *row_b, const char *samples, double alpha) {
    size_t n_a, n_b;
    SM_FREED double *a = sm_rows_samples(row_a, samples, &n_a);
    SM_FREED double *b = sm_rows_samples(row_b, samples, &n_b);
    return sm_compare_unpaired(a, n_a, b, n_b, alpha);
}

static values collect(const run_group *a, const run_group *b) {
    values v = {.paired = isfinite(sm_json_number(a->rows[0], "compare_pair"))};
    if (v.paired) {
        v.basis = "pairs";
        pairs_of_runs(a, b, &v);
    } else {
        const bool are_few = a->n_usable < SM_COMPARE_MIN_RUNS || b->n_usable < SM_COMPARE_MIN_RUNS;
        v.basis = are_few ? "samples" : "runs";
        values_of_runs(a, are_few, &v.a, &v.n_a);
        values_of_runs(b, are_few, &v.b, &v.n_b);
    }
    return v;
}

// --- one comparison ------------------------------------------------------------------------

static double percent(double log_ratio) { return 100 * expm1(log_ratio); }

static sm_verdict judge(const sm_difference *d, double threshold, const char **reason) {
    const double change = expm1(d->estimate);
    *reason = !d->has_interval               ? "too few runs or samples for any verdict"
              : !(d->lo > 0 || d->hi < 0)    ? "the interval of the change contains zero"
              : !(fabs(change) >= threshold) ? "the change is below the threshold"
                                             : NULL;
    return !d->has_interval  ? SM_VERDICT_INCONCLUSIVE
           : *reason != NULL ? SM_VERDICT_SAME
           : change > 0      ? SM_VERDICT_SLOWER
                             : SM_VERDICT_FASTER;
}

static const char *describe(const json_t *row, char text[TEXT_SIZE]) {
    const char *device = sm_rows_text(row, "device");
    const char *parts[] = {device[0] != '\0' ? device : sm_rows_text(row, "backend_used"), sm_rows_text(row, "isa"),
                           SM_TEXT_MODE(row), SM_TEXT_PRECISION(row)};
    for (size_t i = 0; i < SM_COUNT(parts); i++) {
        sm_append_part(text, TEXT_SIZE, " ", parts[i]);
    }
    return text;
}
#define DESCRIBE(row) describe((row), (char[TEXT_SIZE]){""})

#define COMPARE_LIST(X)                                                                                                \
    X("verdict", TEXT, "", "B against A: faster, slower, no-difference or inconclusive", sm_verdict_name(*verdict),    \
      .heading = "verdict", .rank = SM_RANK_ALWAYS)                                                                    \
    X("model_type", TEXT, "", "size of the model by name", sm_rows_text(a, "model_type"), .heading = "model",          \
      .view = SM_SHOWN_WHEN_VARIED)                                                                                    \
    X("test", TEXT, "", "part of the step that a sample times", sm_rows_text(a, "test"), .heading = "test", .rank = 8) \
    X("a", TEXT, "", "configuration of A", DESCRIBE(a), .heading = "A", .rank = 6)                                     \
    X("b", TEXT, "", "configuration of B", DESCRIBE(b), .heading = "B", .rank = 6)                                     \
    X("differs", TEXT, "", "factors in which the two differ", differs, .heading = NULL)                                \
    X("median_a_ns", REAL, "ns", "median of A's values", median_of(v->a, v->n_a), .heading = "A ms",                   \
      .show = sm_show_ms, .rank = 5)                                                                                   \
    X("median_b_ns", REAL, "ns", "median of B's values", median_of(v->b, v->n_b), .heading = "B ms",                   \
      .show = sm_show_ms, .rank = 5)                                                                                   \
    X("change_percent", REAL, "%", "time of B against A's, Hodges-Lehmann; above zero: slower",                        \
      is_doubted ? NAN : percent(d->estimate), .heading = "change", .format = "%+.2f%%", .rank = SM_RANK_ALWAYS)       \
    X("ci_lo_percent", REAL, "%", "lower end of its interval", is_doubted ? NAN : percent(d->lo),                      \
      .heading = "interval", .format = "", .rank = 7, .beside = "%+.2f to %+.2f%%", .lo = "ci_lo_percent",             \
      .hi = "ci_hi_percent")                                                                                           \
    X("ci_hi_percent", REAL, "%", "upper end", is_doubted ? NAN : percent(d->hi), .heading = NULL)                     \
    X("confidence", REAL, "", "of the interval", 1 - alpha, .heading = NULL)                                           \
    X("p_value", REAL, "", "probability of a difference at least as large by chance", is_doubted ? NAN : d->p_value,   \
      .heading = "p", .show = sm_show_real)                                                                            \
    X("detectable_percent", REAL, "%", "smallest change that 4 of 5 such comparisons would detect",                    \
      is_doubted ? NAN : percent(d->detectable), .heading = "could see", .format = "%.2f%%", .rank = 4)                \
    X("threshold_percent", REAL, "%", "smallest change that counts", 100 * threshold, .heading = NULL)                 \
    X("basis", TEXT, "", "kind of the values: medians of interleaved pairs, of runs, or samples", v->basis,            \
      .heading = "basis")                                                                                              \
    X("n_a", INTEGER, "", "values of A", (int64_t)v->n_a, .heading = NULL)                                             \
    X("n_b", INTEGER, "", "values of B", (int64_t)v->n_b, .heading = NULL)                                             \
    X("reason", TEXT, "", "why it is neither faster nor slower", reason, .heading = "why not", .rank = 3)

const sm_table sm_compare_table = SM_LISTED_TABLE("comparisons", COMPARE_LIST);

static json_t *make_record(const run_group *of_a, const run_group *of_b, const values *v, const sm_difference *d,
                           double alpha, double threshold, sm_verdict *verdict) {
    const json_t *a = of_a->rows[0], *b = of_b->rows[0];
    char differs[TEXT_SIZE], doubt[TEXT_SIZE];
    const char *reason;
    *verdict = judge(d, threshold, &reason);
    // Runs in turn see the same disturbances; other runs each need a verdict.
    const bool is_doubted = !v->paired && (sm_doubt_rows(of_a->rows, of_a->n_usable, doubt, sizeof(doubt)) ||
                                           sm_doubt_rows(of_b->rows, of_b->n_usable, doubt, sizeof(doubt)));
    if (is_doubted) {
        *verdict = SM_VERDICT_INCONCLUSIVE;
        reason = doubt;
    }
    sm_identity_text(a, b, SM_FACTORS, true, differs, sizeof(differs));
    json_t *record = json_object();
    COMPARE_LIST(SM_LISTED_VALUE)
    return record;
}

// For few runs: whether their samples are reliable. For pairs: whether the machine was busy.
static void note_noise(json_t *notes, const char *basis, const char *side, const json_t *row) {
    char noise[256];
    const bool is_doubted = sm_doubt_row(row, noise);
    if (!is_doubted) {
        sm_noise_text(row, noise, sizeof(noise));
    }
    if ((strcmp(basis, "samples") == 0 || is_doubted) && noise[0] != '\0') {
        sm_json_note(notes, "%s, %.100s: %s", side, sm_rows_text(row, "test"), noise);
    }
}

static void weigh(const run_group *a, const run_group *b, double alpha, double threshold, sm_comparison *c) {
    sm_verdict verdict;
    const values v = collect(a, b);
    const sm_difference d =
        v.paired ? sm_compare_paired(v.a, v.b, v.n_a, alpha) : sm_compare_unpaired(v.a, v.n_a, v.b, v.n_b, alpha);
    json_array_append_new(c->compared, make_record(a, b, &v, &d, alpha, threshold, &verdict));
    note_noise(c->notes, v.basis, "A", a->rows[0]);
    note_noise(c->notes, v.basis, "B", b->rows[0]);
    if (strcmp(v.basis, "samples") == 0) {
        sm_json_note(c->notes, "fewer than 5 runs a side: differences from run to run are unknown, so the verdict "
                               "holds for these runs only; compare --interleaved measures them");
    } else if (strcmp(v.basis, "runs") == 0) {
        sm_json_note(c->notes,
                     "the runs of A and B were not interleaved: a drift of the machine would look like a difference");
    }
    c->verdict = verdict > c->verdict ? verdict : c->verdict;
    free(v.a);
    free(v.b);
}

// --- what is not -----------------------------------------------------------------------------

#define APART_LIST(X)                                                                                           \
    X("side", TEXT, "", "a, b or both", side, .heading = "side")                                                \
    X("model_type", TEXT, "", "size of the model by name", sm_rows_text(row, "model_type"), .heading = "model") \
    X("test", TEXT, "", "part of the step that a sample times", sm_rows_text(row, "test"), .heading = "test")   \
    X("configuration", TEXT, "", "device, mode, precision", DESCRIBE(row), .heading = "configuration")          \
    X("reason", TEXT, "", "why it was not compared", reason, .heading = "not compared because")

const sm_table sm_apart_table = SM_LISTED_TABLE("not_compared", APART_LIST);

static void set_apart(sm_comparison *c, const char *side, const json_t *row, const char *reason) {
    json_t *record = json_object();
    APART_LIST(SM_LISTED_VALUE)
    json_array_append_new(c->apart, record);
}

// One side has no figure: reported without a verdict.
static void failed_match(sm_comparison *c, const match *m) {
    const bool a_failed = m->a->n_usable == 0, b_failed = m->b->n_usable == 0;
    const json_t *row = b_failed ? m->b->rows[0] : m->a->rows[0];
    const char *reason = sm_rows_text(row, "reason");
    const char *text = SM_TEXT_IN(2 * TEXT_SIZE, "%s: %s%s%s",
                                  a_failed && b_failed ? "failed in both" : "failed here, ran in the other",
                                  sm_rows_status(row), reason[0] != '\0' ? ": " : "", reason);
    c->n_failed += b_failed && !a_failed && strcmp(sm_rows_status(row), "error") == 0;
    set_apart(c, a_failed && b_failed ? "both" : b_failed ? "b" : "a", row, text);
}

// The difference between a row and the most similar row of the other side; work counts first.
static void nearest_text(const run_group *group, const run_groups *others, bool is_a, char text[TEXT_SIZE]) {
    const json_t *row = group->rows[0];
    char work[TEXT_SIZE], factor[TEXT_SIZE];
    const json_t *nearest = NULL;
    int least = INT_MAX;
    for (size_t j = 0; j < others->n; j++) {
        int distance;
        const unsigned differs = sm_identity_key_difference(&group->key, &others->groups[j].key, 0, &distance);
        distance = SM_IDENTITY_COUNT * distance + __builtin_popcount(differs & SM_FACTORS);
        nearest = distance < least ? others->groups[j].rows[0] : nearest;
        least = distance < least ? distance : least;
    }
    if (nearest == NULL) {
        snprintf(text, TEXT_SIZE, "the other side is empty");
        return;
    }
    sm_identity_text(is_a ? row : nearest, is_a ? nearest : row, SM_SAME_WORK, true, work, sizeof(work));
    sm_identity_text(is_a ? row : nearest, is_a ? nearest : row, SM_FACTORS, true, factor, sizeof(factor));
    snprintf(text, TEXT_SIZE, "no match; the nearest differs in %.230s%s%.230s", work,
             work[0] != '\0' && factor[0] != '\0' ? ", " : "", factor);
}

static void list_unmatched(sm_comparison *c, const run_groups *groups, const run_groups *others, bool is_a) {
    char text[TEXT_SIZE];
    for (size_t i = 0; i < groups->n; i++) {
        if (!groups->groups[i].is_matched) {
            nearest_text(&groups->groups[i], others, is_a, text);
            set_apart(c, is_a ? "a" : "b", groups->groups[i].rows[0], text);
        }
    }
}

// --- all -------------------------------------------------------------------------------------

sm_status sm_compare(const json_t *rows_a, const json_t *rows_b, const sm_compare_options *options,
                     sm_comparison *comparison) {
    sm_comparison *c = comparison;
    SM_AT_END(free_groups) run_groups a = group_rows(rows_a);
    SM_AT_END(free_groups) run_groups b = group_rows(rows_b);
    SM_AT_END(free_matches) matches m = {NULL, 0};
    *c = (sm_comparison){json_array(), json_array(), json_array(), SM_VERDICT_SAME, 0};
    const sm_status status = find_matches(&a, &b, options->across, options->any_factor, &m);
    if (status != SM_OK) {
        sm_comparison_free(c);
        return status;
    }
    const double alpha = fmin(alpha_each, alpha_all / (double)(m.n > 0 ? m.n : 1));
    for (size_t i = 0; i < m.n; i++) {
        const match *pair = &m.matches[i];
        pair->a->is_matched = pair->b->is_matched = true;
        if (pair->a->n_usable == 0 || pair->b->n_usable == 0) {
            failed_match(c, pair);
        } else {
            weigh(pair->a, pair->b, alpha, options->threshold, c);
        }
    }
    c->verdict = json_array_size(c->compared) == 0 ? SM_VERDICT_INCONCLUSIVE : c->verdict;
    list_unmatched(c, &a, &b, true);
    list_unmatched(c, &b, &a, false);
    return SM_OK;
}

void sm_comparison_free(sm_comparison *comparison) {
    json_decref(comparison->compared);
    json_decref(comparison->apart);
    json_decref(comparison->notes);
    *comparison = (sm_comparison){NULL, NULL, NULL, SM_VERDICT_SAME, 0};
}
