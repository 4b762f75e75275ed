// step.h: one training step, as every measurement runs it, and the checks of a session's steps.
//
//   step 1         its gradients, between backward and update, against differences of the loss; its update
//   step 2, and    checked steps: the same executable runs them in pieces. Drawn ops are looked at (spot_check.h),
//   those drawn    of drawn sequences are compared with the reference's (loss_check.h), and the update with its rule
//   repeated ones  a measured step, made again in pieces from the same weights up to its update: losses, the gradients'
//                  norm and drawn runs of gradients must be the same, bit by bit. Its update, and that of the step
//                  before it, are compared with their rule
//
// Nothing of the checks lies within a time: the clock stops before them. All that is drawn depends on a seed of the
// run.
#ifndef STEPMARK_STEP_H
#define STEPMARK_STEP_H

#include "bench/rows/row.h"
#include "src/session/session.h"
#include "src/verify/spot_check.h"

// What is measured, as far as a step must know.
typedef struct {
    void *ctx;

    // Uploads micro-batch `index` (0, 1, ...). Runs inside of the measured step, and so uploads
    // what lies ready: no allocation, no computation.
    sm_status (*next_batch)(void *ctx, sm_session *session, int64_t index);

    // Called in a checked step, when a forward has left the losses of micro-batch `index`, and the weights are still
    // those that it had. Draws by `seed`. Fills loss, loss_reference and loss_check; SM_ERR_MISMATCH where they differ.
    // Never NULL: no row says ok unchecked.
    sm_status (*check)(void *ctx, sm_session *session, int64_t index, uint64_t seed, sm_row *row);

    // Called between the first step's backward and its update, where the step has a backward. Fills the row's
    // gradient_check and gradient_error; SM_ERR_MISMATCH where the gradients are not those of the loss. Leaves weights,
    // gradients and the dropout counter as they were. Never NULL.
    sm_status (*check_gradients)(void *ctx, sm_session *session, int n_accum, sm_row *row);

    // Called before a step with a backward that is to be checked, number `step` (1, 2, ...) of phases SM_RUN_*. What is
    // sampled of its update depends on `seed`. Never NULL.
    sm_status (*before_step)(void *ctx, sm_session *session, int64_t step, unsigned phases, uint64_t seed);

    // Called after such a step, where it has an optimizer, when its gradients, settings and state are there. Fills the
    // row's update_check and update_error. Never NULL.
    sm_status (*after_update)(void *ctx, sm_session *session, sm_row *row);

    // Is what it holds ready as it will be from now on? Warm-up goes on until then. NULL: always.
    bool (*is_settled)(void *ctx);

    // The last n steps that run_step ran count no more: they took what lay ready. NULL where is_settled is.
    void (*forget)(void *ctx, int64_t n);

    // Runs a step that is not checked, number `step`, with batches of its own, in place of next_batch, and times the
    // whole of it; op_ns as in sm_step_run. NULL: the step of this file.
    sm_status (*run_step)(void *ctx, sm_session *session, int64_t step, int64_t *op_ns, int64_t *elapsed_ns,
                          double *loss);
} sm_workload;

enum { SM_CHECKED_STEPS = 2 }; // the first ones; their batches are those of next_batch

typedef struct sm_step_record sm_step_record; // what a step left

// A session whose steps are run one by one.
typedef struct {
    sm_session *session;
    const sm_workload *workload;
    const sm_step_settings *settings; // of the optimizer, the same for every step; NULL: its defaults
    unsigned phases;                  // SM_RUN_*: what a step executes
    int n_accum;                      // micro-batches a step
    uint64_t check_seed;              // what is drawn
    int64_t n_steps;                  // begun so far
    int64_t n_batches;                // asked of the workload so far
    sm_spot_check *spot;              // of the checked steps; NULL before the first
    sm_step_record *record;           // of a step that is to be repeated; NULL: there is none
} sm_stepper;

void sm_stepper_close(sm_stepper *stepper); // frees what it holds; not the session

// Runs the next step, from the settings and the upload of its first batch to the synchronisation after its last op.
// Then reads the loss of its last micro-batch: SM_ERR_MISMATCH where it is not finite. The first step is checked, and
// so is the second: the checks fill `row`, whose checks_ns is the time of all of them, beyond that of the steps. op_ns
// as in sm_backend.execute (NULL: no timing).
sm_status sm_step_run(sm_stepper *stepper, sm_row *row, int64_t *op_ns, int64_t *elapsed_ns, double *loss);

// Runs the next step as a checked one. Its elapsed time is that of its pieces, less all that is done to check them.
sm_status sm_step_check(sm_stepper *stepper, sm_row *row, int64_t *op_ns, int64_t *elapsed_ns, double *loss);

// Before and after a step, with no clock running: checks its update.
sm_status sm_step_before_update(sm_stepper *stepper, sm_row *row);
sm_status sm_step_after_update(sm_stepper *stepper, sm_row *row);

// Before a step that is to be repeated: keeps a copy of the weights. *is_kept is false where there is no room for it,
// or the workload's own steps cannot be made again; sm_error_message() then says why.
sm_status sm_step_keep(sm_stepper *stepper, sm_row *row, bool *is_kept);

// After that step: makes it again, but for its update. SM_ERR_MISMATCH where it comes out otherwise. Afterwards weights
// and state are what they were before.
sm_status sm_step_repeat(sm_stepper *stepper, sm_row *row);

#endif
