// configuration_search.c: see compare.h.
#include "bench/compare/compare.h"

#include <math.h>
#include <stdlib.h>

// At most one in so many configurations runs: less than a fifth of a sweep. The budget has room for this many
// challengers, in addition to screening and confirming.
static const double one_run_in = 5.3;

enum { LEAST_CHALLENGERS = 5, MOST_IN_ROUND = 6, MOST_RUNS_OF_TIE = 3, ANY_AXIS = -1 };

// Logarithms of speeds. A gain below `noise` may be none. The search continues from another configuration if that is
// faster by `clear_gain`. A level expected to cost more than `most_cost` is not tried alone, nor two that cost more
// than `most_cost_of_two`. Configurations within `tie` of the fastest run again.
static const double noise = 0.012;
static const double clear_gain = 0.02;
static const double most_cost = 0.4;
static const double most_cost_of_two = 0.1;
static const double tie = 0.04;

typedef enum { STAGE_SCREEN, STAGE_CLIMB, STAGE_CONFIRM, STAGE_OVER } stage;

// A finished run.
typedef struct {
    sm_trial trial;
    sm_trial_outcome outcome;
    double log_speed; // NaN: none
} result;

struct sm_advisor {
    sm_choices choices;
    int n_meetings;
    int n_confirmed;                                              // rounds of only the default and the fastest
    int n_screened;                                               // axes
    int64_t screened[SM_ADVISOR_MAX_AXES][SM_ADVISOR_MAX_LEVELS]; // where each level ran first; [0]: what it ran next
                                                                  // to
    int64_t from;                                                 // the configuration from which the search continues
    stage stage;                                                  // of the queue
    int round;
    int64_t *queue;
    int n_queue;
    int next; // in the queue
    result *results;
    int n_results;
    int room;
    double effects[SM_ADVISOR_MAX_AXES][SM_ADVISOR_MAX_LEVELS]; // gain of changing `from`'s level to this one; NaN:
                                                                // given up
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

// Number of axes on which two differ.
static int distance(const sm_choices *c, int64_t x, int64_t y) {
    int n = 0;
    for (int axis = 0; axis < c->n_axes; axis++) {
        n += sm_choices_level(c, x, axis) != sm_choices_level(c, y, axis);
    }
    return n;
}

static int count_screened(const sm_choices *c) {
    int n = 0;
    for (int axis = 0; axis < c->n_axes; axis++) {
        n += c->n_levels[axis] - 1;
    }
    return n;
}

// --- what is known ---------------------------------------------------------------------------------

static const result *find(const sm_advisor *a, int64_t configuration, int round) {
    for (int i = 0; i < a->n_results; i++) {
        if (a->results[i].trial.configuration == configuration && a->results[i].trial.round == round) {
            return &a->results[i];
        }
    }
    return NULL;
}

static double default_in(const sm_advisor *a, int round) {
    const result *r = find(a, 0, round);
    return r != NULL ? r->log_speed : NAN;
}

// The speed that a round's speeds are relative to: the default's in that round, or its last one before. All of round 0
// depends on it, so the default runs again at the end of the round and the faster run counts, as disturbances only
// slow. If the default has no speed, the mean of round 0.
static double base_of(const sm_advisor *a, int round) {
    double sum = 0;
    int n = 0;
    for (; round > 0; round--) {
        if (isfinite(default_in(a, round))) {
            return default_in(a, round);
        }
    }
    const double base = fmax(default_in(a, 0), default_in(a, 1)); // fmax ignores NaN
    for (int i = 0; i < a->n_results && !isfinite(base); i++) {
        if (a->results[i].trial.round == 0 && isfinite(a->results[i].log_speed)) {
            sum += a->results[i].log_speed;
            n++;
        }
    }
    return isfinite(base) ? base : n > 0 ? sum / n : 0;
}

// Mean gain over the default in all rounds, as a logarithm; with three or more rounds without the smallest and the
// largest, which may be disturbed. NaN if a run failed or there was none: a configuration that runs only sometimes is
// not recommended.
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
        const bool counts = a->round < 2 || a->results[i].trial.round > 0;
        const double gain = counts ? measured_gain(a, a->results[i].trial.configuration) : NAN;
        if (gain > best_gain) {
            best = a->results[i].trial.configuration;
            best_gain = gain;
        }
    }
    return best;
}

// --- what is expected --------------------------------------------------------------------------------

static const result *screened(const sm_advisor *a, int axis, int level) { return find(a, a->screened[axis][level], 0); }

// Whether the level did not fit in its first run.
static bool is_large(const sm_advisor *a, int axis, int level) {
    return level > 0 && screened(a, axis, level)->outcome == SM_TRIAL_TOO_LARGE;
}

static double gain_of_first_run(const sm_advisor *a, int axis, int level) {
    const double base = screened(a, axis, 0)->log_speed;
    return level > 0 ? screened(a, axis, level)->log_speed - (isfinite(base) ? base : base_of(a, 0)) : 0;
}

// A level's first gain. One that did not fit may fit with others (a batch with recomputation): it is expected to gain
// as much as the best of its axis.
static double first_gain(const sm_advisor *a, int axis, int level) {
    double best = 0;
    for (int other = 1; other < a->choices.n_levels[axis] && is_large(a, axis, level); other++) {
        best = fmax(best, gain_of_first_run(a, axis, other)); // fmax ignores NaN
    }
    return is_large(a, axis, level) ? best : gain_of_first_run(a, axis, level);
}

// A level's gain over that of `from`, as measured next to the configuration nearest to `from` that ran with both, since
// a flag's gain may depend on the others.
static double learn_level(const sm_advisor *a, int axis, int level) {
    const int its = sm_choices_level(&a->choices, a->from, axis);
    double gain = first_gain(a, axis, level) - first_gain(a, axis, its);
    int nearest = SM_ADVISOR_MAX_AXES + 1;
    for (int i = 0; i < a->n_results; i++) {
        const int64_t one = a->results[i].trial.configuration;
        const int64_t other = neighbour(&a->choices, one, axis, level);
        const int away = distance(&a->choices, one, a->from);
        if (sm_choices_level(&a->choices, one, axis) == its && away < nearest && isfinite(measured_gain(a, one)) &&
            isfinite(measured_gain(a, other))) {
            nearest = away;
            gain = measured_gain(a, other) - measured_gain(a, one);
        }
    }
    return gain;
}

// Updates the expectations relative to `from`.
static void learn(sm_advisor *a, int64_t from) {
    a->from = from;
    for (int axis = 0; axis < a->choices.n_axes; axis++) {
        for (int level = 0; level < a->choices.n_levels[axis]; level++) {
            const bool is_its = level == sm_choices_level(&a->choices, from, axis);
            a->effects[axis][level] = is_its ? 0 : learn_level(a, axis, level) - noise;
        }
    }
}

// --- rounds ------------------------------------------------------------------------------------------

static bool is_queued(const sm_advisor *a, int64_t configuration) {
    bool found = false;
    for (int i = 0; i < a->n_queue && !found; i++) {
        found = a->queue[i] == configuration;
    }
    return found;
}

// The configuration with the highest expected speed among those that were not tried and differ from `from` on at most
// so many axes, if it gains more than `least`: the product of the gains of all changed levels. -1: none. `large` is an
// axis, or ANY_AXIS: then only those with one of its levels that do not fit alone.
static int64_t most_promising(const sm_advisor *a, int large, int most_distance, double least) {
    int64_t best = -1;
    double best_gain = least;
    for (int64_t one = 0; one < sm_choices_count(&a->choices); one++) {
        bool counts = (large == ANY_AXIS || is_large(a, large, sm_choices_level(&a->choices, one, large))) &&
                      distance(&a->choices, one, a->from) <= most_distance && !is_queued(a, one);
        for (int i = 0; i < a->n_results && counts; i++) {
            counts = a->results[i].trial.configuration != one;
        }
        double gain = counts ? 0 : NAN;
        for (int axis = 0; axis < a->choices.n_axes && counts; axis++) {
            gain += a->effects[axis][sm_choices_level(&a->choices, one, axis)];
        }
        if (gain > best_gain) {
            best = one;
            best_gain = gain;
        }
    }
    return best;
}

// For an axis with levels that do not fit alone: the most promising configuration with such a level, until one has run.
// Expectations do not exclude it, as the gain of such a level is unknown.
static int64_t most_promising_large(const sm_advisor *a) {
    int64_t promising = -1;
    for (int axis = 0; axis < a->choices.n_axes && promising < 0; axis++) {
        bool has_run = false;
        for (int i = 0; i < a->n_results; i++) {
            const int level = sm_choices_level(&a->choices, a->results[i].trial.configuration, axis);
            has_run = has_run || (isfinite(a->results[i].log_speed) && is_large(a, axis, level));
        }
        promising = has_run ? -1 : most_promising(a, axis, SM_ADVISOR_MAX_AXES, -INFINITY);
    }
    return promising;
}

// A configuration about as fast as `from` that has not run often; -1: none.
static int64_t nearest_tie(const sm_advisor *a) {
    int64_t best = -1;
    double best_gain = measured_gain(a, a->from) - tie;
    for (int i = 0; i < a->n_results; i++) {
        const int64_t one = a->results[i].trial.configuration;
        const double gain = measured_gain(a, one);
        int n_runs = 0; // after round 0
        for (int k = 0; k < a->n_results; k++) {
            n_runs += a->results[k].trial.configuration == one && a->results[k].trial.round > 0;
        }
        if (gain > best_gain && one != 0 && !is_queued(a, one) && n_runs < MOST_RUNS_OF_TIE) {
            best = one;
            best_gain = gain;
        }
    }
    return best;
}

static void enqueue(sm_advisor *a, int64_t configuration) { a->queue[a->n_queue++] = configuration; }

static void begin_round(sm_advisor *a, stage next) {
    a->stage = next;
    a->round++;
    a->n_queue = 0;
    a->next = 0;
}

// Starts a round with the default, to which the others are relative, and another one. They alternate.
static void begin_with_default(sm_advisor *a, stage next, int64_t other) {
    const bool has_default = other == 0 || isfinite(measured_gain(a, 0));
    begin_round(a, next);
    if (has_default && a->round % 2 == 1) {
        enqueue(a, 0);
    }
    if (other != 0) {
        enqueue(a, other);
    }
    if (has_default && a->round % 2 == 0) {
        enqueue(a, 0);
    }
}

// How often a configuration and the default still have to meet in a round.
static int count_left_to_meet(const sm_advisor *a, int64_t configuration) {
    int n = 0;
    for (int i = 0; i < a->n_results; i++) {
        const result *r = &a->results[i];
        const result *other = r->trial.configuration == configuration ? find(a, 0, r->trial.round) : NULL;
        n += other != NULL && isfinite(r->log_speed) && isfinite(other->log_speed);
    }
    return n < a->n_meetings ? a->n_meetings - n : 0;
}

// With very many configurations, twice the minimum is enough.
static int most_runs(const sm_advisor *a) {
    const int least = count_screened(&a->choices) + 1 + 2 * a->n_meetings + LEAST_CHALLENGERS;
    const double share = (double)sm_choices_count(&a->choices) / one_run_in;
    return (int)fmin(fmax(share, least), 2 * least);
}

// Number of runs started.
static int count_runs_done(const sm_advisor *a) {
    int n = 0;
    for (int i = 0; i < a->n_results; i++) {
        n += a->results[i].outcome != SM_TRIAL_TOO_LARGE;
    }
    return n;
}

// Whether `best` is clearly faster than the configuration from which the search continues.
static bool is_clearly_faster(const sm_advisor *a, int64_t best) {
    return !(measured_gain(a, best) < measured_gain(a, a->from) + clear_gain);
}

// Screens every other level of the next axis next to the fastest so far if that is significant, otherwise next to the
// configuration of the last axis, so that chance does not accumulate.
static void screen(sm_advisor *a) {
    const int axis = a->choices.order[a->n_screened++];
    const int64_t best = sm_advisor_best(a);
    a->from = best >= 0 && is_clearly_faster(a, best) ? best : a->from;
    a->screened[axis][0] = a->from;
    for (int level = 1; level < a->choices.n_levels[axis]; level++) {
        a->screened[axis][level] = neighbour(&a->choices, a->from, axis, level);
        enqueue(a, a->screened[axis][level]);
    }
}

// Tries one more next to the fastest, from which the search continues; in a new round if this one is long, as machines
// drift: those expected to be faster, levels that were too large alone, then each other level of `from`, which may gain
// here what it did not gain elsewhere, and ties. Another run must leave enough for the final rounds.
static void climb(sm_advisor *a) {
    const int64_t best = sm_advisor_best(a);
    int64_t next = -1;
    learn(a, is_clearly_faster(a, best) ? best : a->from);
    if (count_runs_done(a) + 2 * count_left_to_meet(a, best) < most_runs(a)) {
        next = most_promising(a, ANY_AXIS, SM_ADVISOR_MAX_AXES, 0);
        next = next >= 0 ? next : most_promising_large(a);
        next = next >= 0 ? next : most_promising(a, ANY_AXIS, 1, -most_cost);
        next = next >= 0 ? next : nearest_tie(a);
        next = next >= 0 ? next : most_promising(a, ANY_AXIS, 2, -most_cost_of_two);
    }
    if (next < 0) {
        a->stage = STAGE_CONFIRM;
    } else if (a->next < MOST_IN_ROUND + 2) {
        enqueue(a, next);
    } else {
        begin_with_default(a, STAGE_CLIMB, best);
    }
}

static void plan_round(sm_advisor *a) {
    const int64_t best = sm_advisor_best(a);
    if (a->stage == STAGE_SCREEN && a->n_screened < a->choices.n_axes) {
        screen(a);
    } else if (a->stage == STAGE_SCREEN && best >= 0) { // combines the levels that gained
        learn(a, best);
        const int64_t guess = most_promising(a, ANY_AXIS, SM_ADVISOR_MAX_AXES, 0);
        begin_with_default(a, STAGE_CLIMB, guess >= 0 ? guess : best);
    } else if (a->stage == STAGE_CLIMB) {
        climb(a);
    } else if (a->stage == STAGE_SCREEN || best <= 0 || !isfinite(measured_gain(a, 0)) ||
               count_left_to_meet(a, best) == 0 || a->n_confirmed++ == a->n_meetings) { // two equals may alternate
        begin_round(a, STAGE_OVER);
    } else {
        begin_with_default(a, STAGE_CONFIRM, best);
    }
}

// --- the interface -----------------------------------------------------------------------------------

sm_status sm_advisor_open(const sm_choices *choices, int n_meetings, sm_advisor **made) {
    *made = NULL;
    SM_FAIL_IF(choices->n_axes < 0 || choices->n_axes > SM_ADVISOR_MAX_AXES, SM_ERR_INVALID,
               "%d choices at once, and at most %d may be made", choices->n_axes, SM_ADVISOR_MAX_AXES);
    unsigned seen = 0; // axes of the order, bits
    for (int i = 0; i < choices->n_axes; i++) {
        seen |= choices->order[i] >= 0 && choices->order[i] < choices->n_axes ? 1u << choices->order[i] : 0;
    }
    SM_FAIL_IF(seen != (1u << choices->n_axes) - 1, SM_ERR_INVALID,
               "the order of the choices names one twice, or one that is not there");
    for (int axis = 0; axis < choices->n_axes; axis++) {
        SM_FAIL_IF(choices->n_levels[axis] < 1 || choices->n_levels[axis] > SM_ADVISOR_MAX_LEVELS, SM_ERR_INVALID,
                   "%d values to choose from, and there may be 1 to %d", choices->n_levels[axis],
                   SM_ADVISOR_MAX_LEVELS);
    }
    sm_advisor *a = sm_calloc(1, sizeof(*a));
    const size_t room = (size_t)count_screened(choices) + 1 + MOST_IN_ROUND + 2; // of the longest round
    a->queue = sm_calloc(room, sizeof(*a->queue));
    a->choices = *choices;
    a->n_meetings = n_meetings;
    enqueue(a, 0);
    *made = a;
    return SM_OK;
}

void sm_advisor_close(sm_advisor *a) {
    if (a != NULL) {
        free(a->queue);
        free(a->results);
        free(a);
    }
}

bool sm_advisor_next(sm_advisor *a, sm_trial *trial) {
    while (a->next == a->n_queue && a->stage != STAGE_OVER) {
        plan_round(a);
    }
    if (a->stage == STAGE_OVER) {
        return false;
    }
    *trial = (sm_trial){a->queue[a->next], a->round};
    return true;
}

void sm_advisor_take(sm_advisor *a, sm_trial_outcome outcome, double speed) {
    SM_GROW(a->results, a->n_results, a->room);
    const bool has_speed = outcome == SM_TRIAL_MEASURED && speed > 0 && isfinite(speed);
    a->results[a->n_results++] =
        (result){.trial = {a->queue[a->next], a->round}, .outcome = outcome, .log_speed = has_speed ? log(speed) : NAN};
    a->next++;
    if (outcome == SM_TRIAL_TOO_LARGE && a->stage == STAGE_CLIMB) { // it was not even started
        a->n_queue--;
        a->next--;
    }
}

int sm_advisor_most_left(const sm_advisor *a) {
    if (a->stage == STAGE_OVER) {
        return 0;
    }
    const int n_done_of_round = a->next < a->n_queue ? a->next : 0;
    const int n_confirming = 2 * count_left_to_meet(a, sm_advisor_best(a)) - n_done_of_round;
    const int n_left = a->stage == STAGE_CONFIRM ? n_confirming : most_runs(a) - count_runs_done(a);
    return n_left > a->n_queue - a->next ? n_left : a->n_queue - a->next;
}
