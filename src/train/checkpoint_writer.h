// checkpoint_writer.h: writes checkpoints while training continues: a thread writes a copy of the state. The next
// checkpoint waits for the one before.
#ifndef STEPMARK_SRC_TRAIN_CHECKPOINT_WRITER_H
#define STEPMARK_SRC_TRAIN_CHECKPOINT_WRITER_H

#include "src/runs/background.h"
#include "src/runs/checkpoint.h"
#include "src/train/train_log.h"

typedef struct sm_checkpoint_writer sm_checkpoint_writer;

// The outcome of a checkpoint.
typedef struct {
    int64_t step;
    sm_status status;
    char message[1024];
    int64_t elapsed_ns; // in the thread
} sm_checkpoint_end;

// Allocates a copy of the session's state, and starts the thread. `run_dir`, `config` and `log` must outlive it; the
// log is synced before each checkpoint.
sm_status sm_checkpoint_writer_open(const char *run_dir, const sm_model_config *config, const sm_plan *plan,
                                    sm_train_log *log, int64_t keep, const sm_background *background,
                                    sm_checkpoint_writer **writer);

// Waits until the checkpoint in progress, if any, is written.
void sm_checkpoint_writer_wait(sm_checkpoint_writer *writer);

// Copies the session's state. No checkpoint may be in progress.
sm_status sm_checkpoint_writer_copy(sm_checkpoint_writer *writer, sm_session *session);

// Starts writing the copy and the rest of the state.
void sm_checkpoint_writer_start(sm_checkpoint_writer *writer, const sm_checkpoint *checkpoint);

// Whether a checkpoint has ended since the last call; *end has its outcome. As cheap as a load.
bool sm_checkpoint_writer_ended(sm_checkpoint_writer *writer, sm_checkpoint_end *end);

void sm_checkpoint_writer_close(sm_checkpoint_writer *writer); // waits; NULL is fine
SM_OWNABLE(sm_checkpoint_writer, sm_checkpoint_writer_close)

#endif
