// configuration_search.h: decides which configurations to measure, and in what order, to find the fastest of many in
// few short runs.
//
// A configuration is a choice of one level on each axis (batch 4, 8, 16; precision fp32, bf16; ...): a number whose
// digits are the levels, the last axis the fastest. 0, the first level of every axis, is the default. Runs come in
// rounds, the default in each of them: a configuration's figure is its speed against the default's of the same round,
// so that drift over time affects both.
//
//   round 0   the default; then, axis by axis, every other level of that axis next to the fastest so far
//   rounds    the default, the fastest, and others next to it, one by one: those expected to be faster; levels that
//             did not fit at first, together with others that may let them in (a batch with recomputation);
//             each other level of each axis, as what it gains may hang on the rest; and what is as fast, once more
//   rounds    the default and the fastest alone, until they have met often enough for an interval
//
// A configuration that was not measured is expected to gain the product of what its levels gain over the fastest's,
// each as measured next to the configuration nearest to the fastest that ran with both.
//
// So it is a pattern search along the axes (Hooke and Jeeves 1961) on a model of main effects in the logarithm of speed;
// its rounds are blocks with a control (Fisher 1935).
//
// It measures nothing itself, and the same speeds lead to the same requests.
#ifndef STEPMARK_BENCH_COMPARE_CONFIGURATION_SEARCH_H
#define STEPMARK_BENCH_COMPARE_CONFIGURATION_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "status.h"

enum { SM_ADVISOR_MAX_AXES = 16, SM_ADVISOR_MAX_LEVELS = 64 };

typedef struct {
    int n_axes;
    int n_levels[SM_ADVISOR_MAX_AXES];
    int order[SM_ADVISOR_MAX_AXES]; // order of the axes in round 0: levels of later axes are tried next to a faster
                                    // configuration
} sm_choices;

int64_t sm_choices_count(const sm_choices *choices);
int sm_choices_level(const sm_choices *choices, int64_t configuration, int axis);

typedef struct {
    int64_t configuration;
    int round;
} sm_trial;

typedef enum {
    SM_TRIAL_MEASURED,
    SM_TRIAL_TOO_LARGE, // does not fit, but its levels may fit with others
    SM_TRIAL_FAILED,    // for another reason; in round 0 its level is given up
} sm_trial_outcome;

typedef struct sm_advisor sm_advisor;

// n_meetings: final number of rounds with both the default and the fastest. SM_ERR_INVALID for choices beyond the
// limits above.
sm_status sm_advisor_open(const sm_choices *choices, int n_meetings, sm_advisor **advisor);
void sm_advisor_close(sm_advisor *advisor); // NULL is fine

// The next run; false: none is left. The answer does not change until its outcome is given.
bool sm_advisor_next(sm_advisor *advisor, sm_trial *trial);

// The outcome of that run. The speed, in work a second, counts if it was measured.
void sm_advisor_take(sm_advisor *advisor, sm_trial_outcome outcome, double speed);

// The fastest so far, over all rounds; -1 if nothing was measured.
int64_t sm_advisor_best(const sm_advisor *advisor);

// The largest number of runs left; a few more if the fastest changes at the end.
int sm_advisor_most_left(const sm_advisor *advisor);

#endif
