// cli_flag.h: a row of the table of flags. Shared by cli_flags.c (the table), cli_options.c
// (which reads arguments through it) and cli_help.c (which prints it).
#ifndef STEPMARK_CLI_FLAG_H
#define STEPMARK_CLI_FLAG_H

#include <stddef.h>

#include "cli_options.h"

typedef enum {
    CLI_SWITCH,  // bool, takes no argument
    CLI_INT,     // int64_t
    CLI_COUNT,   // int64_t: a whole number, or "auto" for -1
    CLI_INTS,    // cli_ints: comma list and ranges
    CLI_REAL,    // double
    CLI_TEXT,    // const char *
    CLI_TEXTS,   // cli_texts: comma list
    CLI_CHOICE,  // int: index among the words of `argument`, "md|csv|json"
    CLI_CHOICES, // cli_ints: comma list of them
    CLI_FORMAT,  // int: sm_format
} cli_flag_type;

typedef struct cli_flag {
    const char *group; // heading in --help
    const char *name;  // long name, without the dashes
    char letter;       // short name; 0 = none
    cli_flag_type type;
    const char *argument; // as --help shows it; the words themselves of a choice
    const char *initial;  // the default, in the flag's own syntax; NULL = not given
    const char *help;
    unsigned commands; // bits 1 << CLI_*
    size_t target;     // offset in cli_options
    double min, max;   // numbers only, both allowed
} cli_flag;

int cli_flag_count(void);
const cli_flag *cli_flag_at(int index);

// Is it a flag of `run` that `sweep` can take a list of, whatever its type?
bool cli_is_axis(const cli_flag *flag);

#endif
