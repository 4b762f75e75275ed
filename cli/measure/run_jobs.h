// run_jobs.h: what the worker of `stepmark run` does: every combination of the lists, one row each. Rows go to the
// parent as messages; what a worker before it had done already is left out.
#ifndef STEPMARK_CLI_MEASURE_RUN_JOBS_H
#define STEPMARK_CLI_MEASURE_RUN_JOBS_H

#include "cli/measure/measure.h"

// Outlives workers: a worker that begins finds in it what the ones before it have done.
typedef struct {
    cli_bench bench;
    json_t *n_done; // place -> rows that are there; a place is a model and a device, "0 opencl:0.1"
    json_t *fits;   // place -> [B, T], as --fit chose or was about to
} cli_run_state;

// Messages beside those of cli_stage and cli_stage_search:
//
//   {"begin": PLACE, "delay": bool}  a job begins, and its limit
//   {"fit": [B, T]}                  is to be taken for the place from now on
//   {"row": ROW}                     the job has ended
//   {"end": STATUS, "message": TEXT} the worker has
//
// Returns the worker's exit code.
int cli_run_jobs(const cli_run_state *state);

// A list that was not given has one entry: `otherwise`.
static inline int cli_count_of(const cli_ints *list) { return list->n > 0 ? list->n : 1; }
static inline int64_t cli_entry(const cli_ints *list, int i, int64_t otherwise) {
    return list->n > 0 ? list->values[i] : otherwise;
}

// Sets job->B and job->T: the largest work of a fixed list that fits the device's free memory
// and, by the measured ceilings at 60%, this device's share of options->fit_s seconds with warm-up,
// samples and attribution. The smallest of the list when none does. Says on stderr what it chose and why.
sm_status cli_fit(cli_bench *bench, cli_job *job);

#endif
