// commands.c: the table of subcommands, and looking one up by its name.

#include <string.h>

#include "cli/flags/flag.h"

const sm_table cli_no_table = {"", NULL, 0};

const cli_subcommand cli_commands[CLI_COMMAND_COUNT] = {
#define X(code, name, function, table, ...) {name, function, &table, __VA_ARGS__},
    CLI_COMMAND_LIST(X)
#undef X
};

// The front word for a word that lacks the dashes: "--help" for "help". NULL: none.
static const char *flag_called(const char *name) {
#define X(flag, argument, help)          \
    if (strcmp(name, &(flag)[2]) == 0) { \
        return flag;                     \
    }
    CLI_FRONT_LIST(X)
#undef X
    return NULL;
}

// What subcommands of earlier versions are now; until the first release.
static const char *const moved[][2] = {
    {"sweep", "stepmark run takes lists of flags, --preset, --file, --resume and --dry-run"},
    {"peaks", "stepmark devices --peaks"},
    {"again", "stepmark compare FILE#N"},
    {"ablate", "stepmark compare --without all"},
    {"schema", "stepmark SUBCOMMAND --schema"},
    {"init", "stepmark train --init"},
    {"tokenizer", "stepmark tokenize, with --vocab-size, --show or --convert"},
    {"recommend", "stepmark report --best FILE..."},
    {"leaderboard", "stepmark report --rank FILE..."},
    {"bundle", "stepmark report ROWS... --bundle FILE"},
    {"check-run", "stepmark report --check RUN..."},
    {"scaling", "stepmark report --scaling RUN..."},
    {"bench", "stepmark score"},
};

cli_command cli_command_find(const char *name) {
    const char *names[CLI_COMMAND_COUNT];
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        names[i] = cli_commands[i].name;
        if (strcmp(name, names[i]) == 0) {
            return (cli_command)i;
        }
    }
    const char *nearest = flag_called(name);
    nearest = nearest != NULL ? nearest : cli_nearest(name, names, CLI_COMMAND_COUNT);
    for (size_t i = 0; i < sizeof(moved) / sizeof(moved[0]); i++) {
        if (strcmp(name, moved[i][0]) == 0) {
            sm_fail(SM_ERR_USAGE, "'%s' is no subcommand: %s", name, moved[i][1]);
            return CLI_COMMAND_COUNT;
        }
    }
    if (nearest != NULL) {
        sm_fail(SM_ERR_USAGE, "unknown subcommand '%s'; did you mean '%s'?", name, nearest);
    } else if (name[0] == '-') {
        sm_fail(SM_ERR_USAGE, "%s: a subcommand comes first, then its flags", name);
    } else {
        sm_fail(SM_ERR_USAGE, "unknown subcommand '%s'", name);
    }
    return CLI_COMMAND_COUNT;
}

// --- forms ---------------------------------------------------------------------------------------

bool cli_command_is_form_of(cli_command form, cli_command command) {
    return strcmp(cli_commands[form].name, cli_commands[command].name) == 0;
}

bool cli_command_is_form(cli_command command) {
    bool found = false;
    for (int i = 0; i < (int)command; i++) {
        found = found || cli_command_is_form_of((cli_command)i, command);
    }
    return found;
}

// Whether an operand ends like "rows.jsonl#3".
static bool is_numbered(const char *word) {
    const char *number = strrchr(word, '#');
    return number != NULL && number[1] != '\0' && number[1 + strspn(number + 1, "0123456789")] == '\0';
}

// The number of flags that a form takes; *all: it takes every one, and the operands.
static int count_taken(cli_command form, bool has_numbered_form, int argc, char **argv, bool *all) {
    cli_words w;
    bool numbered = false;
    int n = 0;
    *all = true;
    cli_words_begin(form, false, argc, argv, &w);
    while (cli_words_next(&w)) {
        numbered = numbered || (w.is_operand && is_numbered(w.word));
        const bool is_list = !w.is_operand && w.flag != NULL && w.flag->type != CLI_TEXT && w.flag->type != CLI_CODE &&
                             w.value != NULL && strchr(w.value, ',') != NULL; // of which it may take only an entry
        const bool fits = w.is_operand || (w.flag != NULL && (!is_list || cli_takes_list(w.flag, form)));
        n += fits && !w.is_operand;
        *all = *all && fits;
    }
    numbered = numbered || w.n_operands == 1; // a file of one row, such as a block
    *all = *all && (!has_numbered_form || numbered == cli_commands[form].is_numbered);
    return n;
}

cli_command cli_command_form(cli_command command, int argc, char **argv) {
    cli_command best = command;
    int most = -1;
    bool has_numbered_form = false;
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        has_numbered_form =
            has_numbered_form || (cli_command_is_form_of((cli_command)i, command) && cli_commands[i].is_numbered);
    }
    for (int i = (int)command; i < CLI_COMMAND_COUNT; i++) {
        if (cli_command_is_form_of((cli_command)i, command)) {
            bool all;
            const int n = count_taken((cli_command)i, has_numbered_form, argc, argv, &all);
            if (all) {
                return (cli_command)i;
            }
            best = n > most ? (cli_command)i : best;
            most = n > most ? n : most;
        }
    }
    return best;
}
