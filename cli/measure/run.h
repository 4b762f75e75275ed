// run.h: the rows of `run`: the flags that measure each, and its sizes if they are not given.
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

// The subcommand of these flags: CLI_RUN or CLI_LOOP.
cli_command cli_run_args_command(const json_t *args);

// A flag's value; NULL: absent.
const char *cli_run_args_value(const json_t *args, const char *name);

// For a row of unknown origin: SM_ERR_FORMAT names the first flag that cli_run_args_make does not write, or that is
// repeated.
sm_status cli_run_args_check(const json_t *args);

// "stepmark run --batch-size=4 ...", quoted for a shell. The caller frees it.
char *cli_run_args_line(const json_t *args);

// --- sizes -------------------------------------------------------------------------------------

// Sets job->B, and job->T if it is 0: the largest work of a fixed list that fits the device's free memory and, at 60% of the
// measured ceilings, this device's share of the seconds of --fit for warm-up, samples and attribution; the smallest of
// the list if none fits. Prints its choice and the reason on stderr.
sm_status cli_fit(cli_bench *bench, cli_job *job);

#endif
