// trainer_record.h: the files of a trainer: log, checkpoints, run.json, the final weights. trainer.c decides when.
#pragma once

#include "src/runs/checkpoint.h"
#include "src/train/train_log.h"
#include "src/train/trainer.h"

typedef struct {
    const sm_train_settings *settings;
    const sm_train_callbacks *callbacks;
    bool is_writer; // process 0: the others write nothing

    sm_train_log *log; // NULL: none
    char log_path[PATH_MAX];

    // Used with a run folder only.
    sm_run_folder *folder;
    bool is_new;
    char run_id[SM_RUN_ID_SIZE];
    struct checkpoint_writer *writer; // its thread; NULL: not begun
    int64_t saved_step;               // the last step with a checkpoint begun or loaded; -1: none
    int64_t log_place;                // position in the log for the time of the checkpoint in progress; -1: none
} sm_train_record;

// Takes ownership of the run folder, if there is one, and tells whether it holds a run to resume.
sm_status sm_train_record_open(sm_train_record *record, const sm_train_settings *settings,
                               const sm_train_callbacks *callbacks);

// Compares or sets the configuration of a run that ends after step n_steps.
sm_status sm_train_record_configure(sm_train_record *record, int64_t n_steps);

// Loads the last complete checkpoint; *found: whether there is one.
sm_status sm_train_record_load(sm_train_record *record, sm_checkpoint *checkpoint, bool *found);

// Opens the log after its first log_bytes, and the writer of checkpoints; writes run.json.
sm_status sm_train_record_begin(sm_train_record *record, int64_t step, int64_t log_bytes);

// Starts a checkpoint, and logs it. If it cannot be written, a note says so, the training and earlier ones go on.
sm_status sm_train_record_checkpoint(sm_train_record *record, int64_t step);

// Writes a checkpoint of a training that ends early, unless that step has one. It does not include its line in the log,
// so that a resumed run's log equals that of an uninterrupted one. is_pending as in sm_checkpoint.
sm_status sm_train_record_leave(sm_train_record *record, int64_t step, bool is_pending);

// Reports the outcome of the checkpoint in progress, if it has ended.
sm_status sm_train_record_look(sm_train_record *record);

// Saves the final weights after the last step; without a run folder, the state so far.
sm_status sm_train_record_save(sm_train_record *record, int64_t step);

// Saves the weights to best/; process 0's alone writes.
sm_status sm_train_record_keep_best(sm_train_record *record);

// The lowest validation loss in the log of a run that resumes from a checkpoint, and its step; in all processes.
sm_status sm_train_record_best(sm_train_record *record, const sm_checkpoint *checkpoint, double *loss, int64_t *step);

// Ends this process's entry in run.json, and the log. An earlier error message is kept.
sm_status sm_train_record_close(sm_train_record *record, int64_t step, sm_status status);
