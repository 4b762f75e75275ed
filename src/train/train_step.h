// train_step.h: one step of a training: micro-batches forward and backward, then the update.
#pragma once

#include <signal.h>

#include "src/train/loader.h"
#include "src/train/phases.h"
#include "src/verify/spot_check.h"

// One step, as shown and logged.
typedef struct {
    int64_t step;  // 1, 2, ...
    int64_t epoch; // 1, 2, ...: epoch of its first sequence
    double loss;   // mean over the step's targets, of all processes
    double grad_norm;
    double lr;
    int64_t elapsed_ns;  // from its settings to the end of its update, including data and communication
    int64_t data_ns;     // of these: waiting for data, or making it inline
    int64_t comm_ns;     // of these: waiting for other processes
    int64_t hidden_ns;   // communication that overlapped with computation
    int64_t comm_bytes;  // sent to and received from other processes; 0: single process
    int64_t n_tokens;    // in all processes, without padding
    int64_t n_padding;   // positions of padding
    sm_load load;        // this process's data; its arrays are valid until the next step
    bool is_scaled;      // loss scaling is on
    bool is_skipped;     // its gradients were not finite: no weights were changed
    double loss_scale;   // for the next step
    int64_t checked_ops; // of this process, computed again; 0: the step is not checked
    int64_t checks_ns;   // of the process that took longest; not part of elapsed_ns
} sm_train_step;

// The checks of drawn steps (spot_check.h). The last step is always checked, others as far as they take 1% of the time.
typedef struct {
    sm_spot_check *spot; // NULL: nothing is checked
    uint64_t seed;
    int64_t last_step;
    int64_t n_steps;   // so far, of this process
    int64_t steps_ns;  // of these
    int64_t checks_ns; // of their checks
    int64_t each_ns;   // of the last checked step, with the cost of its pieces
} sm_train_checks;

// The common part of all steps.
typedef struct {
    sm_session *session;
    sm_comm *comm;
    sm_loader *loader;
    const char *data_name;                    // for messages
    const sm_load_share *share;               // of the loader's data
    sm_step_settings optimizer;               // except the learning rate
    sm_schedule schedule;                     // which gives the learning rate
    int64_t global_batch;                     // sequences in a step, of all processes
    int64_t n_accum;                          // micro-batches in a step, of this process
    int64_t n_skipped;                        // steps so far with gradients that were not finite
    const volatile sig_atomic_t *interrupted; // may be NULL
    sm_step_phases *phases;                   // already begun: ops are timed separately; NULL: no timing
    sm_train_checks checks;
    bool is_checked;    // the step that runs, as far as it can be
    bool is_next_drawn; // for the checks of all processes
    sm_status before;   // of this process since the last step, not yet known to the others
} sm_train_stepper;

// Runs step `step`, the next. SM_ERR_INTERRUPTED: before its update, so weights and state are those of the step before.
// SM_ERR_INVALID: loss or norm is not finite; the message names the step and the position of its data. After any other
// failure of the loader weights and state are valid, too.
sm_status sm_train_step_run(sm_train_stepper *stepper, int64_t step, bool *is_whole, sm_train_step *result);
