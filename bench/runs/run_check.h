// run_check.h: checks whether a run's metrics agree with its log, and whether runs may share a table.
//
// A single run must be complete; sums, counts and rates must agree; in a run folder RUN_COMPLETE.txt,
// training_metrics.json and log.jsonl must belong together, and the metrics computed again from the log must be the
// same. Timed work (steps) and untimed work (validation, checkpoints) are separate.
//
// Several runs must have the same engine, model, precision, optimizer, data, seed and device, and the same work: in
// all, or for each process. Otherwise they are not compared.
#ifndef STEPMARK_BENCH_RUNS_RUN_CHECK_H
#define STEPMARK_BENCH_RUNS_RUN_CHECK_H

#include "bench/tables/record.h"

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

#endif
