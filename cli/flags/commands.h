// commands.h: the subcommands, one file each.
#ifndef STEPMARK_CLI_FLAGS_COMMANDS_H
#define STEPMARK_CLI_FLAGS_COMMANDS_H

#include "cli/flags/options.h"

// Each returns SM_OK, or a failure whose message main.c prints.
#define X(code, name, function, purpose) sm_status function(const cli_options *options);
CLI_COMMAND_LIST(X)
#undef X

#endif
