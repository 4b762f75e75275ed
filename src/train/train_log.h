// train_log.h: the log of a training, a JSON object a line, with enough digits to restore every float32.
//
//     a step        {"step", "loss", "grad_norm", "lr", "ms", "tokens", "epoch", "data_ms", "comm_ms"}; of several
//                   processes "comm_hidden_ms" and "comm_bytes"; where the loss is scaled "skipped" and "loss_scale";
//                   grad_norm is null where the step was skipped
//     validation    {"kind": "validation", "step", "loss", "tokens", "ms"}
//     epoch         {"kind": "epoch", "epoch", "step"}: the epoch's last step
//     checkpoint    {"kind": "checkpoint", "step", "ms", "background_ms"}: what the training waited, and what writing
//                   it took beside the training; null until that is over
#ifndef STEPMARK_SRC_TRAIN_TRAIN_LOG_H
#define STEPMARK_SRC_TRAIN_TRAIN_LOG_H

#include "src/train/train_step.h"

typedef struct sm_train_log sm_train_log;

// Opens --log FILE for appending: a log continues with its training. Where its last line was cut off the next begins on
// a line of its own. `path` must outlive the log, here and below.
sm_status sm_train_log_append(const char *path, sm_train_log **log);

// Opens the log of a run, and cuts it after its first size_bytes, a number of whole lines.
sm_status sm_train_log_continue(const char *path, int64_t size_bytes, sm_train_log **log);

int64_t sm_train_log_size(const sm_train_log *log); // of a run's, in bytes

// Each writes a line and hands it to the system, so that a crash of the program loses none. A line that does not fit
// the disk leaves nothing. A NULL log takes no line.
sm_status sm_train_log_step(sm_train_log *log, const sm_train_step *step);
sm_status sm_train_log_validation(sm_train_log *log, int64_t step, double loss, int64_t n_tokens, int64_t elapsed_ns);
sm_status sm_train_log_epoch(sm_train_log *log, int64_t epoch, int64_t step);

// *place is where background_ms is filled in later, in a run's log; the line does not change its length.
sm_status sm_train_log_checkpoint(sm_train_log *log, int64_t step, int64_t waited_ns, int64_t *place);
sm_status sm_train_log_fill(sm_train_log *log, int64_t place, int64_t elapsed_ns);

// Waits until it is on disk. May be called by another thread than the one that writes lines.
sm_status sm_train_log_sync(sm_train_log *log);

// The same, and closes. NULL is fine.
sm_status sm_train_log_close(sm_train_log *log);

#endif
