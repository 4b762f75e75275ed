// overview.h: the program without a subcommand: --help, --version, and the pages that packages ship, all of them
// printed from the tables of subcommands and flags.
#ifndef STEPMARK_CLI_FLAGS_OVERVIEW_H
#define STEPMARK_CLI_FLAGS_OVERVIEW_H

#include <stdio.h>

#include "cli/flags/options.h"

// What may stand in a subcommand's place. X(name, argument, what it does)
#define CLI_FRONT_LIST(X)                                                                       \
    X("--help", "", "print this text; `stepmark SUBCOMMAND --help` lists a subcommand's flags") \
    X("--version", "", "print the version and what it was built from, with and for")            \
    X("--list-devices", "", "same as `stepmark devices`")                                       \
    X("--manual", "[SUBCOMMAND]", "print the manual page, as man reads it")                     \
    X("--completion", "bash|zsh|fish", "print what a shell completes command lines by")

// What the program is, in one line.
#define CLI_PURPOSE_TEXT "measures, and performs, the training step of GPT-2, Llama and Qwen 3 on this machine"

void cli_front_help(FILE *stream);

// What to try first, for somebody who typed the program's name alone.
void cli_front_hello(FILE *stream);

// Version, commit, compiler, flags, instruction sets, backends.
void cli_version_print(FILE *stream);

// The manual page of a subcommand, or, for CLI_COMMAND_COUNT, of the program.
void cli_manual_print(FILE *stream, cli_command command);

// SM_ERR_USAGE: there is no such shell.
sm_status cli_completion_print(FILE *stream, const char *shell);

#endif
