// configuration_search.c: see compare.h.
#include "bench/compare/compare.h"

#include <math.h>

// At most one in so many configurations runs: less than a fifth of a sweep. The budget has room for this many others,
// in addition to the first round and the last.
static const double one_run_in = 5.3;
enum { LEAST_OTHERS = 5, MOST_IN_ROUND = 8, MOST_RUNS = 3 };

// Logarithms of speeds.
static const double clear_gain = 0.02; // the search goes on from another configuration if that is faster by this
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
    int n_queue;
    int next; // in the queue
    result *results;
    int n_results;
    int room;
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
    double sum = 0;
    double least = INFINITY;
    double largest = -INFINITY;
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
    bool is_large = false; // it did not fit so far
    bool has_run = false;
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
// next to `from` may be expected to lose four times as much, as it may gain here what it did not gain elsewhere. One that
// ran is expected to gain what it did, and runs again, in other rounds, where that is next to nothing. -1: none.
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
    SM_GROW(a->results, a->n_results, a->room);
    const bool has_speed = outcome == SM_TRIAL_MEASURED && speed > 0 && isfinite(speed);
    a->results[a->n_results++] =
        (result){.trial = {a->queue[a->next], a->round}, .outcome = outcome, .log_speed = has_speed ? log(speed) : NAN};
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
