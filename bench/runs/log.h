// log.h: the events of a training: the lines of a run folder's log.jsonl.
//
// A step's line has no "kind": step, loss, grad_norm, lr, ms, tokens, epoch, data_ms, comm_ms, and with several
// processes comm_hidden_ms and comm_bytes. Other lines have a kind: validation, checkpoint, epoch. A log with a missing
// or repeated step is refused; the message names the line.
#ifndef STEPMARK_BENCH_RUNS_LOG_H
#define STEPMARK_BENCH_RUNS_LOG_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// NaN if a line has no value. Times in seconds.
typedef struct {
    int64_t step;
    int64_t epoch;
    int64_t tokens; // in all processes
    double loss;
    double grad_norm; // of a skipped step NaN
    double lr;
    double time_s;
    double data_s;     // waiting for data
    double comm_s;     // communication that did not overlap with computation
    double hidden_s;   // and that which did
    double comm_bytes; // sent and received by a process
    int64_t checked_ops;
    bool skipped; // no update, because a gradient was not finite
} sm_logged_step;

// Work outside of steps, and how long the training waited for it.
typedef struct {
    int64_t step; // after which it came
    double time_s;
    double loss; // of a validation
} sm_logged_pause;

typedef struct {
    int64_t step;
    char *text;
} sm_logged_sample;

typedef struct {
    sm_logged_step *steps; // without a gap
    size_t n_steps;
    sm_logged_pause *validations;
    size_t n_validations;
    sm_logged_pause *checkpoints;
    size_t n_checkpoints;
    sm_logged_sample *samples;
    size_t n_samples;
    size_t n_lines;
} sm_training_log;

// Reads and checks a log whose first step is `first_step`. SM_ERR_IO, SM_ERR_FORMAT or SM_ERR_OOM names path and line;
// `log` is then empty.
sm_status sm_training_log_read(const char *path, int64_t first_step, sm_training_log *log);
void sm_training_log_free(sm_training_log *log);

// Sums of the steps [begin, end), and of the pauses after them; one before the first step belongs to it.
typedef struct {
    size_t begin, end;
    int64_t n_skipped;
    int64_t checked_ops, checked_steps;
    int64_t tokens;
    double timed_s, data_s, comm_s;
    double hidden_s, comm_bytes; // NaN if a step has no value (single process)
    double loss;                 // mean, weighted by tokens
    double validation_s, checkpoint_s;
    double val_loss;      // of the last validation; NaN: none
    double best_val_loss; // of all
} sm_log_part;

sm_log_part sm_training_log_sum(const sm_training_log *log, size_t begin, size_t end);

#endif
