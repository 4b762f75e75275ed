// trainer.h: a training from its first step to its last: data, validation, the log, checkpoints, interruption and
// resuming. It prints nothing: it reports through callbacks.
//
// Step s = 1, 2, ... reads the sequences (s - 1) G to s G - 1 of the order (loader.h), where G is the number of a
// step's sequences in all processes. (With documents, G / B batches of B rows.) Process r of N reads the r-th of N
// equal parts of them, in micro-batches of B. A step that begins in one epoch and ends in the next belongs to the
// first. Sequences at the end of the last epoch that do not fill a step are not read.
//
// With a run folder (run_folder.h) it writes the log and checkpoints there, and resumes an interrupted training:
// weights, optimizer and log are then those of an uninterrupted one.
#pragma once

#include "src/io/file_digest.h"
#include "src/models/model.h"
#include "src/runs/run_folder.h"
#include "src/train/train_step.h"

// A source of tokens.
typedef struct {
    const sm_tokens *tokens; // NULL: none
    const char *path;        // NULL: built into the program
    const char *tokenizer;   // its digest, for text that is tokenised while reading; NULL: no text

    char digest[SM_FILE_DIGEST_SIZE]; // of its bytes; "": not computed yet
    int64_t size_bytes;               // set with the digest

    // Documents in batches of the plan, which must have the operand `starts`; NULL: rows of T tokens of the stream.
    const sm_collation *collation;
} sm_train_source;

enum { SM_WARMUP_SHARE = -1 };

typedef struct {
    sm_session *session; // prepared for steps of B x T; not owned
    const sm_model_config *config;
    sm_comm *comm; // NULL: a single process

    // The work of a step. The plan has B and T of a micro-batch.
    sm_train_source data;
    sm_loader_settings loader;
    int64_t global_batch; // sequences in a step, of all processes: a multiple of B times their number
    sm_order_kind order;
    uint64_t seed;       // of the order
    uint64_t check_seed; // of the checks; 0: nothing is checked
    sm_step_settings optimizer;
    sm_schedule_kind schedule; // of optimizer.lr
    double final_fraction;     // of a schedule that falls
    int64_t warmup_steps;      // SM_WARMUP_SHARE: a third of all steps, at most 500

    // The total work: the smallest limit that is set, in addition to the steps of the initial state.
    int64_t max_steps;  // 0: not set
    int64_t max_epochs; // 0: not set
    int64_t max_tokens; // 0: not set; only whole steps are done

    // The validation set: its first val_batches micro-batches; all, if it has fewer or if that is 0.
    sm_train_source validation;
    sm_session *val_session; // for the forward without dropout; NULL: `session` has no dropout
    int64_t val_every;       // in steps; 0: only after the last step
    int64_t val_batches;

    // Without a run folder: paths of the log, and of the state after the last step; NULL: not written.
    const char *log;
    const char *save;

    // Used with a run folder only.
    const char *run_dir;         // NULL: none
    const json_t *configuration; // further fields that must agree when the run resumes
    const char *command_line;    // for run.json
    json_t *facts;               // of this process and its machine, for run.json's `starts`
    int64_t process_start_ns;    // of sm_now_ns
    int64_t save_every;          // in steps; 0: a checkpoint only when the training is interrupted
    int64_t keep;                // checkpoints to keep; 0: all
    sm_resume resume;
    bool keep_best;       // the weights with the lowest validation loss, in best/
    int64_t sample_every; // in steps; 0: never

    sm_background background;                 // for the thread that writes checkpoints
    const volatile sig_atomic_t *interrupted; // not 0: end after the current work; may be NULL
} sm_train_settings;

typedef struct {
    int64_t first_step; // steps done when this process began
    int64_t step;       // steps done so far
    int64_t n_steps;    // steps in all
    double val_loss;    // the latest; NaN: none yet
    double best_val_loss;
    int64_t best_val_step;
} sm_train_progress;

// Only process 0's are called, except `initialise`, `time_apart`, `timed` and `saving`.
typedef struct {
    void *ctx;

    // Fills the session with initial weights, unless a checkpoint is loaded; *step: steps done so far.
    sm_status (*initialise)(void *ctx, sm_session *session, int64_t *step);

    // Before the first step. May be NULL, as the next two.
    sm_status (*begun)(void *ctx, const sm_train_progress *progress, const sm_schedule *schedule);

    // After a validation.
    sm_status (*validated)(void *ctx, const sm_train_progress *progress);

    // Continues a text by the weights as they are; the trainer logs it and frees *text.
    sm_status (*sample)(void *ctx, char **text);

    // After each step, outside of its time. A failure ends the training; the finished steps are saved.
    sm_status (*stepped)(void *ctx, const sm_train_progress *progress, const sm_train_step *step);

    // In all processes, or NULL: before a step, returns the recorder of its phases or NULL; after it, gets that one.
    sm_step_phases *(*time_apart)(void *ctx, const sm_train_progress *progress);
    sm_status (*timed)(void *ctx, const sm_train_step *step, const sm_step_phases *phases);

    // Shows a line to the user.
    void (*note)(void *ctx, const char *text);

    // Called before and after work that must not be interrupted, such as a save; may be NULL.
    void (*saving)(void *ctx, bool saving);

    // Facts at the end of this process, for run.json; the trainer takes ownership. May be NULL.
    json_t *(*end_facts)(void *ctx);

    // In a run folder, when all but training_metrics.json and RUN_COMPLETE.txt exists: writes these two. May be NULL.
    sm_status (*completed)(void *ctx, const char *run_dir);
} sm_train_callbacks;

// Prepares the data of steps with these settings, and all but their loader and schedule. `share` outlives the stepper.
sm_status sm_train_prepare(const sm_train_settings *settings, sm_load_share *share, sm_train_stepper *stepper);

// Trains. SM_ERR_INTERRUPTED: ended early as requested, with the finished steps saved.
sm_status sm_train(const sm_train_settings *settings, const sm_train_callbacks *callbacks);

// The mean loss over a fixed set of sequences, or of documents.
typedef struct {
    const sm_tokens *tokens;
    const sm_collation *collation; // documents; NULL: none
    int64_t n_batches;             // batches of the session's B x T, in the order of the file or of the collation
    sm_session *trained;           // the session with the weights
    sm_session *session;           // the session that computes: `trained`, or another with the same B and T, which gets
                                   // its weights
    sm_comm *comm;                 // the processes that share the batches
} sm_validation;

// The mean loss over the batches' tokens without padding, and their number. *loss does not depend on the number of
// processes: batches' losses are added in order. It may be not finite.
sm_status sm_validation_run(const sm_validation *validation, double *loss, int64_t *n_tokens);

// The configuration of a run, as in run.json.

// The schedule of a training of n_steps.
sm_schedule sm_train_schedule(const sm_train_settings *settings, int64_t n_steps);

// Computes the digest of a source's contents, unless it is set.
sm_status sm_train_source_digest(sm_train_source *source);

// The settings' own configuration, and {seq_len, micro_batch, global_batch, grad_accum, n_processes, optimizer {name,
// settings}, schedule {kind, warmup_steps, n_steps, final_fraction}, steps, seed, order, data {path, bytes, tokens,
// digest}, val_data (the same or null), val_every, val_batches, save_every}. Reads the data once. The caller owns
// *configuration.
sm_status sm_run_configuration(const sm_train_settings *settings, int64_t n_steps, json_t **configuration);
