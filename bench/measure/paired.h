// paired.h: two ways to do the same step, measured in turn: A B B A, round after round. Drift (clock, neighbours)
// affects both alike, and a round's ratio is free of it.
#ifndef STEPMARK_PAIRED_H
#define STEPMARK_PAIRED_H

#include "bench/measure/harness.h"
#include "bench/stats/stats.h"

// One of the two: a session at its initial state, whose steps are whole, of one micro-batch, with
// the optimizer's default settings. Steps are counted on, so that it can meet one opponent after another. The caller
// closes it (sm_stepper_close).
sm_stepper sm_paired_side(sm_session *session, const sm_workload *workload, uint64_t check_seed);

typedef struct {
    sm_stats a_ns;  // of 2 n_rounds steps
    sm_stats b_ns;  // likewise
    sm_stats ratio; // b / a, of n_rounds rounds; its ci95 is NaN below six
} sm_paired_result;

// The first steps of a side that has run none are checked as the harness checks them; then n_warmup steps of
// each, and n_rounds rounds, in a drawn one of which each side's second step is repeated, and a checked step of each.
// No micro-batches are accumulated. Looks at *interrupted (NULL is fine) before every step: SM_ERR_INTERRUPTED, and
// *result is that of the rounds until then; without a round its ratio.n is 0.
sm_status sm_paired_measure(sm_stepper *a, sm_stepper *b, int n_warmup, int n_rounds,
                            const volatile sig_atomic_t *interrupted, sm_paired_result *result);

#endif
