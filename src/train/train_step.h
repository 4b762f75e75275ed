// train_step.h: one step of a training: micro-batches forward and backward, then the update.
#ifndef STEPMARK_TRAIN_STEP_H
#define STEPMARK_TRAIN_STEP_H

#include <signal.h>

#include "src/comm/comm.h"
#include "src/session/schedule.h"
#include "src/session/session.h"
#include "src/train/loader.h"
#include "src/train/phases.h"

// One step, as it is shown and logged.
typedef struct {
    int64_t step;  // 1, 2, ...
    int64_t epoch; // 1, 2, ...: of its first sequence
    double loss;   // mean over the step's targets, of all processes
    double grad_norm;
    double lr;
    int64_t elapsed_ns; // from its settings to the end of its update, data and communication included
    int64_t data_ns;    // of these: for data, waited or made inline
    int64_t comm_ns;    // of these: waited for other processes
    int64_t hidden_ns;  // communication that ran while the step computed
    int64_t comm_bytes; // sent to and received from other processes; 0: there are none
    int64_t n_tokens;   // of all processes; padding is none
    int64_t n_padding;  // and its positions
    sm_load load;       // the data of this process; its arrays stay until the next step
    bool is_scaled;     // the loss
    bool is_skipped;    // its gradients were not finite: no weights were changed
    double loss_scale;  // of the next step
} sm_train_step;

// The common part of all steps.
typedef struct {
    sm_session *session;
    sm_comm *comm;
    sm_loader *loader;
    const char *data_name;                    // for messages
    const sm_load_share *share;               // of the data, that the loader has
    sm_step_settings optimizer;               // but for the learning rate
    sm_schedule schedule;                     // which says that
    int64_t global_batch;                     // sequences a step, of all processes
    int64_t n_accum;                          // micro-batches of this process a step
    int64_t n_skipped;                        // steps so far whose gradients were not finite
    const volatile sig_atomic_t *interrupted; // may be NULL
    sm_step_phases *phases;                   // that has begun: ops are timed separately; NULL: not timed
} sm_train_stepper;

// Does step `step`, the one after the last. SM_ERR_INTERRUPTED before its update: weights and state are still those of
// the step before. SM_ERR_INVALID: loss or norm is not finite; the message names the step and where its data are. After
// any other failure of the loader weights and state are whole, too.
sm_status sm_train_step_run(sm_train_stepper *stepper, int64_t step, bool *is_whole, sm_train_step *result);

#endif
