// update_check.h: checks that a device's optimizer computes what the reference does, on the plan and device that are
// timed, on a sample of each group of parameters: its last run, and drawn runs.
//
// The check only reads: the sample is read before the step and after it, when the gradients still exist.
#ifndef STEPMARK_UPDATE_CHECK_H
#define STEPMARK_UPDATE_CHECK_H

#include "src/session/session.h"

typedef struct {
    double error;           // largest difference of a sampled number relative to its tolerance
    double tolerance;       // 1
    int64_t n_weights;      // compared
    char how[SM_TEXT_SIZE]; // "4,096 weights and their state against the reference's rule"
} sm_update_result;

typedef struct sm_update_check sm_update_check;

// Reads the sample of parameters and state before a step; `seed` determines the sample.
sm_status sm_update_check_begin(sm_session *session, uint64_t seed, sm_update_check **check);

// Call it after the step: reads its gradients, its settings and the updated state. The reference makes the same update.
// The step's norm must agree with `grad_norm` (gradient_check.h); 0: unknown. SM_ERR_MISMATCH names the first tensor
// that differs. Always frees the check.
sm_status sm_update_check_end(sm_update_check *check, sm_session *session, double grad_norm, sm_update_result *result);

void sm_update_check_free(sm_update_check *check);
SM_OWNABLE(sm_update_check, sm_update_check_free) // NULL is fine

#endif
