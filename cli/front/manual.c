// manual.c: manual pages in mdoc(7), from the tables of --help.
#include <ctype.h>
#include <string.h>

#include "bench/rows/machine.h"
#include "bench/rows/read_rows.h"
#include "cli/front/front.h"
#include "cli/output/output.h"

enum { PAGE_WIDTH = 78 };

// --- text --------------------------------------------------------------------------------------

// Prints one character literally in roff.
static void put_character(FILE *out, char c) {
    switch (c) {
    case '\\': fputs("\\e", out); break;
    case '-': fputs("\\-", out); break;
    case '`': fputs("\\(ga", out); break;
    case '\'': fputs("\\(aq", out); break;
    case '"': fputs("\\(dq", out); break;
    default: fputc(c, out);
    }
}

static void put_characters(FILE *out, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        put_character(out, text[i]);
    }
}

// One word of a macro's argument, which must not be a macro's name.
static void put_word(FILE *out, const char *text) {
    fputs(" \\&", out);
    for (; *text != '\0'; text++) {
        put_character(out, *text == ' ' ? '~' : *text);
    }
}

// Prints text in short lines; each sentence begins on a new line.
static void put_text(FILE *out, const char *text) {
    size_t column = 0;
    while (*text != '\0') {
        const size_t length = strcspn(text, " ");
        if (column > 0 && column + 1 + length > PAGE_WIDTH / 2) { // escapes are longer than their characters
            fputc('\n', out);
            column = 0;
        }
        fputs(column > 0 ? " " : "\\&", out);
        put_characters(out, text, length);
        column += 1 + length;
        column = length > 0 && strchr(".!?", text[length - 1]) ? PAGE_WIDTH : column;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

// A command line, literally.
static void put_example(FILE *out, const char *line) {
    fputs(".Dl \\&", out);
    put_characters(out, line, strlen(line));
    fputc('\n', out);
}

// --- parts of a page -----------------------------------------------------------------------------

// "November 22, 2026" for "2026-11-22".
static void put_date(FILE *out) {
    static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                         "July",    "August",   "September", "October", "November", "December"};
    int year = 1970;
    int month = 1;
    int day = 1;
    if (sscanf(sm_build_date(), "%d-%d-%d", &year, &month, &day) != 3 || month < 1 || month > 12) {
        month = 1;
    }
    fprintf(out, ".Dd %s %d, %d\n", months[month - 1], day, year);
}

// ".Dt STEPMARK-RUN 1"
static void put_title(FILE *out, const char *command) {
    fputs(".Dt STEPMARK", out);
    fputs(command[0] != '\0' ? "-" : "", out);
    for (; *command != '\0'; command++) {
        fputc(toupper((unsigned char)*command), out);
    }
    fputs(" 1\n.Os\n", out);
}

// " Fl \\-seq\\-len Ar \\&T[,T]", then its meaning.
static void put_entry(FILE *out, const char *name, const char *argument, const char *help) {
    fputs(" Fl \\-", out);
    put_characters(out, name, strlen(name));
    if (argument[0] != '\0') {
        fputs(" Ar", out);
        put_word(out, argument);
    }
    fputc('\n', out);
    put_text(out, help);
}

static void put_flags(FILE *out, cli_command command, cli_command form) {
    cli_flag flags[CLI_MAX_FLAGS];
    const int n = cli_flags_of_form(command, form, flags);
    const char *group = "";
    if (form != command && n > 0) {
        fputs(".Ss With ", out);
        put_characters(out, cli_commands[form].with, strlen(cli_commands[form].with));
        fputc('\n', out);
        put_text(out, cli_commands[form].purpose);
    }
    for (int i = 0; i < n; i++) {
        if (strcmp(group, flags[i].group) != 0) {
            fputs(group[0] != '\0' ? ".El\n" : "", out);
            group = flags[i].group;
            fprintf(out, ".Ss %s\n.Bl -tag -width Ds\n", group);
        }
        char argument[CLI_ARGUMENT_SIZE];
        char help[CLI_HELP_SIZE];
        cli_flag_argument(&flags[i], form, argument);
        cli_flag_text(&flags[i], help);
        fputs(".It", out);
        if (flags[i].letter != 0) {
            fprintf(out, " Fl %c ,", flags[i].letter);
        }
        put_entry(out, flags[i].name, argument, help);
    }
    fputs(n > 0 ? ".El\n" : "", out);
}

static void put_exit_status(FILE *out, cli_command command) {
    char codes[CLI_HELP_SIZE];
    cli_exit_text(command, codes);
    fputs(".Sh EXIT STATUS\n", out);
    put_text(out, codes);
}

// --- pages ---------------------------------------------------------------------------------------

static void print_subcommand(FILE *out, cli_command command) {
    const char *name = cli_commands[command].name;
    put_date(out);
    put_title(out, name);
    fprintf(out, ".Sh NAME\n.Nm stepmark-%s\n.Nd ", name);
    put_characters(out, cli_commands[command].purpose, strlen(cli_commands[command].purpose));
    fprintf(out, "\n.Sh SYNOPSIS\n.Nm stepmark %s\n.Op Ar flags\n", name);
    if (cli_commands[command].operands != NULL) {
        fprintf(out, ".Ar %s\n", cli_commands[command].operands);
    }
    fputs(".Sh DESCRIPTION\n", out);
    put_text(out, "Results go to stdout, the rest to stderr.");
    if (cli_takes_ranges(command)) {
        put_text(out, CLI_RANGES_TEXT);
    }
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        if (cli_command_is_form_of((cli_command)i, command)) {
            put_flags(out, command, (cli_command)i);
        }
    }
    put_exit_status(out, command);
    fputs(".Sh EXAMPLES\n", out);
    for (int i = 0; cli_commands[command].examples[i] != NULL; i++) {
        put_example(out, cli_commands[command].examples[i]);
    }
    fputs(".Sh SEE ALSO\n.Xr stepmark 1\n", out);
}

static void put_item(FILE *out, const char *macro, const char *name, const char *text) {
    fprintf(out, ".It %s %s\n", macro, name);
    put_text(out, text);
}

static void print_program(FILE *out) {
    put_date(out);
    put_title(out, "");
    fprintf(out, ".Sh NAME\n.Nm stepmark\n.Nd " CLI_PURPOSE_TEXT "\n", cli_models_text());
    fputs(".Sh SYNOPSIS\n.Nm\n.Ar subcommand\n.Op Ar flags\n.Sh DESCRIPTION\n", out);
    put_text(out,
             "Runs the whole training step on a processor or on an OpenCL device, checks that losses, gradients and "
             "updates are right, and only then prints the speed, relative to the measured peak of the machine.");
    fputs(".Bl -tag -width Ds\n", out);
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        if (!cli_command_is_form((cli_command)i)) {
            fprintf(out, ".It Xr stepmark-%s 1\n", cli_commands[i].name);
            put_text(out, cli_commands[i].purpose);
        }
    }
    fputs(".El\n.Pp\nIn place of a subcommand:\n.Bl -tag -width Ds\n", out);
#define X(name, argument, help) \
    fputs(".It", out);          \
    put_entry(out, &(name)[2], argument, help);
    CLI_FRONT_LIST(X)
#undef X
    fputs(".El\n", out);
    fputs(".Sh ENVIRONMENT\n.Bl -tag -width Ds\n", out);
    put_item(out, "Ev", "XDG_CACHE_HOME", "folder of the kernels chosen by measurement and of compiled programs.");
    put_item(out, "Ev", "XDG_DATA_HOME", "folder of the baselines saved by compare.");
    put_item(out, "Ev", "OPENBLAS_CORETYPE", "kernels for OpenBLAS; replaced if they are for an older processor.");
    fputs(".El\n.Sh FILES\n.Bl -tag -width Ds\n", out);
    put_item(out, "Pa", "~/.cache/stepmark", "kernels chosen by measurement, and compiled OpenCL programs.");
    put_item(out, "Pa", "~/.local/share/stepmark", "baselines.");
    fputs(".El\n", out);
    put_exit_status(out, CLI_COMMAND_COUNT);
    fputs(".Sh EXAMPLES\n", out);
    put_example(out, cli_commands[CLI_DEVICES].examples[0]);
    put_example(out, cli_commands[CLI_RUN].examples[0]);
    put_example(out, cli_commands[CLI_PROFILE].examples[0]);
}

void cli_manual_print(FILE *stream, cli_command command) {
    if (command == CLI_COMMAND_COUNT) {
        print_program(stream);
    } else {
        print_subcommand(stream, command);
    }
}

// manual.c: --schema: the JSON Schema of a subcommand's records, on stdout.

sm_status cli_print_schema(cli_command command) {
    char title[128];
    const cli_subcommand *c = &cli_commands[command];
    snprintf(title, sizeof(title), "record of stepmark %s", c->name);
    json_t *schema =
        c->table == &sm_row_table ? sm_row_json_schema() : sm_table_json_schema(c->table, title, c->purpose);
    return cli_print_object(schema, "the schema");
}
