// runs.h: checks whether a run's metrics agree with its log, and whether runs may share a table.
//
// A single run must be complete; sums, counts and rates must agree; in a run folder RUN_COMPLETE.txt,
// training_metrics.json and log.jsonl must belong together, and the metrics computed again from the log must be the
// same. Timed work (steps) and untimed work (validation, checkpoints) are separate.
//
// Several runs must have the same engine, model, precision, optimizer, data, seed and device, and the same work: in
// all, or for each process. Otherwise they are not compared.
#pragma once

#include "bench/tables/record.h"
#include "backend.h"
#include "src/io/file_digest.h"

typedef struct {
    const char *path; // owned by the caller
    json_t *metrics;  // NULL: could not be read
    json_t *problems; // array of texts; empty: the run is valid
    bool is_folder;   // with its log; false: only metrics
} sm_training_run;

typedef struct {
    sm_training_run *runs;
    size_t n;
} sm_training_runs;

// The work that must agree, in addition to everything else.
typedef enum {
    SM_WORK_FIXED,           // global batch, steps, tokens: strong scaling
    SM_WORK_FIXED_A_PROCESS, // steps, and the global batch's part for each process: weak scaling
} sm_work;

// Reads run folders, or files like training_metrics.json, and checks each. A run that cannot be read has that as its
// problem. The paths must outlive `runs`.
void sm_training_runs_read(char *const *paths, int n, sm_training_runs *runs);
void sm_training_runs_free(sm_training_runs *runs);

// Adds differences from the first run to each run's problems.
void sm_training_runs_compare(sm_training_runs *runs, sm_work work);

// SM_ERR_INVALID with the first problem, if any, naming run, field and both values.
sm_status sm_training_runs_verdict(const sm_training_runs *runs);

// One record for each run.
extern const sm_table sm_run_check_table;
json_t *sm_training_runs_records(const sm_training_runs *runs);

// --- the log -------------------------------------------------------------------------------------

// The events of a training: the lines of a run folder's log.jsonl.
//
// A step's line has no "kind": step, loss, grad_norm, lr, ms, tokens, epoch, data_ms, comm_ms, and with several
// processes comm_hidden_ms and comm_bytes. Other lines have a kind: validation, checkpoint, epoch. A log with a missing
// or repeated step is refused; the message names the line.

// NaN if a line has no value. Times in seconds.
typedef struct {
    int64_t step, epoch;
    int64_t tokens; // in all processes
    double loss;
    double grad_norm; // of a skipped step NaN
    double lr, time_s;
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
    size_t n_samples, n_lines;
} sm_training_log;

// Reads and checks a log whose first step is `first_step`. SM_ERR_IO, SM_ERR_FORMAT or SM_ERR_OOM names path and line;
// `log` is then empty.
sm_status sm_training_log_read(const char *path, int64_t first_step, sm_training_log *log);
void sm_training_log_free(sm_training_log *log);

// Sums of the steps [begin, end), and of the pauses after them; one before the first step belongs to it.
typedef struct {
    size_t begin, end;
    int64_t n_skipped, checked_ops, checked_steps, tokens;
    double timed_s, data_s, comm_s;
    double hidden_s, comm_bytes; // NaN if a step has no value (single process)
    double loss;                 // mean, weighted by tokens
    double validation_s, checkpoint_s;
    double val_loss;      // of the last validation; NaN: none
    double best_val_loss; // of all
} sm_log_part;

sm_log_part sm_training_log_sum(const sm_training_log *log, size_t begin, size_t end);

// --- the metrics ---------------------------------------------------------------------------------

// Training_metrics.json, schema version 2.0: the metrics of a finished training, computed only from the run
// folder's run.json (the configuration and the machine) and log.jsonl (the events). docs/training_metrics.schema.json
// says what each field means.
//
//   timed      every optimizer step, none left out
//   untimed    start-up, validation, checkpoints, and the rest of the processes' wall time (logging, saving the model)
//   wall time  timed + untimed. Throughput is over the timed part
//
// A run that was resumed is one run: its log continues where it stopped, and each start of the processes has an entry
// in run.json, from which its part of the wall time comes. A process that was killed could not say how long it had run:
// of its time only steps, validations and checkpoints that the log has are counted.

#define SM_TRAINING_SCHEMA_VERSION "2.0"
#define SM_TRAINING_METRICS_FILE   "training_metrics.json"
#define SM_RUN_COMPLETE_FILE       "RUN_COMPLETE.txt"
#define SM_RUN_FILE                "run.json"
#define SM_RUN_LOG_FILE            "log.jsonl"

// The caller owns *metrics. SM_ERR_IO, SM_ERR_FORMAT or SM_ERR_OOM names the file and its error.
sm_status sm_training_metrics_make(const char *folder, json_t **metrics);

// The text of RUN_COMPLETE.txt for these metrics, given the digest of their file.
enum { SM_RUN_COMPLETE_SIZE = 1024 };
void sm_run_complete_text(const json_t *metrics, const char *digest, char text[SM_RUN_COMPLETE_SIZE]);

// The digest in such a text; false if there is none.
bool sm_run_complete_digest(const char *text, char digest[SM_DIGEST_SIZE]);

// The place where a training ran, in the fields of training_metrics.json.

// {environment {OMP_*, ...}, host {name, os, kernel}, hardware {cpu {...}, memory_bytes, device {...}},
//  build {commit, dirty, compiler, flags}, scheduler {name, job_id, nodes, n_tasks, variables {SLURM_*}} or null}
// `device` may be NULL. The caller owns them.
json_t *sm_training_facts(int argc, char *const argv[], const sm_device_info *device);
