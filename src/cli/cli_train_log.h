// cli_train_log.h: --log FILE.jsonl: a JSON object a step, with enough digits to give every
// float32 back.
#ifndef STEPMARK_CLI_TRAIN_LOG_H
#define STEPMARK_CLI_TRAIN_LOG_H

#include <stdint.h>
#include <stdio.h>

#include "status.h"

typedef struct {
    int64_t step; // 1, 2, ...
    double loss;  // mean over the step's micro-batches
    double grad_norm;
    double lr;
    int64_t elapsed_ns;
    int64_t n_tokens; // of this step
} cli_train_step;

// Opens for appending: a log goes on where a training does.
sm_status cli_train_log_open(const char *path, FILE **log);

// Writes a line and hands it to the system, so that a crash loses none.
sm_status cli_train_log_write(FILE *log, const char *path, const cli_train_step *step);

// Waits until it is on disk, and closes.
sm_status cli_train_log_close(FILE *log, const char *path);

#endif
