// trainer_record.h: the files of a trainer: log, checkpoints, run.json, the final weights. A part of the trainer
// (trainer.c), which decides when.
#ifndef STEPMARK_TRAINER_RECORD_H
#define STEPMARK_TRAINER_RECORD_H

#include "src/train/checkpoint_writer.h"
#include "src/train/trainer.h"

typedef struct {
    const sm_train_settings *settings;
    const sm_train_callbacks *callbacks;
    bool is_writer; // process 0: the others leave nothing

    sm_train_log *log; // NULL: none
    char log_path[PATH_MAX];

    // With a run folder.
    sm_run_folder *folder;
    bool is_new;
    char run_id[SM_RUN_ID_SIZE];
    sm_checkpoint_writer *writer;
    int64_t saved_step; // the last that a checkpoint was begun of, or loaded; -1: none
    int64_t log_place;  // where the log waits for the time of the checkpoint that is being written; -1: nowhere
} sm_train_record;

// Owns the run folder, if there is one, and says whether it holds a run to resume.
sm_status sm_train_record_open(sm_train_record *record, const sm_train_settings *settings,
                               const sm_train_callbacks *callbacks);

// Compares or takes the configuration of a run that ends after step n_steps.
sm_status sm_train_record_configure(sm_train_record *record, int64_t n_steps);

// Loads the last checkpoint that is whole; *found: is there one?
sm_status sm_train_record_load(sm_train_record *record, sm_checkpoint *checkpoint, bool *found);

// Opens the log after its first log_bytes, and the writer of checkpoints; writes run.json.
sm_status sm_train_record_begin(sm_train_record *record, int64_t step, int64_t log_bytes);

// Begins a checkpoint, with a line in the log that is part of it. A failure to write it is a note: the training
// continues, and the earlier ones stay.
sm_status sm_train_record_checkpoint(sm_train_record *record, int64_t step);

// A checkpoint of a training that ends early, written when this returns, unless that step has one. Its line in the log
// is not part of it: the log of a resumed run is that of an uninterrupted one. is_pending as in sm_checkpoint.
sm_status sm_train_record_leave(sm_train_record *record, int64_t step, bool is_pending);

// Reports the outcome of the checkpoint being written, if it has ended.
sm_status sm_train_record_look(sm_train_record *record);

// The final weights, when all steps are done; without a run folder, the state so far.
sm_status sm_train_record_save(sm_train_record *record, int64_t step);

// The end of this process's part: run.json's, and the log's. An earlier error message is kept.
sm_status sm_train_record_close(sm_train_record *record, int64_t step, sm_status status);

#endif
