// run_args.h: a row's field run_args: the flags of `run`, or of `loop` for a training loop, that measure this row
// and no other, "--batch-size=4". Every flag that has a value is there, defaults included: a later version may have
// others.
#ifndef STEPMARK_CLI_MEASURE_RUN_ARGS_H
#define STEPMARK_CLI_MEASURE_RUN_ARGS_H

#include <jansson.h>
#include <stdio.h>

#include "cli/measure/measure.h"

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

#endif
