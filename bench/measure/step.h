// step.h: one training step, as every measurement runs it, and the checks of a session's steps.
//
//   step 1         its gradients, between backward and update, against differences of the loss (with own code, also of a
//                  step among the samples); its update
//   step 2, drawn  the same executable runs these steps in pieces. Drawn ops are looked at (spot_check.h), losses of
//   steps, last    drawn sequences are compared with the reference's (step_checks.h), and the update with its rule
//   repeated ones  a measured step, made again in pieces from the same weights up to its update: losses, the gradients'
//                  norm and drawn runs of gradients must be the same, bit by bit. Its update, and that of the step
//                  before it, are compared with their rule
//
// A plan of ops by themselves (sm_plan_is_step) has no loss, gradients of one, or update to repeat from: its drawn ops
// are looked at. before_step is called before each such step.
//
// Nothing of the checks lies within a time: the clock stops before them. What is drawn depends on the run's seed.
#pragma once

#include "bench/rows/row.h"
#include "src/verify/spot_check.h"

// A build with -DSM_TEST_SLOWDOWN=0.03 waits 3% longer in every step, to test whether a comparison finds it (make
// prove). Its rows say so.
#ifndef SM_TEST_SLOWDOWN
#define SM_TEST_SLOWDOWN 0.0
#endif

// The workload, as far as a step needs it.
typedef struct {
    void *ctx;

    // Uploads micro-batch `index` (0, 1, ...). It runs inside of the timed step, so it only uploads prepared data: no
    // allocation, no computation.
    sm_status (*next_batch)(void *ctx, sm_session *session, int64_t index);

    // Called in a checked step after a forward, while the losses of micro-batch `index` are on the device and the
    // weights unchanged. Draws by `seed`. Fills loss, loss_reference and loss_check; SM_ERR_MISMATCH if they differ.
    // Never NULL: no row is ok without a check. For ops by themselves: NULL, or a check of what drawn ops do not show.
    sm_status (*check)(void *ctx, sm_session *session, int64_t index, uint64_t seed, sm_row *row);

    // Called between a step's backward and its update; its batches are n_accum from first_batch on. Fills the row's
    // gradient_check and gradient_error; SM_ERR_MISMATCH if the gradients are not those of the loss. Restores weights,
    // gradients and the dropout counter. Never NULL.
    sm_status (*check_gradients)(void *ctx, sm_session *session, int64_t first_batch, int n_accum, sm_row *row);

    // Called before a step with a backward that is to be checked, number `step` (1, 2, ...) of phases SM_RUN_*. `seed`
    // determines the sample of its update. Never NULL.
    sm_status (*before_step)(void *ctx, sm_session *session, int64_t step, unsigned phases, uint64_t seed);

    // Called after such a step, if it has an optimizer, while its gradients, settings and state exist. Fills the row's
    // update_check and update_error. Never NULL.
    sm_status (*after_update)(void *ctx, sm_session *session, sm_row *row);

    // The training loop (bench/loop), if `loop` measures one; otherwise NULL.
    void *loop;

    // Whether its prepared data have reached a steady state; warm-up continues until then.
    bool (*is_settled)(void *loop);

    // Discards the last n steps of run_step: they used data prepared earlier.
    void (*forget)(void *loop, int64_t n);

    // Runs a step that is not checked, number `step`, with its own batches instead of next_batch, and times all of it;
    // op_ns as in sm_step_run.
    sm_status (*run_step)(void *loop, int64_t step, int64_t *op_ns, int64_t *elapsed_ns, double *loss);
} sm_workload;

enum { SM_CHECKED_STEPS = 2 }; // the first ones; their batches come from next_batch

typedef struct sm_step_record sm_step_record; // the results of a step

// A session whose steps are run one by one.
typedef struct {
    sm_session *session;
    const sm_workload *workload;
    const sm_step_settings *settings; // of the optimizer, the same for every step; NULL: its defaults
    unsigned phases;                  // SM_RUN_*: the phases of a step
    int n_accum;                      // micro-batches in a step
    uint64_t check_seed;              // seed of the checks' draws
    int64_t n_steps;                  // begun so far
    int64_t n_batches;                // requested from the workload so far
    sm_spot_check *spot;              // of the checked steps; NULL before the first
    sm_step_record *record;           // of a step that is to be repeated; NULL: none
} sm_stepper;

void sm_stepper_close(sm_stepper *stepper); // frees its contents, but not the session

// Runs the next step, from the settings and the upload of its first batch to the synchronisation after its last op.
// Then reads the loss of its last micro-batch: SM_ERR_MISMATCH if it is not finite. Checks the first and second step:
// the checks fill `row`; its checks_ns is the time of all checks beyond that of the steps. op_ns as in
// sm_backend.execute (NULL: no timing).
sm_status sm_step_run(sm_stepper *stepper, sm_row *row, int64_t *op_ns, int64_t *elapsed_ns, double *loss);

// Runs the next step as a checked one. Its elapsed time is that of its pieces, without the checks.
sm_status sm_step_check(sm_stepper *stepper, sm_row *row, int64_t *op_ns, int64_t *elapsed_ns, double *loss);

// Runs the next step, with a backward, as the first is run: its gradients are checked.
sm_status sm_step_check_gradients(sm_stepper *stepper, sm_row *row, int64_t *elapsed_ns, double *loss);

void sm_step_count_checks(sm_row *row, int64_t elapsed_ns); // adds to the row's checks_ns

// Call these before and after a step, while no clock runs: they check its update.
sm_status sm_step_before_update(sm_stepper *stepper, sm_row *row);
sm_status sm_step_after_update(sm_stepper *stepper, sm_row *row);

// Before a step that is to be repeated: keeps a copy of the weights. *is_kept is false if there is no room, or if the
// workload's own steps cannot be repeated; sm_error_message() has the reason.
sm_status sm_step_keep(sm_stepper *stepper, sm_row *row, bool *is_kept);

// After that step, if it is not to be repeated.
void sm_step_forget(sm_stepper *stepper);

// After that step: repeats it, but for its update; weights and state are as before. SM_ERR_MISMATCH: other results.
sm_status sm_step_repeat(sm_stepper *stepper, sm_row *row);
