// advisor.c: see advisor.h.
#include "advisor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Of all configurations round 2 takes one of so many, within these bounds; of the fastest's neighbours, a few a round.
enum { COMBINED_OF = 24, LEAST_COMBINED = 3, MOST_COMBINED = 6, MOST_NEIGHBOURS = 3, MOST_REFINED = 3, ANY_AXIS = -1 };

// What is expected to be slower by more than this is not tried: than the default, or than the fastest beside it.
static const double least_promise = -0.03;

typedef enum { STAGE_SCREEN, STAGE_AGAIN, STAGE_COMBINE, STAGE_HALVE, STAGE_REFINE, STAGE_CONFIRM, STAGE_OVER } stage;

// A run that is over.
typedef struct {
    sm_trial trial;
    sm_trial_outcome outcome;
    double log_speed; // NaN: it has none
} result;

struct sm_advisor {
    sm_choices choices;
    int n_meetings;
    int n_confirmed;          // rounds of the default and the fastest alone
    int n_refined;            // rounds of the fastest's neighbours
    int64_t refined;          // whose neighbours have run
    int large[MOST_COMBINED]; // of the last of round 2: each has a level of this axis that does not fit alone
    int n_large;
    stage stage; // of the queue
    int round;
    int64_t *queue;
    int n_queue;
    int next; // of the queue
    result *results;
    int n_results;
    int room;
    double effects[SM_ADVISOR_MAX_AXES][SM_ADVISOR_MAX_LEVELS]; // logarithms; NaN: the level is given up
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

// The configuration that differs from the default on one axis.
static int64_t single(const sm_choices *c, int axis, int level) {
    int64_t configuration = level;
    for (int i = axis + 1; i < c->n_axes; i++) {
        configuration *= c->n_levels[i];
    }
    return configuration;
}

static int count_singles(const sm_choices *c) {
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

static bool is_tried(const sm_advisor *a, int64_t configuration) {
    for (int i = 0; i < a->n_results; i++) {
        if (a->results[i].trial.configuration == configuration) {
            return true;
        }
    }
    return false;
}

// Where the default has no speed: the mean of those of round 0.
static double mean_of_screen(const sm_advisor *a) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < a->n_results; i++) {
        if (a->results[i].trial.round == 0 && isfinite(a->results[i].log_speed)) {
            sum += a->results[i].log_speed;
            n++;
        }
    }
    return n > 0 ? sum / n : 0;
}

static double default_in(const sm_advisor *a, int round) {
    const result *r = find(a, 0, round);
    return r != NULL ? r->log_speed : NAN;
}

// What a round's speeds are taken against: the default's. Where it has none in that round, its last one before. All of
// round 0 hangs on it, and so it runs once more behind that: what is disturbed is slower, and the faster one counts.
static double base_of(const sm_advisor *a, int round) {
    for (; round > 0; round--) {
        if (isfinite(default_in(a, round))) {
            return default_in(a, round);
        }
    }
    const double base = fmax(default_in(a, 0), default_in(a, 1)); // which leaves out NaN
    return isfinite(base) ? base : mean_of_screen(a);
}

// Mean gain over the default in all rounds, as a logarithm; of three or more without the least and the largest, which a
// disturbed run may be. NaN where a run failed or there was none: what runs only at times is no advice.
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

static double expected_gain(const sm_advisor *a, int64_t configuration) {
    if (is_tried(a, configuration)) {
        return measured_gain(a, configuration);
    }
    double sum = 0;
    for (int axis = 0; axis < a->choices.n_axes; axis++) {
        sum += a->effects[axis][sm_choices_level(&a->choices, configuration, axis)];
    }
    return sum;
}

// Those of round 0 that were not among the few of round 2 were faster by chance, if at all.
int64_t sm_advisor_best(const sm_advisor *a) {
    int64_t best = -1;
    double best_gain = -INFINITY;
    for (int i = 0; i < a->n_results; i++) {
        const bool counts = a->round < 3 || a->results[i].trial.round > 0;
        const double gain = counts ? measured_gain(a, a->results[i].trial.configuration) : NAN;
        if (gain > best_gain) {
            best = a->results[i].trial.configuration;
            best_gain = gain;
        }
    }
    return best;
}

// A level that does not fit alone may fit beside another one (a batch with recomputation): it is expected to gain as
// much as the best of its axis.
static void learn_axis(sm_advisor *a, int axis) {
    const double base = base_of(a, 0);
    double *effects = a->effects[axis];
    double best = 0;
    effects[0] = 0;
    for (int level = 1; level < a->choices.n_levels[axis]; level++) {
        effects[level] = find(a, single(&a->choices, axis, level), 0)->log_speed - base;
        best = fmax(best, effects[level]); // which leaves out NaN
    }
    for (int level = 1; level < a->choices.n_levels[axis]; level++) {
        if (find(a, single(&a->choices, axis, level), 0)->outcome == SM_TRIAL_TOO_LARGE) {
            effects[level] = best;
        }
    }
}

// --- rounds ------------------------------------------------------------------------------------------

static bool is_queued(const sm_advisor *a, int64_t configuration) {
    for (int i = 0; i < a->n_queue; i++) {
        if (a->queue[i] == configuration) {
            return true;
        }
    }
    return false;
}

// Does the level not fit alone, beside the default's others?
static bool is_large(const sm_advisor *a, int axis, int level) {
    return level > 0 && find(a, single(&a->choices, axis, level), 0)->outcome == SM_TRIAL_TOO_LARGE;
}

// The one to be tried next by what is expected, of those that are not queued; -1 where there is none. `large` is an
// axis, or ANY_AXIS: of those alone that have one of its levels that do not fit by themselves. What such a level gains
// is not known, so that no expectation speaks against them.
static int64_t most_promising(const sm_advisor *a, int large) {
    const int64_t n = sm_choices_count(&a->choices);
    int64_t best = -1;
    double best_gain = large == ANY_AXIS ? least_promise : -INFINITY;
    for (int64_t i = 1; i < n; i++) {
        const bool counts = large == ANY_AXIS || is_large(a, large, sm_choices_level(&a->choices, i, large));
        const double gain = counts && !is_queued(a, i) ? expected_gain(a, i) : NAN;
        if (gain > best_gain) {
            best = i;
            best_gain = gain;
        }
    }
    return best;
}

// The one that differs from `of` on that axis alone.
static int64_t neighbour(const sm_choices *c, int64_t of, int axis, int level) {
    int64_t place = 1;
    for (int i = axis + 1; i < c->n_axes; i++) {
        place *= c->n_levels[i];
    }
    return of + (level - sm_choices_level(c, of, axis)) * place;
}

// Of the neighbours of `of` that were not tried, the one that is expected to be fastest; -1 where none may be faster.
static int64_t most_promising_beside(const sm_advisor *a, int64_t of) {
    int64_t best = -1;
    double best_gain = least_promise;
    for (int axis = 0; axis < a->choices.n_axes; axis++) {
        const double *effects = a->effects[axis];
        const double its_gain = effects[sm_choices_level(&a->choices, of, axis)];
        for (int level = 0; level < a->choices.n_levels[axis]; level++) {
            const int64_t other = neighbour(&a->choices, of, axis, level);
            const double gain = is_tried(a, other) || is_queued(a, other) ? NAN : effects[level] - its_gain;
            if (gain > best_gain) {
                best = other;
                best_gain = gain;
            }
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

// The default where it runs, always: the others are taken against it. It begins one round and ends the next.
static void place_default(sm_advisor *a) {
    if (!isfinite(measured_gain(a, 0))) {
        return;
    }
    enqueue(a, 0);
    if (a->round % 2 == 0) {
        memmove(a->queue + 1, a->queue, (size_t)(a->n_queue - 1) * sizeof(*a->queue));
        a->queue[0] = 0;
    }
}

static void screen(sm_advisor *a) {
    enqueue(a, 0);
    for (int axis = 0; axis < a->choices.n_axes; axis++) {
        for (int level = 1; level < a->choices.n_levels[axis]; level++) {
            enqueue(a, single(&a->choices, axis, level));
        }
    }
}

static void run_default_again(sm_advisor *a) {
    begin_round(a, STAGE_AGAIN);
    place_default(a);
}

static int n_combined(const sm_choices *choices) {
    const int64_t n = sm_choices_count(choices) / COMBINED_OF;
    return n < LEAST_COMBINED ? LEAST_COMBINED : n > MOST_COMBINED ? MOST_COMBINED : (int)n;
}

// Axes with levels that do not fit by themselves and may fit beside others: at most half of round 2 is for them.
static void find_large(sm_advisor *a) {
    a->n_large = 0;
    for (int axis = 0; axis < a->choices.n_axes; axis++) {
        if (most_promising(a, axis) >= 0 && a->n_large < n_combined(&a->choices) / 2) {
            a->large[a->n_large++] = axis;
        }
    }
}

static void combine(sm_advisor *a) {
    for (int axis = 0; axis < a->choices.n_axes; axis++) {
        learn_axis(a, axis);
    }
    begin_round(a, STAGE_COMBINE);
    find_large(a);
    for (int i = n_combined(&a->choices) - a->n_large; i > 0; i--) {
        const int64_t promising = most_promising(a, ANY_AXIS);
        if (promising < 0) {
            break;
        }
        enqueue(a, promising);
    }
    int n_large = 0;
    for (int i = 0; i < a->n_large; i++) {
        const int64_t promising = most_promising(a, a->large[i]);
        if (promising >= 0) {
            a->large[n_large++] = a->large[i];
            enqueue(a, promising);
        }
    }
    a->n_large = n_large;
    place_default(a); // round 2 begins with it
}

// The faster half of the round that is over, the default left out; down to one.
static void halve(sm_advisor *a) {
    int64_t kept[MOST_COMBINED + 1];
    int n_left = 0;
    int n_kept = 0;
    for (int i = 0; i < a->n_queue; i++) {
        n_left += a->queue[i] != 0 && isfinite(measured_gain(a, a->queue[i]));
    }
    for (; n_kept < (n_left + 1) / 2; n_kept++) {
        int best = -1;
        for (int i = 0; i < a->n_queue; i++) { // those that are taken are marked by 0
            const double gain = a->queue[i] != 0 ? measured_gain(a, a->queue[i]) : NAN;
            if (isfinite(gain) && (best < 0 || gain > measured_gain(a, a->queue[best]))) {
                best = i;
            }
        }
        kept[n_kept] = a->queue[best];
        a->queue[best] = 0;
    }
    if (n_left <= 2) {
        a->stage = STAGE_REFINE; // its first round is yet to come
        return;
    }
    begin_round(a, STAGE_HALVE);
    for (int i = 0; i < n_kept; i++) {
        enqueue(a, kept[i]);
    }
    place_default(a);
}

static int count_meetings(const sm_advisor *a, int64_t configuration) {
    int n = 0;
    for (int i = 0; i < a->n_results; i++) {
        const result *r = &a->results[i];
        const result *other = r->trial.configuration == configuration ? find(a, 0, r->trial.round) : NULL;
        n += other != NULL && isfinite(r->log_speed) && isfinite(other->log_speed);
    }
    return n;
}

// The default and the fastest once more, or the end.
static void confirm(sm_advisor *a) {
    const int64_t best = sm_advisor_best(a);
    const bool is_over = best <= 0 || !isfinite(measured_gain(a, 0)) || count_meetings(a, best) >= a->n_meetings ||
                         a->n_confirmed++ == a->n_meetings; // two that are as fast may take turns
    begin_round(a, is_over ? STAGE_OVER : STAGE_CONFIRM);
    if (!is_over) {
        enqueue(a, best);
        place_default(a);
    }
}

// The fastest, those of its neighbours that may be faster, and the default; again where that finds another fastest.
static void refine(sm_advisor *a) {
    const int64_t best = sm_advisor_best(a);
    const bool is_over = best <= 0 || best == a->refined || a->n_refined == MOST_REFINED;
    a->queue[0] = best; // is queued
    a->n_queue = !is_over;
    a->next = a->n_queue;
    int64_t beside = is_over ? -1 : most_promising_beside(a, best);
    if (beside < 0) {
        a->stage = STAGE_CONFIRM;
        return;
    }
    begin_round(a, STAGE_REFINE);
    enqueue(a, best);
    for (int i = 0; i < MOST_NEIGHBOURS && beside >= 0; i++) {
        enqueue(a, beside);
        beside = most_promising_beside(a, best);
    }
    place_default(a);
    a->refined = best;
    a->n_refined++;
}

static void plan_round(sm_advisor *a) {
    if (a->stage == STAGE_SCREEN) {
        run_default_again(a);
    } else if (a->stage == STAGE_AGAIN) {
        combine(a);
    } else if (a->stage == STAGE_COMBINE || a->stage == STAGE_HALVE) {
        halve(a);
    } else if (a->stage == STAGE_REFINE) {
        refine(a);
    } else if (a->stage == STAGE_CONFIRM) {
        confirm(a);
    }
}

// --- the interface -----------------------------------------------------------------------------------

sm_status sm_advisor_open(const sm_choices *choices, int n_meetings, sm_advisor **made) {
    *made = NULL;
    if (choices->n_axes < 0 || choices->n_axes > SM_ADVISOR_MAX_AXES) {
        return sm_fail(SM_ERR_INVALID, "%d choices at once, and at most %d may be made", choices->n_axes,
                       SM_ADVISOR_MAX_AXES);
    }
    for (int axis = 0; axis < choices->n_axes; axis++) {
        if (choices->n_levels[axis] < 1 || choices->n_levels[axis] > SM_ADVISOR_MAX_LEVELS) {
            return sm_fail(SM_ERR_INVALID, "%d values to choose from, and there may be 1 to %d",
                           choices->n_levels[axis], SM_ADVISOR_MAX_LEVELS);
        }
    }
    sm_advisor *a = calloc(1, sizeof(*a));
    const size_t room = (size_t)count_singles(choices) + 1 + MOST_COMBINED + 1;
    if (a == NULL || (a->queue = calloc(room, sizeof(*a->queue))) == NULL) {
        free(a);
        return sm_fail(SM_ERR_OOM, "no memory for %zu runs", room);
    }
    a->choices = *choices;
    a->n_meetings = n_meetings;
    a->refined = -1;
    screen(a);
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

// What could not even be started makes room for the next one of round 2.
static void replace(sm_advisor *a) {
    int64_t promising = -1;
    if (a->stage == STAGE_COMBINE) {
        const int place = a->next - 1 - (a->n_queue - a->n_large); // among the last
        promising = most_promising(a, place >= 0 ? a->large[place] : ANY_AXIS);
    } else if (a->stage == STAGE_REFINE) {
        promising = most_promising_beside(a, a->refined);
    }
    if (promising >= 0) {
        a->queue[a->next - 1] = promising;
        a->next--;
    }
}

sm_status sm_advisor_take(sm_advisor *a, sm_trial_outcome outcome, double speed) {
    if (a->n_results == a->room) {
        const int room = a->room > 0 ? 2 * a->room : 64;
        result *results = realloc(a->results, (size_t)room * sizeof(*results));
        if (results == NULL) {
            return sm_fail(SM_ERR_OOM, "no memory for %d runs", room);
        }
        a->results = results;
        a->room = room;
    }
    const bool has_speed = outcome == SM_TRIAL_MEASURED && speed > 0 && isfinite(speed);
    a->results[a->n_results++] =
        (result){.trial = {a->queue[a->next], a->round}, .outcome = outcome, .log_speed = has_speed ? log(speed) : NAN};
    a->next++;
    if (outcome == SM_TRIAL_TOO_LARGE) {
        replace(a);
    }
    return SM_OK;
}

int sm_advisor_most_left(const sm_advisor *a) {
    if (a->stage == STAGE_OVER) {
        return 0;
    }
    int n = a->n_queue - a->next;
    int n_candidates = a->n_queue;
    int n_met = a->round - 1; // rounds 0 and 1 are not of the fastest
    if (a->stage < STAGE_COMBINE) {
        n_candidates = n_combined(&a->choices);
        n += n_candidates + 1 + (a->stage == STAGE_SCREEN);
        n_met = 1;
    }
    for (; a->stage <= STAGE_HALVE && n_candidates > 2; n_met++) {
        n_candidates = (n_candidates + 1) / 2;
        n += n_candidates + 1;
    }
    if (a->stage < STAGE_REFINE) { // once: more only where that finds another fastest
        n += MOST_NEIGHBOURS + 2;
        n_met++;
    }
    return n_met < a->n_meetings ? n + 2 * (a->n_meetings - n_met) : n;
}
