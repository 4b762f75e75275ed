// train_log.h: the log of a training, one JSON object for each line, with enough digits to restore every float32.
//
//     a step        {"step", "loss", "grad_norm", "lr", "ms", "tokens", "epoch", "data_ms", "comm_ms"}; with several
//                   processes "comm_hidden_ms" and "comm_bytes"; with loss scaling "skipped" and "loss_scale";
//                   grad_norm is null in a skipped step
//     validation    {"kind": "validation", "step", "loss", "tokens", "ms"}
//     epoch         {"kind": "epoch", "epoch", "step"}: the epoch's last step
//     checkpoint    {"kind": "checkpoint", "step", "ms", "background_ms"}: how long the training waited, and how long
//                   writing took in the background; null until then
#pragma once

#include "src/train/train_step.h"

typedef struct sm_train_log sm_train_log;

// Opens --log FILE for appending, on a new line if its last was cut off. `path` must outlive the log, here and below.
sm_status sm_train_log_append(const char *path, sm_train_log **log);

// Opens the log of a run, and truncates it to its first size_bytes, which must be whole lines.
sm_status sm_train_log_continue(const char *path, int64_t size_bytes, sm_train_log **log);

int64_t sm_train_log_size(const sm_train_log *log); // of a run's log

// Write a line and hand it to the system, so that a crash of the program loses none. A line that does not fit on the
// disk leaves nothing. A NULL log ignores lines.
sm_status sm_train_log_step(sm_train_log *log, const sm_train_step *step);
sm_status sm_train_log_validation(sm_train_log *log, int64_t step, double loss, int64_t n_tokens, int64_t elapsed_ns);
sm_status sm_train_log_epoch(sm_train_log *log, int64_t epoch, int64_t step);

sm_status sm_train_log_sample(sm_train_log *log, int64_t step, const char *text);

// The lowest validation loss in the first size_bytes of a log, and its step; NaN if there is none. These bytes must end
// with last_step, or hold no step if that is step_before.
sm_status sm_train_log_best(const char *path, int64_t size_bytes, int64_t step_before, int64_t last_step, double *loss,
                            int64_t *step);

// *place is the position at which background_ms is filled in later, in a run's log; the line keeps its length.
sm_status sm_train_log_checkpoint(sm_train_log *log, int64_t step, int64_t waited_ns, int64_t *place);
sm_status sm_train_log_fill(sm_train_log *log, int64_t place, int64_t elapsed_ns);

// Waits until it is on disk. Another thread than the one that writes lines may call it.
sm_status sm_train_log_sync(sm_train_log *log);

// Syncs and closes. NULL is fine.
sm_status sm_train_log_close(sm_train_log *log);
