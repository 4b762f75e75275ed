// worker.h: subcommands work in a separate process (src/processes/worker.h), so that the program ends in time even if a
// driver hangs, and names the call that it waited for.
#ifndef STEPMARK_CLI_SETUP_WORKER_H
#define STEPMARK_CLI_SETUP_WORKER_H

#include "bench/rows/row.h"
#include "cli/flags/options.h"
#include "src/processes/worker.h"

// The time for a subcommand to end by itself after Ctrl-C; `run` has less, as it may be part of a sweep or a
// comparison.
#define CLI_STOP_S     1.6
#define CLI_RUN_STOP_S 1.1

// Runs work(options) in a worker; *exit_code is the worker's. Fails with SM_ERR_INTERRUPTED if it had to be ended after
// a signal, with SM_ERR_TIMEOUT if the subcommand has --timeout and it was exceeded. If a worker crashed, this process
// ends by the same signal.
sm_status cli_perform_in_worker(const cli_options *options, int (*work)(void *ctx), int *exit_code);

// In a worker: reports the current work ("building"), for the message if it does not end, and what its row knows so far
// (NULL: nothing new).
void cli_stage(const char *what, const sm_row *row);

// In a worker: a backend lists its devices; "": finished.
void cli_stage_search(const char *backend);

// The failure, with a message, of a worker that did not end by itself: during `stage`, with a limit of `timeout_s` (0:
// none).
sm_status cli_worker_failure(const sm_process_result *end, const char *stage, double timeout_s);

#endif
