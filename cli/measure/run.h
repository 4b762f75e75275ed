// run.h: the rows of `run`: the flags that each is measured by, and the worker that measures them.
#ifndef STEPMARK_CLI_MEASURE_RUN_H
#define STEPMARK_CLI_MEASURE_RUN_H

#include <jansson.h>
#include <stdio.h>

#include "cli/measure/measure.h"

// --- flags of a row ------------------------------------------------------------------------------

// A row's field run_args: the flags of `run`, or of `loop` for a training loop, that measure this row and no other,
// "--batch-size=4". Every flag that has a value is there, defaults included: a later version may have others.

// Of a job that these options' command measures. The caller owns *args.
sm_status cli_run_args_make(const cli_options *options, const cli_job *job, json_t **args);

// Replaces --timeout: a sweep ends its processes itself.
sm_status cli_run_args_set_timeout(json_t *args, double timeout_s);

// That takes them: CLI_RUN or CLI_LOOP.
cli_command cli_run_args_command(const json_t *args);

// A flag's value; NULL: it is not there.
const char *cli_run_args_value(const json_t *args, const char *name);

// Of a row that anybody may have written: only flags that cli_run_args_make writes, each once. SM_ERR_FORMAT names the
// first other one.
sm_status cli_run_args_check(const json_t *args);

// "stepmark run --batch-size=4 ...", quoted for a shell. The caller frees it; NULL when out of memory.
char *cli_run_args_line(const json_t *args);

// A word of a command line, quoted for a shell where it needs it.
void cli_put_shell_word(FILE *out, const char *word);

// --- the worker ----------------------------------------------------------------------------------

// What the worker of `stepmark run` does: every combination of the lists, one row each. Rows go to the parent as
// messages; what a worker before it had done already is left out.

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
