// worker.h: subcommands work in a process of their own (src/processes/worker.h): the program ends in time whatever a
// driver does, and names the call that it waited for.
#ifndef STEPMARK_CLI_SETUP_WORKER_H
#define STEPMARK_CLI_SETUP_WORKER_H

#include "bench/rows/row.h"
#include "cli/flags/options.h"
#include "src/processes/worker.h"

// What a subcommand has to end by itself after Ctrl-C; `run` has less, as it may be part of a sweep or a comparison.
#define CLI_STOP_S     1.6
#define CLI_RUN_STOP_S 1.1

// Performs a subcommand as work(options) does, in a worker; *exit_code is the worker's. A failure is one of the
// worker: SM_ERR_INTERRUPTED where it had to be ended after a signal, SM_ERR_TIMEOUT where --timeout is the
// subcommand's and was over. A worker that crashed ends this process by the same signal.
sm_status cli_perform_in_worker(const cli_options *options, int (*work)(void *ctx), int *exit_code);

// In a worker: says what is under way ("building"), for the message in case that it does not end, and what its row
// knows so far (NULL: nothing new).
void cli_stage(const char *what, const sm_row *row);

// In a worker: the devices of a backend are looked for; "": that is over.
void cli_stage_search(const char *backend);

// How a worker ended that did not end by itself, as a failure with a message: during `stage`, with a limit of
// `timeout_s` (0: none).
sm_status cli_worker_failure(const sm_process_result *end, const char *stage, double timeout_s);

#endif
