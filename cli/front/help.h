// help.h: what the table of flags says of a subcommand, in the order and the words of --help. Shared by those who
// print it: front/help.c, front/manual.c, front/completion.c.
#ifndef STEPMARK_CLI_FRONT_HELP_H
#define STEPMARK_CLI_FRONT_HELP_H

#include "cli/flags/flag.h"

enum { CLI_HELP_SIZE = 512 };

#define CLI_RANGES_TEXT "Lists of numbers may hold ranges: 1-4, 0-8+2 (step), 1-64*2 (factor)."

// Does it take lists of numbers?
bool cli_takes_ranges(cli_command command);

// The help of a flag, with its default.
void cli_flag_text(const cli_flag *flag, char text[CLI_HELP_SIZE]);

// The exit codes of a subcommand, and what each means; for CLI_COMMAND_COUNT, of all.
void cli_exit_text(cli_command command, char text[CLI_HELP_SIZE]);

#endif
