// again.h: compares a row with the row of a second run with the same flags: was it reproduced?
//
// It was if the status is the same and so is every loss that both runs have. Losses must be equal in every digit if the
// same clean build ran on the same device with as many threads. If any of these differ, or mode tuned may have chosen
// other kernels, tolerances apply: the loss check's for the first step and the checked loss, the one for other programs
// for later steps. Steps that only one of the runs took (warm-up and sampling may end early) are not compared. Speed
// does not decide: it is judged as in `compare` and reported.
#ifndef STEPMARK_AGAIN_H
#define STEPMARK_AGAIN_H

#include "bench/compare/compare.h"
#include "bench/tables/record.h"

typedef struct {
    json_t *fields;           // records of sm_again_table: outcome, losses, speed, and conditions
    sm_comparison comparison; // of the speeds
    bool is_reproduced;       // outcome and losses
    char reason[1024];        // "" if it was
    char conditions[512];     // those that differ: "build_commit, n_threads"; "" if none
    char losses[256];         // "all 9 that both runs have are equal in every digit"
    char speed[256];          // "not told apart: the step's time changed by +0.3% (-1.2% to +1.8%)"
} sm_again;

extern const sm_table sm_again_table;

// `threshold` as in sm_compare_options.
void sm_again_compare(const json_t *recorded, const json_t *again, double threshold, sm_again *result);
void sm_again_free(sm_again *result);

#endif
