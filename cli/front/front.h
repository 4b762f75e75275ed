// front.h: prints --help, manual pages and completions from the tables of subcommands and flags.
#ifndef STEPMARK_CLI_FRONT_FRONT_H
#define STEPMARK_CLI_FRONT_FRONT_H

#include "cli/flags/flag.h"

// --- the program without a subcommand ------------------------------------------------------------

void cli_front_help(FILE *stream);

// The first commands to try, for somebody who typed only the program's name.
void cli_front_hello(FILE *stream);

// Version, commit, compiler, flags, instruction sets, backends.
void cli_version_print(FILE *stream);

// The manual page of a subcommand, or, for CLI_COMMAND_COUNT, of the program.
void cli_manual_print(FILE *stream, cli_command command);

// Prints what may stand in the place of the last of these words, those after the program's name: first "words", "list",
// "files" or "folders", then a line each: a candidate, a tab, its meaning.
void cli_complete(int n_words, char **words);

// A shell's function that asks for it. SM_ERR_USAGE: unknown shell.
sm_status cli_completion_print(FILE *stream, const char *shell);

// Prints the JSON Schema of a subcommand's records.
sm_status cli_print_schema(cli_command command);

// --- a subcommand --------------------------------------------------------------------------------

enum { CLI_HELP_SIZE = 512 };

// The help of a flag, with its default.
void cli_flag_text(const cli_flag *flag, char text[CLI_HELP_SIZE]);

#endif
