// paired.h: two ways to do the same step, measured in turn: A B B A, round after round. Drift (clock, neighbours)
// affects both alike and cancels in a round's ratio.
#ifndef STEPMARK_PAIRED_H
#define STEPMARK_PAIRED_H

#include "bench/measure/harness.h"
#include "bench/stats/stats.h"

// One of the two: a session at its initial state, with whole steps of one micro-batch and the optimizer's default
// settings. It counts its steps over several comparisons. The caller closes it (sm_stepper_close).
sm_stepper sm_paired_side(sm_session *session, const sm_workload *workload, uint64_t check_seed);

typedef struct {
    sm_stats a_ns;  // of 2 n_rounds steps
    sm_stats b_ns;  // likewise
    sm_stats ratio; // b / a, of n_rounds rounds; its ci95 is NaN below six
} sm_paired_result;

// Checks the first steps of a side that has run none, as the harness does; then runs n_warmup steps of each, n_rounds
// rounds, repeating each side's second step in a drawn round, and a checked step of each. No micro-batches are
// accumulated. Tests *interrupted (NULL is fine) before every step: SM_ERR_INTERRUPTED, with *result from the rounds so
// far; without a round its ratio.n is 0.
sm_status sm_paired_measure(sm_stepper *a, sm_stepper *b, int n_warmup, int n_rounds,
                            const volatile sig_atomic_t *interrupted, sm_paired_result *result);

#endif
