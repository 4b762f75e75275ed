// commands.c: the table of subcommands, and looking one up by its name.
#include "cli/flags/commands.h"

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
    if (nearest != NULL) {
        sm_fail(SM_ERR_USAGE, "unknown subcommand '%s'; did you mean '%s'?", name, nearest);
    } else if (name[0] == '-') {
        sm_fail(SM_ERR_USAGE, "%s: a subcommand comes first, then its flags", name);
    } else {
        sm_fail(SM_ERR_USAGE, "unknown subcommand '%s'", name);
    }
    return CLI_COMMAND_COUNT;
}
