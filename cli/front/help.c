// help.c: --help of a subcommand, printed from the table of flags.
#include <string.h>

#include "bench/rows/machine.h"
#include "bench/tables/screen.h"
#include "cli/front/front.h"

// --- the whole program ---------------------------------------------------------------------------

const char *cli_models_text(void) {
    static char text[256];
    const int n = sm_model_count();
    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        cli_append_word(text, sizeof text, i + 1 < n ? ", " : " and ", sm_model_at(i)->title);
    }
    return text;
}

void cli_front_help(FILE *stream) {
    fprintf(stream, "stepmark " CLI_PURPOSE_TEXT ".\n\nusage: stepmark SUBCOMMAND [flags]\n\n", cli_models_text());
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        if (cli_command_is_form((cli_command)i)) {
            continue;
        }
        if (cli_commands[i].heading != NULL) {
            fprintf(stream, "%s%s\n", i > 0 ? "\n" : "", cli_commands[i].heading);
        }
        fprintf(stream, "  %-12s %s\n", cli_commands[i].name, cli_commands[i].purpose);
    }
    fputs("\nIn place of a subcommand\n", stream);
#define X(name, argument, help) \
    fprintf(stream, "  %s%s%s\n               %s\n", name, argument[0] != '\0' ? " " : "", argument, help);
    CLI_FRONT_LIST(X)
#undef X
    fputs("\nExamples\n"
          "  stepmark run              measure GPT-2 124M on every device, about a minute\n"
          "  stepmark walk --values    follow a tiny model's step with its numbers\n",
          stream);
    char codes[CLI_HELP_SIZE];
    cli_exit_text(CLI_COMMAND_COUNT, codes);
    fprintf(stream, "\nExit codes: %s\n", codes);
}

void cli_front_hello(FILE *stream) {
    fprintf(stream, "stepmark measures the training step of %s. Try:\n\n", cli_models_text());
    fputs("  stepmark devices    list the devices that can run here\n"
          "  stepmark run        measure the speed of each device: about a minute\n"
          "  stepmark profile    show where the time goes, op by op\n"
          "\n"
          "`stepmark --help` lists the rest.\n",
          stream);
}

static const char *yes_no(bool is_so) { return is_so ? "yes" : "no"; }

void cli_version_print(FILE *stream) {
    fprintf(stream, "stepmark %s\n", sm_build_version());
    fprintf(stream, "commit: %s, of %s%s\n", sm_build_commit(), sm_build_date(),
            sm_build_is_dirty() ? ", with changes" : "");
    fprintf(stream, "compiler: %s\n", sm_build_compiler());
    fprintf(stream, "flags: %s\n", sm_build_flags());
    fprintf(stream, "instruction sets: %s\n", sm_build_isas());
    fprintf(stream, "backends:");
    for (int i = 0; i < sm_backend_count(); i++) {
        fprintf(stream, " %s", sm_backend_at(i)->name);
    }
    fprintf(stream, "\nOpenCL: %s\nMPI: %s\n", yes_no(sm_build_has_opencl()), yes_no(sm_build_has_mpi()));
}

enum { HELP_COLUMN = 34, WIDTH_ELSEWHERE = 100 };

bool cli_takes_ranges(cli_command command) {
    for (int form = 0; form < CLI_COMMAND_COUNT; form++) {
        cli_flag flags[CLI_MAX_FLAGS];
        const bool is_shown = cli_command_is_form_of((cli_command)form, command);
        for (int i = is_shown ? cli_flags_of((cli_command)form, flags) - 1 : -1; i >= 0; i--) {
            if (flags[i].type == CLI_INTS && cli_takes_list(&flags[i], (cli_command)form)) {
                return true;
            }
        }
    }
    return false;
}

void cli_flag_text(const cli_flag *flag, char text[CLI_HELP_SIZE]) {
    snprintf(text, CLI_HELP_SIZE, flag->initial != NULL ? "%s (default %s)" : "%s", flag->help, flag->initial);
}

// Prints `text` from column HELP_COLUMN, broken between words.
static void print_wrapped(FILE *stream, const char *text) {
    const int screen = sm_screen_width(stream);
    const int width = screen > 0 && screen < WIDTH_ELSEWHERE ? screen : WIDTH_ELSEWHERE;
    int column = HELP_COLUMN;
    while (*text != '\0') {
        int length = (int)strcspn(text, " ");
        if (column > HELP_COLUMN && column + 1 + length > width) {
            fprintf(stream, "\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        } else if (column > HELP_COLUMN) {
            fputc(' ', stream);
            column++;
        }
        fprintf(stream, "%.*s", length, text);
        column += length;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', stream);
}

static void print_flag(FILE *stream, cli_command command, const cli_flag *flag) {
    char left[256], argument[CLI_ARGUMENT_SIZE], right[CLI_HELP_SIZE];
    int used = flag->letter != 0 ? snprintf(left, sizeof(left), "  -%c, --%s", flag->letter, flag->name)
                                 : snprintf(left, sizeof(left), "      --%s", flag->name);
    cli_flag_argument(flag, command, argument);
    if (argument[0] != '\0') {
        used += snprintf(left + used, sizeof(left) - (size_t)used, " %s", argument);
    }
    if (used > HELP_COLUMN - 2) {
        fprintf(stream, "%s\n%*s", left, HELP_COLUMN, "");
    } else {
        fprintf(stream, "%-*s", HELP_COLUMN, left);
    }
    cli_flag_text(flag, right);
    print_wrapped(stream, right);
}

// The exit codes between `after` and `before`, of one subcommand or all.
static void add_codes(cli_command command, int after, int before, char text[CLI_HELP_SIZE]) {
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        const cli_subcommand *c = &cli_commands[i];
        const bool is_asked = command == CLI_COMMAND_COUNT || command == (cli_command)i;
        if (is_asked && c->exit_code > after && c->exit_code < before) {
            const size_t used = strlen(text);
            snprintf(text + used, CLI_HELP_SIZE - used, ", %d %s", c->exit_code, c->exit_meaning);
        }
    }
}

void cli_exit_text(cli_command command, char text[CLI_HELP_SIZE]) {
    enum { USAGE = 2, INTERRUPTED = 130, NONE = 256 };
    snprintf(text, CLI_HELP_SIZE, "0 ok, 1 error or failed check, 2 usage");
    add_codes(command, USAGE, INTERRUPTED, text);
    snprintf(text + strlen(text), CLI_HELP_SIZE - strlen(text), ", 130 interrupted");
    add_codes(command, INTERRUPTED, NONE, text);
    snprintf(text + strlen(text), CLI_HELP_SIZE - strlen(text), ".");
}

// The flags of a subcommand, or those of a form that the subcommand itself does not have.
static void print_flags(FILE *stream, cli_command command, cli_command form) {
    cli_flag flags[CLI_MAX_FLAGS];
    const int n = cli_flags_of_form(command, form, flags);
    const char *group = "";
    if (form != command) {
        fprintf(stream, "\nWith %s: %s\n", cli_commands[form].with, cli_commands[form].purpose);
    }
    for (int i = 0; i < n; i++) {
        if (strcmp(group, flags[i].group) != 0) {
            group = flags[i].group;
            fprintf(stream, "%s%s\n", form == command ? "\n" : " ", group);
        }
        print_flag(stream, form, &flags[i]);
    }
}

void cli_options_help(FILE *stream, cli_command command) {
    const cli_subcommand *c = &cli_commands[command];
    fprintf(stream, "stepmark %s: %s\n\nusage: stepmark %s [flags]%s%s\n", c->name, c->purpose, c->name,
            c->operands != NULL ? " " : "", c->operands != NULL ? c->operands : "");
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        if (cli_command_is_form_of((cli_command)i, command)) {
            print_flags(stream, command, (cli_command)i);
        }
    }
    fprintf(stream, "\n%s%sResults go to stdout, the rest to stderr.\n\nExamples\n",
            cli_takes_ranges(command) ? CLI_RANGES_TEXT : "", cli_takes_ranges(command) ? " " : "");
    for (int i = 0; c->examples[i] != NULL; i++) {
        fprintf(stream, "  %s\n", c->examples[i]);
    }
    char codes[CLI_HELP_SIZE];
    cli_exit_text(command, codes);
    fprintf(stream, "\nExit codes: %s\n", codes);
}
