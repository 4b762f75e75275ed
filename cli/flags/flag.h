// flag.h: a row of the table of flags. Shared by flags/flags.c (the table), flags/options.c (which reads arguments
// through it) and front/help.c (which prints it).
#ifndef STEPMARK_CLI_FLAGS_FLAG_H
#define STEPMARK_CLI_FLAGS_FLAG_H

#include <stddef.h>

#include "cli/flags/options.h"

typedef enum {
    CLI_SWITCH,  // bool, takes no argument
    CLI_INT,     // int64_t
    CLI_COUNT,   // int64_t: a whole number, or "auto" for -1
    CLI_INTS,    // cli_ints: comma list and ranges
    CLI_REAL,    // double
    CLI_TEXT,    // const char *
    CLI_TEXTS,   // cli_texts: comma list
    CLI_CHOICE,  // int: the value of one of `choices`
    CLI_CHOICES, // cli_ints: comma list of them
    CLI_FORMAT,  // int: sm_format

    // const char *: what is written. flags/outputs.c looks at all of them before any work begins.
    CLI_NEW_FILE,   // written as a whole, in place of what is there
    CLI_LOG_FILE,   // appended to
    CLI_NEW_FOLDER, // made where it is not there
} cli_flag_type;

// A word that an argument may be, and its value. A list ends with the word NULL.
typedef struct {
    const char *word;
    int value;
} cli_choice;

// Beside the bits of the subcommands: what a sweep does with a flag.
enum {
    CLI_LISTED = 1u << CLI_COMMAND_COUNT,      // takes a list of what `run` takes; each entry is a configuration
    CLI_WHOLE = 1u << (CLI_COMMAND_COUNT + 1), // of those: its commas are its own, one value
};

// How a flag differs for some of its subcommands. What is 0 or NULL is as the row has it.
typedef struct {
    unsigned commands;
    const char *group;
    cli_flag_type type;
    const char *argument, *initial, *help;
    double min, max;
} cli_flag_variant;

typedef struct {
    const char *group; // heading in --help
    const char *name;  // long name, without the dashes
    char letter;       // short name; 0 = none
    cli_flag_type type;
    const char *argument; // as --help shows it, behind the words of a choice; a comma: takes a list
    const char *initial;  // the default, in the flag's own syntax; NULL = not given
    const char *help;
    unsigned commands; // bits 1 << CLI_*, CLI_LISTED, CLI_WHOLE
    size_t target;     // offset in cli_options
    double min, max;   // numbers only, both allowed
    const cli_choice *choices;
    const cli_flag_variant *unlike; // of no subcommand after the last; a later one adds to an earlier; NULL: none
    int row;                        // index in the table; set by cli_flag_of
} cli_flag;

enum { CLI_MAX_FLAGS = 96 }; // of one subcommand

int cli_flag_count(void);
const cli_flag *cli_flag_at(int index); // as most subcommands have it

// The flag as that subcommand has it; false where it has none of it.
bool cli_flag_of(cli_command command, int index, cli_flag *flag);

// The flags of a subcommand, group by group; how many.
int cli_flags_of(cli_command command, cli_flag flags[CLI_MAX_FLAGS]);

// Does it say what a configuration of `run` is? `sweep` takes lists of these; its other flags hold for the sweep as a
// whole.
bool cli_is_axis(const cli_flag *flag);

// Has the subcommand a list of its own of values to try, as `advise` has, where the flag is not given?
bool cli_has_own_list(const cli_flag *flag, cli_command command);

// May a comma list be given to that subcommand?
bool cli_takes_list(const cli_flag *flag, cli_command command);

// "naive|fused|tuned".
void cli_choice_words(const cli_choice *choices, char *text, size_t size_bytes);

// A flag's argument as --help shows it; "" for a switch.
enum { CLI_ARGUMENT_SIZE = 128 };
void cli_flag_argument(const cli_flag *flag, cli_command command, char text[CLI_ARGUMENT_SIZE]);

// The words that its argument, or each entry of its list, may be: choices, formats, and names of sizes, backends,
// presets and rewrites; how many. 0: it is not one of a few.
enum { CLI_MAX_WORDS = 64 };
int cli_flag_words(const cli_flag *flag, const char *words[CLI_MAX_WORDS]);

// Looks at every file and folder that the command line asks to write: that it can be, so that nothing is measured or
// computed in vain. SM_ERR_IO or SM_ERR_USAGE names the flag and the path.
sm_status cli_check_outputs(const cli_options *options);

// Lines of a preset by its name, "\n" between them; NULL if there is none of that name.
const char *cli_preset_find(const char *name);

// The name of a preset, from index 0; NULL after the last.
const char *cli_preset_at(int index);

// The names, for messages: "macro, sizes, ...".
void cli_preset_names(char *text, size_t size_bytes);

// What `advise` may choose, in the order in which values are tried first: what trains the same comes first, so that the
// fastest of that is found, and accumulation comes last, as what it gains hangs on all others.
typedef struct {
    const char *flag;
    const char *changes; // of the training: "batch"; NULL: nothing
} cli_choosable;

// Index of the flag of that name, of which `length` bytes count; -1: `advise` does not choose it.
int cli_choosable_find(const char *name, size_t length);
const cli_choosable *cli_choosable_at(int index); // NULL after the last

#endif
