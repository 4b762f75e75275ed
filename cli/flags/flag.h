// flag.h: a row of the table of flags: flags.c has the table, options.c reads arguments by it, front/help.c prints it.
#pragma once

#include <limits.h>

#include "cli/flags/options.h"

typedef enum {
    CLI_SWITCH,  // bool, takes no argument
    CLI_INT,     // int64_t
    CLI_COUNT,   // int64_t: a whole number, or "auto" for -1
    CLI_INTS,    // cli_ints: comma list and ranges
    CLI_REAL,    // double
    CLI_TEXT,    // const char *
    CLI_CODE,    // const char *: code that runs here (a library, a kernel); no file brings it by itself, see
                 // cli_refuse_code
    CLI_TEXTS,   // cli_texts: comma list
    CLI_CHOICE,  // int: the value of one of `choices`
    CLI_CHOICES, // cli_ints: comma list of them
    CLI_FORMAT,  // int: sm_format

    // const char *: files and folders to write. front/main.c checks all of them before any work begins.
    CLI_NEW_FILE,   // written as a whole, replacing an old file
    CLI_LOG_FILE,   // appended to
    CLI_NEW_FOLDER, // made if missing
} cli_flag_type;

// A word for an argument, and its value. A list ends with the word NULL.
typedef struct {
    const char *word;
    int value;
} cli_choice;

// Further bits next to those of the subcommands: how a sweep treats a flag.
enum {
    CLI_LISTED = 1u << CLI_COMMAND_COUNT,      // takes a list of what `run` takes; each entry is a configuration
    CLI_WHOLE = 1u << (CLI_COMMAND_COUNT + 1), // likewise, but commas belong to one value
};

// How a flag differs in some of its subcommands. 0 and NULL mean: as in the row.
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
    const char *argument; // as in --help, after the words of a choice; a comma: takes a list
    const char *initial;  // the default, in the flag's own syntax; NULL = none
    unsigned commands;    // bits 1 << CLI_*, CLI_LISTED, CLI_WHOLE
    const char *help;
    size_t target;   // offset in cli_options
    double min, max; // numbers only, both inclusive
    const cli_choice *choices;
    const cli_flag_variant *unlike; // the last has no subcommands; later ones add to earlier ones; NULL: none
    const char *also;               // another long name; NULL: none
    int row;                        // index in the table; set by cli_flag_of
} cli_flag;

enum { CLI_MAX_FLAGS = 96 }; // of one subcommand

// Whether it names a file or a folder to write.
static inline bool cli_is_output(const cli_flag *flag) {
    return flag->type == CLI_NEW_FILE || flag->type == CLI_LOG_FILE || flag->type == CLI_NEW_FOLDER;
}

int cli_flag_count(void);
const cli_flag *cli_flag_at(int index); // as in most subcommands

// The flag as in that subcommand; false if the subcommand does not have it.
bool cli_flag_of(cli_command command, int index, cli_flag *flag);

// The flags of a subcommand, group by group, and their number; of a form only those that the subcommand does not have.
int cli_flags_of(cli_command command, cli_flag flags[CLI_MAX_FLAGS]);
int cli_flags_of_form(cli_command command, cli_command form, cli_flag flags[CLI_MAX_FLAGS]);

// The flag that a word names, "--preset", "--pres=sizes" where no other begins so, or "-b4"; NULL: none.
const cli_flag *cli_flag_named(const cli_flag *flags, int n, const char *word);

// The words of a command line, one flag with its argument, or one operand, after the other.
typedef struct {
    cli_flag flags[CLI_MAX_FLAGS];
    int n_flags, argc;
    char **argv;
    int at;              // the next word
    bool sorts;          // moves flags before the operands
    bool has_ended;      // after "--" all are operands
    const char *letters; // in a word of several, "-qb": before the next letter; NULL: none
    int n_operands;      // so far

    // The current one.
    const char *word;
    bool is_operand, is_long;
    const cli_flag *flag; // NULL: unknown
    const char *value;    // NULL: none
} cli_words;

void cli_words_begin(cli_command command, bool sorts, int argc, char **argv, cli_words *words);
bool cli_words_next(cli_words *words); // false at the end

// SM_ERR_USAGE for a file, not the command line, that names code or a file to write. Put its name and line before.
sm_status cli_refuse_code(const cli_flag *flag);

// Whether it is part of a configuration of `run`, which takes lists of these. Other flags apply to all configurations.
bool cli_is_axis(const cli_flag *flag);

// The argument that a command line gives a flag of a configuration; NULL: none, or a switch.
const char *cli_axis_text(const cli_axes *axes, const char *name);

// Adds a flag of a configuration, as if the command line gave it last. `text` must outlive the axes.
sm_status cli_axis_add(cli_axes *axes, const char *name, const char *text);

// Whether the subcommand has its own list of values to try, as `advise` does, if the flag is not given.
bool cli_has_own_list(const cli_flag *flag, cli_command command);

// Whether that subcommand accepts a comma list.
bool cli_takes_list(const cli_flag *flag, cli_command command);

// A flag's argument as --help shows it; "" for a switch.
enum { CLI_ARGUMENT_SIZE = 128 };
void cli_flag_argument(const cli_flag *flag, cli_command command, char text[CLI_ARGUMENT_SIZE]);

// The possible words of its argument, or of each entry of its list: choices, formats, and names of sizes, backends,
// presets and rewrites. Returns their number; 0: any text.
enum { CLI_MAX_WORDS = 64 };
int cli_flag_words(const cli_flag *flag, const char *words[CLI_MAX_WORDS]);

const char *cli_preset_find(const char *name); // its lines, separated by newlines; NULL if there is none
const char *cli_preset_at(int index);          // its name; NULL after the last
bool cli_preset_is_ordered(const char *name);  // its lines run in their order, unless --order says another

// The flags that `advise` chooses, in the order in which it tries values: those that do not change the training come
// first, so that the fastest of them is found; accumulation comes last, as its gain depends on all others.
typedef struct {
    const char *flag;
    const char *changes; // what it changes in the training: "batch"; NULL: nothing
} cli_choosable;

// The entry of the flag whose name has `length` bytes, in the order of trying; NULL: `advise` does not choose it.
const cli_choosable *cli_choosable_find(const char *name, size_t length);
