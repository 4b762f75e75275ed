// checkpoint_writer.h: checkpoints that are written while training continues: the state is copied, and a thread writes
// the copy. One checkpoint at a time: the next waits for it.
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
    int64_t elapsed_ns; // of the thread
} sm_checkpoint_end;

// Room for a copy of the session's state, and the thread. `run_dir`, `config` and `log`, which is made durable before a
// checkpoint is, outlive it.
sm_status sm_checkpoint_writer_open(const char *run_dir, const sm_model_config *config, const sm_plan *plan,
                                    sm_train_log *log, int64_t keep, const sm_background *background,
                                    sm_checkpoint_writer **writer);

// Waits until the last checkpoint is written, if one is under way, and for no other.
void sm_checkpoint_writer_wait(sm_checkpoint_writer *writer);

// Copies the session's state. Nothing is under way then.
sm_status sm_checkpoint_writer_copy(sm_checkpoint_writer *writer, sm_session *session);

// Starts writing the copy and the rest of the state.
void sm_checkpoint_writer_start(sm_checkpoint_writer *writer, const sm_checkpoint *checkpoint);

// Whether one has ended since the last call; *end says how. Costs as much as a load.
bool sm_checkpoint_writer_ended(sm_checkpoint_writer *writer, sm_checkpoint_end *end);

void sm_checkpoint_writer_close(sm_checkpoint_writer *writer); // waits; NULL is fine

#endif
