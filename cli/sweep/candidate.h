// candidate.h: one configuration of a sweep: looked at, then run in a process of its own, and
// in any case a row.
#ifndef STEPMARK_CLI_SWEEP_CANDIDATE_H
#define STEPMARK_CLI_SWEEP_CANDIDATE_H

#include <limits.h>

#include "cli/measure/forecast.h"
#include "cli/sweep/plan.h"

// What all configurations share.
typedef struct {
    const cli_options *options; // of the sweep
    json_t *machine;            // facts; owned by the caller
    int64_t memory_limit_bytes; // of each process
    char program[PATH_MAX];     // this one
} cli_sweeper;

// What is known of a configuration before it runs.
typedef struct {
    cli_options run; // as `run` reads it
    cli_job job;     // B and T are 0 where --fit will choose them
    sm_device_info info;
    int64_t limit_bytes; // of what the plan may take
    bool is_forecast;    // the two below are known
    cli_forecast forecast;
    char status[16]; // "" where it is to be run; else "skipped" or "oom"
    char reason[SM_ROW_REASON_SIZE];
} cli_candidate;

// SM_ERR_USAGE for values that `run` refuses; what makes no sense in combination is `skipped`, what
// does not fit by estimate `oom`, with the reason.
sm_status cli_candidate_look(const cli_sweeper *sweeper, const cli_configuration *c, cli_candidate *candidate);

// Asks the device whether it has what the plan needs, by what decides it when the configuration runs; skipped where it
// has not. What --fit would choose does not matter to that.
sm_status cli_candidate_ask(cli_candidate *candidate);

// Marks it as one that is not run.
void cli_candidate_skip(cli_candidate *candidate, const char *reason);

// Runs it, or not, and makes its row. SM_ERR_INTERRUPTED: there is none.
sm_status cli_candidate_run(const cli_sweeper *sweeper, const cli_configuration *c, const cli_candidate *candidate,
                            json_t **row);

#endif
