// trainer.h: a training from its first step to its last: what each step reads, validation, the log, checkpoints, and
// how it ends and goes on. It prints nothing: what there is to show goes to callbacks.
//
// Step s = 1, 2, ... takes the sequences number (s - 1) G to s G - 1 of the order (data_order.h), G a step's sequences
// over all processes. Process r of N takes the r-th of N equal parts of them, in micro-batches of B. A step that begins
// in one epoch and ends in the next belongs to the first. Sequences that are left at the end of the last epoch and do
// not fill a step are not read.
//
// With a run folder (run_folder.h) it writes the log and checkpoints there, and goes on where one that was ended left
// off: weights, optimizer and log are then those of a training that was never interrupted.
#ifndef STEPMARK_TRAINER_H
#define STEPMARK_TRAINER_H

#include <jansson.h>
#include <signal.h>

#include "data_order.h"
#include "model.h"
#include "run_folder.h"
#include "schedule.h"
#include "session.h"
#include "tokens.h"

typedef struct {
    sm_session *session; // prepared for steps of B x T; not owned
    const sm_model_config *config;
    const sm_tokens *data;

    // The work of a step. B and T of a micro-batch are the plan's.
    int64_t global_batch; // sequences a step, of all processes: a multiple of B times their number

    // The work of the whole: the least of what is set. Steps come on top of those that the initial state has behind it.
    int64_t max_steps;  // 0: not set
    int64_t max_epochs; // 0: not set
    int64_t max_tokens; // 0: not set; only whole steps are done

    sm_order_kind order;
    uint64_t seed; // of the order
    sm_step_settings optimizer;
    sm_schedule_kind schedule; // of optimizer.lr
    int64_t warmup_steps;

    // The validation set: the first val_batches micro-batches of `validation`, or all (0).
    const sm_tokens *validation; // NULL: none
    sm_session *val_session;     // without dropout, for steps' forward only; NULL: `session` has no dropout
    int64_t val_every;           // steps; 0: after the last step only
    int64_t val_batches;

    // Without a run folder: where the log goes and the state after the last step; NULL: nowhere.
    const char *log;
    const char *save;

    const char *run_dir;         // NULL: none
    const json_t *configuration; // what must agree where a run goes on (run_folder.h); of the caller, in addition to
                                 // what is above
    json_t *start;               // facts of this process, for run.json's `starts`
    int64_t save_every;          // steps; 0: when the training is ended early only
    int64_t keep;                // checkpoints; 0: all
    sm_resume resume;

    const volatile sig_atomic_t *interrupted; // not 0: end after what is under way; may be NULL
} sm_train_settings;

// One step.
typedef struct {
    int64_t step;  // 1, 2, ...
    int64_t epoch; // 1, 2, ...: of its first sequence
    double loss;   // mean over the step's micro-batches, of all processes
    double grad_norm;
    double lr;
    int64_t elapsed_ns; // from its settings to the end of its update, data and communication included
    int64_t data_ns;    // of these: waited for data
    int64_t comm_ns;    // of these: waited for other processes
    int64_t n_tokens;   // of this step, of all processes
    bool is_scaled;     // the loss
    bool is_skipped;    // its gradients were not finite: no weights were changed
    double loss_scale;  // of the next step
} sm_train_step;

typedef struct {
    int64_t first_step; // steps behind it when this process began
    int64_t step;       // steps behind it now
    int64_t n_steps;    // of the whole
    int64_t n_accum;    // micro-batches a step, of one process
    double val_loss;    // the last; NaN: none yet
} sm_train_progress;

typedef struct {
    void *ctx;

    // Fills the session with the weights to begin with, unless a checkpoint is loaded; *step: steps behind them.
    sm_status (*initialise)(void *ctx, sm_session *session, int64_t *step);

    // After each step, outside of its time. A failure ends the training, and what was done is saved.
    sm_status (*stepped)(void *ctx, const sm_train_progress *progress, const sm_train_step *step);

    // A line that a user should see.
    void (*note)(void *ctx, const char *text);

    // Before and after work that must not be cut off, as a save; may be NULL.
    void (*saving)(void *ctx, bool saving);

    // In a run folder, when all but RUN_COMPLETE.txt is there: writes what is made from it. May be NULL.
    sm_status (*completed)(void *ctx, const char *run_dir);
} sm_train_callbacks;

// Trains. SM_ERR_INTERRUPTED: ended early as asked, with what was done saved.
sm_status sm_train(const sm_train_settings *settings, const sm_train_callbacks *callbacks);

#endif
