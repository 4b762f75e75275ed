// configurations.c: the search for the fastest, and what it gains. See compare.h.
#include "bench/compare/compare.h"

// At most one in so many configurations runs: less than a fifth of a sweep. The budget has room for this many others,
// in addition to the first round and the last.
static const double one_run_in = 5.3;
enum { LEAST_OTHERS = 5, MOST_IN_ROUND = 8, MOST_RUNS = 3 };

// Logarithms of speeds.
static const double clear_gain = 0.02; // the search continues from another configuration if that is faster by this
static const double most_cost = 0.1;   // what is expected to be slower by more does not run
static const double hope = 0.4;        // of a level that did not fit, and may together with others

// A finished run.
typedef struct {
    sm_trial trial;
    sm_trial_outcome outcome;
    double log_speed; // NaN: none
} result;

struct sm_advisor {
    sm_choices choices;
    int n_meetings;
    int n_screened; // axes of round 0
    int n_last;     // rounds of only the default and the fastest
    int64_t from;   // the configuration next to which others are tried
    bool is_over;
    int round;
    int64_t *queue; // of the round
    int n_queue, next;
    result *results;
    int n_results;
};

int64_t sm_choices_count(const sm_choices *c) {
    int64_t n = 1;
    for (int axis = 0; axis < c->n_axes; axis++) {
        n *= c->n_levels[axis];
    }
    return n;
}

int sm_choices_level(const sm_choices *c, int64_t configuration, int axis) {
    for (int i = c->n_axes - 1; i > axis; i--) {
        configuration /= c->n_levels[i];
    }
    return (int)(configuration % c->n_levels[axis]);
}

// The configuration that differs from `of` only on that axis.
static int64_t neighbour(const sm_choices *c, int64_t of, int axis, int level) {
    int64_t place = 1;
    for (int i = axis + 1; i < c->n_axes; i++) {
        place *= c->n_levels[i];
    }
    return of + (level - sm_choices_level(c, of, axis)) * place;
}

static int count_others(const sm_choices *c) {
    int n = 0;
    for (int axis = 0; axis < c->n_axes; axis++) {
        n += c->n_levels[axis] - 1;
    }
    return n;
}

// --- what is known ---------------------------------------------------------------------------------

static double default_in(const sm_advisor *a, int round) {
    for (int i = 0; i < a->n_results; i++) {
        if (a->results[i].trial.configuration == 0 && a->results[i].trial.round == round) {
            return a->results[i].log_speed;
        }
    }
    return NAN;
}

// The speed that a round's speeds are relative to: the default's in that round, or its last one before; 0 without any.
// All of round 0 depends on it, so the faster of the first two counts, as disturbances only slow.
static double base_of(const sm_advisor *a, int round) {
    while (round > 0 && !isfinite(default_in(a, round))) {
        round--;
    }
    const double base = round > 0 ? default_in(a, round) : fmax(default_in(a, 0), default_in(a, 1)); // ignores NaN
    return isfinite(base) ? base : 0;
}

// Mean gain over the default in all rounds, as a logarithm; with three or more rounds without the smallest and the
// largest, which may be disturbed. NaN if a run failed or there was none.
static double measured_gain(const sm_advisor *a, int64_t configuration) {
    double sum = 0, least = INFINITY, largest = -INFINITY;
    int n = 0;
    for (int i = 0; i < a->n_results; i++) {
        const result *r = &a->results[i];
        if (r->trial.configuration == configuration) {
            const double gain = r->log_speed - base_of(a, r->trial.round);
            sum += gain;
            least = fmin(least, gain);
            largest = fmax(largest, gain);
            n++;
        }
    }
    return n > 2 ? (sum - least - largest) / (n - 2) : n > 0 ? sum / n : NAN;
}

// A configuration of round 0 that did not run again was faster by chance, if at all.
int64_t sm_advisor_best(const sm_advisor *a) {
    int64_t best = -1;
    double best_gain = -INFINITY;
    for (int i = 0; i < a->n_results; i++) {
        const sm_trial *trial = &a->results[i].trial;
        const double gain = a->round < 2 || trial->round > 0 ? measured_gain(a, trial->configuration) : NAN;
        if (gain > best_gain) {
            best = trial->configuration;
            best_gain = gain;
        }
    }
    return best;
}

// --- what is expected --------------------------------------------------------------------------------

static int distance(const sm_choices *c, int64_t x, int64_t y) {
    int n = 0;
    for (int axis = 0; axis < c->n_axes; axis++) {
        n += sm_choices_level(c, x, axis) != sm_choices_level(c, y, axis);
    }
    return n;
}

// A level's gain over that of `from`, as measured next to the configuration nearest to `from` that ran with both, since
// a flag's gain may depend on the others. NaN: it failed.
static double expected_gain(const sm_advisor *a, int axis, int level) {
    const sm_choices *c = &a->choices;
    const int own = sm_choices_level(c, a->from, axis);
    double gain = NAN;
    int nearest = SM_ADVISOR_MAX_AXES + 1;
    bool is_large = false, has_run = false; // large: it did not fit so far
    for (int i = 0; i < a->n_results && level != own; i++) {
        const int64_t one = a->results[i].trial.configuration;
        const int64_t with_own = neighbour(c, one, axis, own);
        const double its = measured_gain(a, one) - measured_gain(a, with_own);
        const int away = distance(c, with_own, a->from);
        if (sm_choices_level(c, one, axis) == level) {
            is_large = is_large || a->results[i].outcome == SM_TRIAL_TOO_LARGE;
            has_run = has_run || isfinite(measured_gain(a, one));
            if (isfinite(its) && away < nearest) {
                nearest = away;
                gain = its;
            }
        }
    }
    return level == own ? 0 : isfinite(gain) ? gain : has_run || level == 0 ? 0 : is_large ? hope : NAN;
}

// The configuration with the highest expected speed: the product of what all its levels gain over those of `from`. One
// next to `from` may be expected to lose four times as much, as it may gain here what it did not gain elsewhere. One
// that ran is expected to gain what it did, and runs again, in other rounds, where that is next to nothing. -1: none.
static int64_t most_promising(const sm_advisor *a) {
    static double gains[SM_ADVISOR_MAX_AXES][SM_ADVISOR_MAX_LEVELS];
    int64_t best = -1;
    double best_gain = -most_cost;
    for (int axis = 0; axis < a->choices.n_axes; axis++) {
        for (int level = 0; level < a->choices.n_levels[axis]; level++) {
            gains[axis][level] = expected_gain(a, axis, level);
        }
    }
    for (int64_t one = 0; one < sm_choices_count(&a->choices); one++) {
        double gain = 0;
        int n_runs = 0;
        bool is_candidate = true;
        for (int axis = 0; axis < a->choices.n_axes; axis++) {
            gain += gains[axis][sm_choices_level(&a->choices, one, axis)];
        }
        gain = gain < 0 && distance(&a->choices, one, a->from) == 1 ? gain / 4 : gain;
        for (int i = 0; i < a->n_results && gain > best_gain; i++) {
            if (a->results[i].trial.configuration == one) {
                n_runs += a->results[i].trial.round > 0;
                gain = 2 * (measured_gain(a, one) - measured_gain(a, a->from));
                is_candidate = one != 0 && n_runs < MOST_RUNS && a->results[i].trial.round < a->round;
            }
        }
        if (gain > best_gain && is_candidate) {
            best = one;
            best_gain = gain;
        }
    }
    return best;
}

// --- rounds ------------------------------------------------------------------------------------------

static void enqueue(sm_advisor *a, int64_t configuration) { a->queue[a->n_queue++] = configuration; }

// A round begins with the default, to which the others are relative, and the fastest; they alternate.
static void begin_round(sm_advisor *a, int64_t fastest) {
    const bool has_default = fastest == 0 || isfinite(measured_gain(a, 0));
    a->round++;
    a->n_queue = 0;
    a->next = 0;
    for (int i = 0; i < 2; i++) {
        if (i == a->round % 2 && fastest != 0) {
            enqueue(a, fastest);
        } else if (i != a->round % 2 && has_default) {
            enqueue(a, 0);
        }
    }
}

// How often a configuration and the default still have to meet in a round.
static int count_left_to_meet(const sm_advisor *a, int64_t configuration) {
    int n = 0;
    for (int i = 0; i < a->n_results; i++) {
        const result *r = &a->results[i];
        n += r->trial.configuration == configuration && isfinite(r->log_speed) &&
             isfinite(default_in(a, r->trial.round));
    }
    return n < a->n_meetings ? a->n_meetings - n : 0;
}

// With very many configurations, twice the minimum is enough.
static int most_runs(const sm_advisor *a) {
    const int least = count_others(&a->choices) + 1 + 2 * a->n_meetings + LEAST_OTHERS;
    const double share = (double)sm_choices_count(&a->choices) / one_run_in;
    return (int)fmin(fmax(share, least), 2 * least);
}

static int count_runs_done(const sm_advisor *a) {
    int n = 0;
    for (int i = 0; i < a->n_results; i++) {
        n += a->results[i].outcome != SM_TRIAL_TOO_LARGE;
    }
    return n;
}

// Enqueues what runs next. Round 0: every other level of each axis, next to the fastest so far.
static void plan(sm_advisor *a) {
    const int64_t best = sm_advisor_best(a);
    const bool is_clear = best >= 0 && !(measured_gain(a, best) < measured_gain(a, a->from) + clear_gain);
    a->from = is_clear ? best : a->from; // otherwise chance would add up
    if (a->n_screened < a->choices.n_axes) {
        const int axis = a->choices.order[a->n_screened++];
        const int64_t from = a->from;
        for (int level = 0; level < a->choices.n_levels[axis]; level++) {
            if (level != sm_choices_level(&a->choices, from, axis)) {
                enqueue(a, neighbour(&a->choices, from, axis, level));
            }
        }
        return;
    }
    const int n_left = count_left_to_meet(a, best);
    const bool has_room = best >= 0 && count_runs_done(a) + 2 * n_left < most_runs(a);
    const int64_t next = has_room && a->n_last == 0 ? most_promising(a) : -1;
    if (next >= 0 && a->round > 0 && a->next < MOST_IN_ROUND) {
        enqueue(a, next);
    } else if (next >= 0) { // another round, as machines drift
        begin_round(a, best);
    } else if (best <= 0 || !isfinite(measured_gain(a, 0)) || n_left == 0 || a->n_last++ == a->n_meetings) {
        a->is_over = true; // two equals may alternate
    } else {
        begin_round(a, best);
    }
}

// --- the interface -----------------------------------------------------------------------------------

sm_advisor *sm_advisor_open(const sm_choices *choices, int n_meetings) {
    sm_advisor *a = sm_calloc(1, sizeof(*a));
    a->queue = sm_calloc((size_t)count_others(choices) + 1 + MOST_IN_ROUND, sizeof(*a->queue));
    a->choices = *choices;
    a->n_meetings = n_meetings;
    enqueue(a, 0);
    return a;
}

void sm_advisor_close(sm_advisor *a) {
    if (a != NULL) {
        free(a->queue);
        free(a->results);
        free(a);
    }
}

bool sm_advisor_next(sm_advisor *a, sm_trial *trial) {
    while (a->next == a->n_queue && !a->is_over) {
        plan(a);
    }
    if (!a->is_over) {
        *trial = (sm_trial){a->queue[a->next], a->round};
    }
    return !a->is_over;
}

void sm_advisor_take(sm_advisor *a, sm_trial_outcome outcome, double speed) {
    const bool has_speed = outcome == SM_TRIAL_MEASURED && speed > 0 && isfinite(speed);
    SM_PUSH(a->results, a->n_results,
            (result){{a->queue[a->next], a->round}, outcome, .log_speed = has_speed ? log(speed) : NAN});
    a->next++;
    if (outcome == SM_TRIAL_TOO_LARGE && a->round > 0) { // it was not even started
        a->n_queue--;
        a->next--;
    }
}

int sm_advisor_most_left(const sm_advisor *a) {
    if (a->is_over) {
        return 0;
    }
    const int n_done_of_round = a->next < a->n_queue ? a->next : 0;
    const int n_last = 2 * count_left_to_meet(a, sm_advisor_best(a)) - n_done_of_round;
    const int n_left = a->n_last > 0 ? n_last : most_runs(a) - count_runs_done(a);
    return n_left > a->n_queue - a->next ? n_left : a->n_queue - a->next;
}

// --- gains -------------------------------------------------------------------------------------

enum { LEAST_PAIRS = 6 }; // with fewer there is no 95% interval
static const double alpha = 0.05;

// "1.36 (1.31-1.41)"; the status if there is no gain.
static void show_gain(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const char *verdict = sm_rows_text(record, "verdict");
    sm_show_real(record, column, text, size_bytes);
    if (text[0] == '\0') {
        snprintf(text, size_bytes, "%s", verdict[0] != '\0' ? verdict : sm_rows_text(record, "status"));
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
            .heading = "times the default's (95%)", .brief_heading = "gain (95%)", .show = show_gain, .format = "%.2f",
            .beside = " (%.2f-%.2f)", .lo = "gain_ci95_lo", .hi = "gain_ci95_hi", .rank = SM_RANK_ALWAYS),
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

static bool has_figures(const json_t *row) { return sm_row_is_ok(row) && sm_json_number(row, "real_tokens") > 0; }

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
    size_t n = 0, n_doubted = 0;
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

// Judges by round where both have figures in a round; by sample over all rounds, because a default disturbed in
// one round would affect all that ran in that round only.
static void judge(const json_t *default_rows, const json_t *rows, json_t *record) {
    const size_t n_rounds = json_array_size(rows);
    SM_FREED double *medians_a = sm_calloc(n_rounds + 1, sizeof(double));
    SM_FREED double *medians_b = sm_calloc(n_rounds + 1, sizeof(double));
    char doubt[SM_DOUBT_SIZE];
    size_t n = 0, n_a, n_b;
    for (size_t round = 0; round < n_rounds; round++) {
        const json_t *a = json_array_get(default_rows, round), *b = json_array_get(rows, round);
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
    SM_EACH(row, rows) {
        const json_t *value = json_object_get(row, name);
        const bool is_more = json_is_integer(value) && (most == SM_ABSENT || json_integer_value(value) > most);
        most = is_more ? json_integer_value(value) : most;
    }
    return most;
}

// The row of a round that did not run, if there is one.
static const json_t *telling_row(const json_t *rows) {
    const json_t *last = NULL;
    SM_EACH(row, rows) { last = json_is_object(row) && (last == NULL || has_figures(last)) ? row : last; }
    return last;
}

static json_t *make_record(const sm_advice_case *its, const json_t *default_rows) {
    const json_t *row = telling_row(its->rows);
    const bool is_default = its->flags[0] == '\0';
    const bool on_card = sm_rows_has(row, "gpu_info");
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

// Rows are in the order of their gain, or of speed without a default; failures come last, in the order of trying.
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
