// run_check.h: whether a run's metrics agree with its log, and whether runs may share a table.
//
// Each run by itself: it is complete; sums, counts and rates agree with each other; in a run folder RUN_COMPLETE.txt,
// training_metrics.json and log.jsonl belong together, and the metrics computed again from the log are the same. Timed
// work (steps) and untimed work (validation, checkpoints) are separate.
//
// Runs together: same engine, model, precision, optimizer, data, seed, device; and the same work: as a whole, or for
// each process. Nothing is compared that is not.
#ifndef STEPMARK_BENCH_RUNS_RUN_CHECK_H
#define STEPMARK_BENCH_RUNS_RUN_CHECK_H

#include "bench/tables/record.h"

typedef struct {
    const char *path; // the caller's
    json_t *metrics;  // NULL: could not be read
    json_t *problems; // array of texts; empty: the run is valid
    bool is_folder;   // with its log; else metrics alone
} sm_training_run;

typedef struct {
    sm_training_run *runs;
    size_t n;
} sm_training_runs;

// What must agree beside everything else.
typedef enum {
    SM_WORK_FIXED,           // global batch, steps, tokens: strong scaling
    SM_WORK_FIXED_A_PROCESS, // steps, and the global batch's part for a process: weak scaling
} sm_work;

// Reads run folders or files like training_metrics.json and checks each by itself. A run that cannot be read has that
// as its problem: SM_ERR_OOM is the only failure. The paths must outlive `runs`.
sm_status sm_training_runs_read(char *const *paths, int n, sm_training_runs *runs);
void sm_training_runs_free(sm_training_runs *runs);

// Adds what differs from the first run's to the problems of each.
sm_status sm_training_runs_compare(sm_training_runs *runs, sm_work work);

// SM_ERR_INVALID with the first problem, naming run, field and both values, if there is any.
sm_status sm_training_runs_verdict(const sm_training_runs *runs);

// A record a run.
extern const sm_table sm_run_check_table;
sm_status sm_training_runs_records(const sm_training_runs *runs, json_t **records);

#endif
