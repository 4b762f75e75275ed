// update_check.h: does a device's optimizer compute the same as the reference's? Checked on the plan and device that
// are timed, on a sample of each group of parameters: its last run, and runs drawn in between.
//
// Nothing of the step is touched: the sample is read before the step and after it, when the gradients are still there.
#ifndef STEPMARK_UPDATE_CHECK_H
#define STEPMARK_UPDATE_CHECK_H

#include "src/session/session.h"

typedef struct {
    double error;           // largest difference of a sampled number relative to its allowed rounding
    double tolerance;       // 1
    int64_t n_weights;      // compared
    char how[SM_TEXT_SIZE]; // "4,096 weights and their state against the reference's rule"
} sm_update_result;

typedef struct sm_update_check sm_update_check;

// Reads the sample of parameters and state before a step; the sample depends on `seed`.
sm_status sm_update_check_begin(sm_session *session, uint64_t seed, sm_update_check **check);

// After the step: its gradients, its settings and the updated state. The reference makes the same update. The norm that
// the step found is held to `grad_norm` (gradient_check.h); 0: not known. SM_ERR_MISMATCH names the first tensor that
// differs. Frees the check in any case.
sm_status sm_update_check_end(sm_update_check *check, sm_session *session, double grad_norm, sm_update_result *result);

void sm_update_check_free(sm_update_check *check); // NULL is fine

#endif
