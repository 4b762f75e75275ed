// step.h: one training step, as everybody who measures runs it, and what is checked of a session's first two.
//
//   gradients  of the first step, between its backward and its update
//   update     of the first step and of the second, whose m and v are not zero
//
// Nothing of the checks lies within a time: the clock stops before them.
#ifndef STEPMARK_STEP_H
#define STEPMARK_STEP_H

#include "row.h"
#include "session.h"

// What is measured, as far as a step must know.
typedef struct {
    void *ctx;

    // Uploads micro-batch `index` (0, 1, ...). Runs inside of the measured step, and so uploads
    // what lies ready: no allocation, no computation.
    sm_status (*next_batch)(void *ctx, sm_session *session, int64_t index);

    // Called after exactly one step from the initial state, with row->loss set to that step's
    // loss (its last micro-batch, at the initial weights). Fills loss_reference and loss_check (and may replace loss,
    // by what it compared); SM_ERR_MISMATCH where they differ. Never NULL: no row says ok unchecked.
    sm_status (*check)(void *ctx, sm_session *session, sm_row *row);

    // Called between the first step's backward and its update, where the step has a backward. Fills the row's
    // gradient_check and gradient_error; SM_ERR_MISMATCH where the gradients are not those of the loss. Leaves weights,
    // gradients and the dropout counter as they were. Never NULL.
    sm_status (*check_gradients)(void *ctx, sm_session *session, int n_accum, sm_row *row);

    // Called before a step with a backward that is to be checked, number `step` (1, 2) of phases SM_RUN_*. Never NULL.
    sm_status (*before_step)(void *ctx, sm_session *session, int64_t step, unsigned phases);

    // Called after such a step, where it has an optimizer, when its gradients, settings and state are there. Fills the
    // row's update_check and update_error. Never NULL.
    sm_status (*after_update)(void *ctx, sm_session *session, sm_row *row);

    // Is what it holds ready as it will be from now on? Warm-up goes on until then. NULL: always.
    bool (*is_settled)(void *ctx);

    // Runs a step that is not checked, number `step`, with batches of its own, in place of next_batch, and times the
    // whole of it; op_ns as in sm_step_run. NULL: the step of this file.
    sm_status (*run_step)(void *ctx, sm_session *session, int64_t step, int64_t *op_ns, int64_t *elapsed_ns,
                          double *loss);
} sm_workload;

enum { SM_CHECKED_STEPS = 2 };

// A session whose steps are run one by one.
typedef struct {
    sm_session *session;
    const sm_workload *workload;
    const sm_step_settings *settings; // of the optimizer, the same for every step; NULL: its defaults
    unsigned phases;                  // SM_RUN_*: what a step executes
    int n_accum;                      // micro-batches a step
    int64_t n_steps;                  // begun so far
    int64_t n_batches;                // asked of the workload so far
} sm_stepper;

// Runs the next step, from the settings and the upload of its first batch to the synchronisation after its last op.
// Then reads the loss of its last micro-batch: SM_ERR_MISMATCH where it is not finite. The checks fill `row`, whose
// gradient_check_ns is their time. op_ns as in sm_backend.execute (NULL: no timing).
sm_status sm_step_run(sm_stepper *stepper, sm_row *row, int64_t *op_ns, int64_t *elapsed_ns, double *loss);

#endif
