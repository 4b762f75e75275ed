// advisor.h: which configurations to measure, in what order, to find the fastest of many in few short runs.
//
// A configuration is a choice of one level on each axis (batch 4, 8, 16; precision fp32, bf16; ...): a number whose
// digits are the levels, the last axis the fastest. 0, the first level of every axis, is the default. Runs come in
// rounds, the default in each of them: a configuration's figure is its speed against the default's of the same round,
// so that what drifts with time meets both.
//
//   round 0   the default, and every configuration that differs from it on one axis
//   round 1   the default again, as all of round 0 hangs on it
//   round 2   the few that are fastest by what is known: a configuration that was not measured yet is expected to
//             gain the product of what its levels gained alone. Where a level alone did not fit (a batch), one that
//             has it beside levels that let it in (recomputation)
//   rounds    the faster half of the last round, by all rounds so far, until one is left (successive halving)
//   rounds    that one, and those that differ from it on one axis and may be faster; again, where that finds a faster
//   one at last   the default and that one, until they have met often enough for an interval
//
// Pure: it measures nothing, and asks for the same runs whenever it is told the same speeds.
#ifndef STEPMARK_ADVISOR_H
#define STEPMARK_ADVISOR_H

#include <stdbool.h>
#include <stdint.h>

#include "status.h"

enum { SM_ADVISOR_MAX_AXES = 16, SM_ADVISOR_MAX_LEVELS = 64 };

typedef struct {
    int n_axes;
    int n_levels[SM_ADVISOR_MAX_AXES];
} sm_choices;

int64_t sm_choices_count(const sm_choices *choices);
int sm_choices_level(const sm_choices *choices, int64_t configuration, int axis);

typedef struct {
    int64_t configuration;
    int round;
} sm_trial;

typedef enum {
    SM_TRIAL_MEASURED,
    SM_TRIAL_TOO_LARGE, // does not fit, and its levels may still fit together with others
    SM_TRIAL_FAILED,    // for another reason; alone on its axis, its level is given up
} sm_trial_outcome;

typedef struct sm_advisor sm_advisor;

// n_meetings: rounds that the default and the fastest have in common in the end. SM_ERR_INVALID for choices beyond the
// limits above, SM_ERR_OOM.
sm_status sm_advisor_open(const sm_choices *choices, int n_meetings, sm_advisor **advisor);
void sm_advisor_close(sm_advisor *advisor); // NULL is fine

// The run to do next; false: there is none. Asked again before its outcome is told, it is the same one.
bool sm_advisor_next(sm_advisor *advisor, sm_trial *trial);

// The outcome of that run. The speed, work a second, counts where it was measured.
sm_status sm_advisor_take(sm_advisor *advisor, sm_trial_outcome outcome, double speed);

// The fastest so far, by all rounds; -1 where nothing was measured.
int64_t sm_advisor_best(const sm_advisor *advisor);

// How many runs there will still be, about: at most, unless the fastest changes in the last rounds.
int sm_advisor_most_left(const sm_advisor *advisor);

#endif
