// log.h: the events of a training: the lines of a run folder's log.jsonl.
//
// A step's line has no "kind": step, loss, grad_norm, lr, ms, tokens, epoch, data_ms, comm_ms, and of
// several processes comm_hidden_ms and comm_bytes. Other lines say theirs:
// validation, checkpoint, epoch. The log is refused, with its line, where a step is missing or there twice.
#ifndef STEPMARK_BENCH_RUNS_LOG_H
#define STEPMARK_BENCH_RUNS_LOG_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// NaN where a line does not say. Times in seconds.
typedef struct {
    int64_t step;
    int64_t epoch;
    int64_t tokens; // of all processes
    double loss;
    double time_s;
    double data_s;     // waited for data
    double comm_s;     // communication that nothing hid
    double hidden_s;   // and that which the computing hid
    double comm_bytes; // sent and received by a process
    bool skipped;      // the update, because a gradient was not finite
} sm_logged_step;

// Work that is no step: how long the training waited for it.
typedef struct {
    int64_t step; // behind which it came
    double time_s;
    double loss; // of a validation
} sm_logged_pause;

typedef struct {
    sm_logged_step *steps; // without a gap
    size_t n_steps;
    sm_logged_pause *validations;
    size_t n_validations;
    sm_logged_pause *checkpoints;
    size_t n_checkpoints;
    size_t n_lines;
} sm_training_log;

// Reads and checks a log whose first step is `first_step`. SM_ERR_IO, SM_ERR_FORMAT or SM_ERR_OOM names path and line;
// `log` is then empty.
sm_status sm_training_log_read(const char *path, int64_t first_step, sm_training_log *log);
void sm_training_log_free(sm_training_log *log);

#endif
