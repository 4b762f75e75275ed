// trainer.h: a training from its first step to its last: the data of each step, validation, the log, checkpoints, and
// how it ends and resumes. It prints nothing: it reports through callbacks.
//
// Step s = 1, 2, ... takes the sequences number (s - 1) G to s G - 1 of the order (data_order.h), G a step's sequences
// over all processes. (With documents, G / B batches of B rows.) Process r of N takes the r-th of N equal parts of
// them, in micro-batches of B. A step that begins in one epoch and ends in the next belongs to the first. Sequences at
// the end of the last epoch that do not fill a step are not read.
//
// With a run folder (run_folder.h) it writes the log and checkpoints there, and resumes one that was ended: weights,
// optimizer and log are then those of an uninterrupted training.
#ifndef STEPMARK_TRAINER_H
#define STEPMARK_TRAINER_H

#include "src/io/file_digest.h"
#include "src/models/model.h"
#include "src/runs/run_folder.h"
#include "src/train/train_step.h"

// Where tokens come from.
typedef struct {
    const sm_tokens *tokens; // NULL: there are none
    const char *path;        // NULL: they are part of the program
    const char *tokenizer;   // its digest, of text whose tokens are made when they are read; NULL: no text

    char digest[SM_FILE_DIGEST_SIZE]; // of its bytes; "": not known yet
    int64_t size_bytes;               // with the digest

    // Documents in batches of the plan, which has the operand for them; NULL: rows are T tokens of the stream each.
    const sm_collation *collation;
} sm_train_source;

typedef struct {
    sm_session *session; // prepared for steps of B x T; not owned
    const sm_model_config *config;
    sm_comm *comm; // NULL: alone

    // The work of a step. B and T of a micro-batch are the plan's.
    sm_train_source data;
    sm_loader_settings loader;
    int64_t global_batch; // sequences a step, of all processes: a multiple of B times their number
    sm_order_kind order;
    uint64_t seed; // of the order
    sm_step_settings optimizer;
    sm_schedule_kind schedule; // of optimizer.lr
    int64_t warmup_steps;

    // The total work: the least of those that are set, counted from the steps that the initial state has already taken.
    int64_t max_steps;  // 0: not set
    int64_t max_epochs; // 0: not set
    int64_t max_tokens; // 0: not set; only whole steps are done

    // The validation set: the first val_batches micro-batches of it, or all, where
    // there are no more and where that is 0.
    sm_train_source validation;
    sm_session *val_session; // without dropout, for the forward only; NULL: `session` has no dropout
    int64_t val_every;       // steps; 0: after the last step only
    int64_t val_batches;

    // Without a run folder: where the log goes, and the state after the last step; NULL: nowhere.
    const char *log;
    const char *save;

    // With one.
    const char *run_dir;         // NULL: none
    const json_t *configuration; // the fields that must agree where the run resumes, in addition to the above
    const char *command_line;    // for run.json
    json_t *facts;               // of this process and its machine, for run.json's `starts`
    int64_t process_start_ns;    // of sm_now_ns
    int64_t save_every;          // steps; 0: a checkpoint only when the training is ended early
    int64_t keep;                // checkpoints; 0: all
    sm_resume resume;

    sm_background background;                 // where the thread that writes checkpoints may run
    const volatile sig_atomic_t *interrupted; // not 0: end after the work under way; may be NULL
} sm_train_settings;

typedef struct {
    int64_t first_step; // steps taken when this process began
    int64_t step;       // steps taken so far
    int64_t n_steps;    // steps taken at the end
    double val_loss;    // the last; NaN: none yet
} sm_train_progress;

// Those of process 0 are called, but for `initialise`, `time_apart`, `timed` and `saving`.
typedef struct {
    void *ctx;

    // Fills the session with the weights to begin with, unless a checkpoint is loaded; *step: steps taken so far.
    sm_status (*initialise)(void *ctx, sm_session *session, int64_t *step);

    // After each step, outside of its time. A failure ends the training, and the finished steps are saved.
    sm_status (*stepped)(void *ctx, const sm_train_progress *progress, const sm_train_step *step);

    // In all processes, before a step and after it: the recorder that times its phases, or NULL, and its contents then.
    // Both may be NULL.
    sm_step_phases *(*time_apart)(void *ctx, const sm_train_progress *progress);
    sm_status (*timed)(void *ctx, const sm_train_step *step, const sm_step_phases *phases);

    // A line that a user should see.
    void (*note)(void *ctx, const char *text);

    // Before and after work that must not be cut off, such as a save; may be NULL.
    void (*saving)(void *ctx, bool saving);

    // Facts at the end of this process, for run.json, which the trainer owns then; may be NULL.
    json_t *(*end_facts)(void *ctx);

    // In a run folder, when all but training_metrics.json and RUN_COMPLETE.txt is there: writes these. May be NULL.
    sm_status (*completed)(void *ctx, const char *run_dir);
} sm_train_callbacks;

// Computes the digest of a source's contents, unless it is known.
sm_status sm_train_source_digest(sm_train_source *source);

// The data of steps with these settings, and their common part, except the loader and the schedule. `share` outlives
// the stepper.
sm_status sm_train_prepare(const sm_train_settings *settings, sm_load_share *share, sm_train_stepper *stepper);

// Trains. SM_ERR_INTERRUPTED: ended early as requested, with the finished steps saved.
sm_status sm_train(const sm_train_settings *settings, const sm_train_callbacks *callbacks);

#endif
