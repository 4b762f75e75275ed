// front.h: prints --help, manual pages and completions from the tables of subcommands and flags.
#pragma once

#include "cli/flags/flag.h"

void cli_options_help(FILE *stream, cli_command command);
void cli_front_help(FILE *stream);  // of the program without a subcommand
void cli_front_hello(FILE *stream); // the first commands to try, for somebody who typed only the program's name
void cli_version_print(FILE *stream);
void cli_manual_print(FILE *stream, cli_command command); // CLI_COMMAND_COUNT: of the program

// Prints what may stand in the place of the last of these words, those after the program's name: first "words", "list",
// "files" or "folders", then a line each: a candidate, a tab, its meaning.
void cli_complete(int n_words, char **words);

// A shell's function that asks for it. SM_ERR_USAGE: unknown shell.
sm_status cli_completion_print(FILE *stream, const char *shell);

sm_status cli_print_schema(cli_command command);

enum { CLI_HELP_SIZE = 512 };
