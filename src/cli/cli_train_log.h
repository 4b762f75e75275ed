// cli_train_log.h: --log FILE.jsonl: a JSON object a step, with enough digits to give every
// float32 back.
#ifndef STEPMARK_CLI_TRAIN_LOG_H
#define STEPMARK_CLI_TRAIN_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "status.h"

typedef struct {
    int64_t step; // 1, 2, ...
    double loss;  // mean over the step's micro-batches
    double grad_norm;
    double lr;
    int64_t elapsed_ns;
    int64_t n_tokens;  // of this step
    bool is_scaled;    // the loss
    bool is_skipped;   // its gradients were not finite: no weights were changed
    double loss_scale; // of the next step
} cli_train_step;

typedef struct cli_train_log cli_train_log;

// Opens for appending: a log goes on where a training does. Where its last line was cut off the next begins on one of
// its own. `path` must outlive the log.
sm_status cli_train_log_open(const char *path, cli_train_log **log);

// Writes a line and hands it to the system, so that a crash loses none. A line that does not fit the disk leaves
// nothing.
sm_status cli_train_log_write(cli_train_log *log, const cli_train_step *step);

// Waits until it is on disk, and closes. NULL is fine.
sm_status cli_train_log_close(cli_train_log *log);

#endif
