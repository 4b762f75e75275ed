// run.h: the rows of `run`: the flags that measure each, and the worker that measures them.
#ifndef STEPMARK_CLI_MEASURE_RUN_H
#define STEPMARK_CLI_MEASURE_RUN_H

#include <jansson.h>
#include <stdio.h>

#include "cli/measure/measure.h"

// --- flags of a row ------------------------------------------------------------------------------

// A row's field run_args: the flags of `run` (or `loop`) that measure exactly this row, "--batch-size=4", including
// defaults, as a later version may have others.

// For a job of the command with these options. The caller owns *args.
sm_status cli_run_args_make(const cli_options *options, const cli_job *job, json_t **args);

// Replaces --timeout: a sweep ends its processes itself.
sm_status cli_run_args_set_timeout(json_t *args, double timeout_s);

// The subcommand of these flags: CLI_RUN or CLI_LOOP.
cli_command cli_run_args_command(const json_t *args);

// A flag's value; NULL: absent.
const char *cli_run_args_value(const json_t *args, const char *name);

// For a row of unknown origin: SM_ERR_FORMAT names the first flag that cli_run_args_make does not write, or that is
// repeated.
sm_status cli_run_args_check(const json_t *args);

// "stepmark run --batch-size=4 ...", quoted for a shell. The caller frees it; NULL when out of memory.
char *cli_run_args_line(const json_t *args);

// --- the worker ----------------------------------------------------------------------------------

// The worker of `stepmark run` measures every combination of the lists, one row each, and sends rows to its parent. It
// skips what an earlier worker has done.

// Outlives workers, and tells a new worker what earlier ones have done.
typedef struct {
    cli_bench bench;
    json_t *n_done; // place -> number of finished rows; a place is a model and a device, "0 opencl:0.1"
    json_t *fits;   // place -> [B, T] that --fit chose, or was about to
} cli_run_state;

// Messages in addition to those of cli_stage and cli_stage_search:
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

// Sets job->B and job->T: the largest work of a fixed list that fits the device's free memory and, at 60% of the
// measured ceilings, this device's share of the seconds of --fit for warm-up, samples and attribution; the smallest of
// the list if none fits. Prints its choice and the reason on stderr.
sm_status cli_fit(cli_bench *bench, cli_job *job);

#endif
