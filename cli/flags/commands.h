// commands.h: the subcommands, one file each, and what main.c gives them.
#ifndef STEPMARK_CLI_FLAGS_COMMANDS_H
#define STEPMARK_CLI_FLAGS_COMMANDS_H

#include <signal.h>

#include "cli/flags/options.h"

// Counted up by SIGINT and SIGTERM. Long work looks at it between steps, keeps what it has and
// returns SM_ERR_INTERRUPTED. What does not within CLI_STOP_S, or a second signal: its process is ended (setup/worker.h).
extern volatile sig_atomic_t cli_interrupted;

// Each returns SM_OK, or a failure whose message main.c prints.
#define X(code, name, function, purpose) sm_status function(const cli_options *options);
CLI_COMMAND_LIST(X)
#undef X

// No notes from now on: of several processes one takes them.
void cli_mute(bool muted);

// A line on stderr, "stepmark: ...".
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
