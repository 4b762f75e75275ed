// help.c: --help, manual pages, --schema and completions, from the tables of subcommands and flags.
#include <ctype.h>

#include "bench/rows/machine.h"
#include "bench/rows/read_rows.h"
#include "bench/tables/screen.h"
#include "cli/front/front.h"
#include "cli/output/output.h"

// --- the whole program ---------------------------------------------------------------------------

// The purpose of the program, in one line; and the models in it: "GPT-2, Llama and Qwen 3".
#define PURPOSE "measures, and performs, the training step of %s on this machine"

static const char *models_text(void) {
    static char text[256];
    const int n = sm_model_count();
    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        sm_append_part(text, sizeof text, i + 1 < n ? ", " : " and ", sm_model_at(i)->title);
    }
    return text;
}

// The exit codes of a subcommand and their meanings; for CLI_COMMAND_COUNT, of all.
static const char *exit_text(cli_command command, char text[CLI_HELP_SIZE]) {
    const bool is_any = command == CLI_COMMAND_COUNT;
    snprintf(text, CLI_HELP_SIZE, "0 ok, 1 error or failed check, 2 usage%s, 130 interrupted%s.",
             is_any || command == CLI_COMPARE ? ", 3 slower (compare)" : "",
             is_any || command == CLI_TRAIN ? ", 143 ended by SIGTERM (train --run)" : "");
    return text;
}

void cli_front_help(FILE *stream) {
    fprintf(stream, "stepmark " PURPOSE ".\n\nusage: stepmark SUBCOMMAND [flags]\n\n", models_text());
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
    fprintf(stream, "\nExit codes: %s\n", exit_text(CLI_COMMAND_COUNT, (char[CLI_HELP_SIZE]){""}));
}

void cli_front_hello(FILE *stream) {
    fprintf(stream, "stepmark measures the training step of %s. Try:\n\n", models_text());
    fputs("  stepmark devices    list the devices that can run here\n"
          "  stepmark run        measure the speed of each device: about a minute\n"
          "  stepmark profile    show where the time goes, op by op\n"
          "\n"
          "`stepmark --help` lists the rest.\n",
          stream);
}

void cli_version_print(FILE *stream) {
    fprintf(stream, "stepmark %s\n", sm_build.version);
    fprintf(stream, "commit: %s, of %s%s\n", sm_build.commit, sm_build.date, sm_build.is_dirty ? ", with changes" : "");
    fprintf(stream, "compiler: %s\n", sm_build.compiler);
    fprintf(stream, "flags: %s\n", sm_build.flags);
    fprintf(stream, "instruction sets: %s\n", sm_build.isas);
    fprintf(stream, "backends:");
    for (int i = 0; i < sm_backend_count(); i++) {
        fprintf(stream, " %s", sm_backend_at(i)->name);
    }
    fprintf(stream, "\nOpenCL: %s\nMPI: %s\n", sm_build.has_opencl ? "yes" : "no", sm_build.has_mpi ? "yes" : "no");
}

enum { WIDTH_ELSEWHERE = 100 };

// Where the help of a flag begins.
static int help_column(FILE *stream) {
    const int screen = sm_screen_width(stream);
    return screen > 0 && screen < 64 ? 10 : 34;
}

#define RANGES_TEXT "Lists of numbers may hold ranges: 1-4, 0-8+2 (step), 1-64*2 (factor)."

// Whether it takes lists of numbers.
static bool takes_ranges(cli_command command) {
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

static void flag_text(const cli_flag *flag, char text[CLI_HELP_SIZE]) {
    snprintf(text, CLI_HELP_SIZE, flag->initial != NULL ? "%s (default %s)" : "%s", flag->help, flag->initial);
}

// Prints `text` from help_column() on, broken between words.
static void print_wrapped(FILE *stream, const char *text) {
    const int screen = sm_screen_width(stream);
    const int width = screen > 0 && screen < WIDTH_ELSEWHERE ? screen : WIDTH_ELSEWHERE;
    const int first = help_column(stream);
    int column = first;
    while (*text != '\0') {
        int length = (int)strcspn(text, " ");
        if (column > first && column + 1 + length > width) {
            fprintf(stream, "\n%*s", first, "");
            column = first;
        } else if (column > first) {
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
        const cli_flag *flag = &flags[i];
        char left[256], argument[CLI_ARGUMENT_SIZE], right[CLI_HELP_SIZE];
        int used = flag->letter != 0 ? snprintf(left, sizeof(left), "  -%c, --%s", flag->letter, flag->name)
                                     : snprintf(left, sizeof(left), "      --%s", flag->name);
        cli_flag_argument(flag, form, argument);
        if (argument[0] != '\0') {
            used += snprintf(left + used, sizeof(left) - (size_t)used, " %s", argument);
        }
        const int column = help_column(stream);
        fprintf(stream, "%-*s%s%*s", column - 2, left, used > column - 2 ? "\n" : "", used > column - 2 ? column : 2,
                "");
        flag_text(flag, right);
        print_wrapped(stream, right);
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
            takes_ranges(command) ? RANGES_TEXT : "", takes_ranges(command) ? " " : "");
    for (int i = 0; c->examples[i] != NULL; i++) {
        fprintf(stream, "  %s\n", c->examples[i]);
    }
    fprintf(stream, "\nExit codes: %s\n", exit_text(command, (char[CLI_HELP_SIZE]){""}));
}

// --- manual pages, in mdoc(7) -----------------------------------------------------------------------

// Prints text literally in roff, with `space` for each space.
static void put(FILE *out, const char *text, const char *space) {
    for (; *text != '\0'; text++) {
        switch (*text) {
        case ' ': fputs(space, out); break;
        case '\\': fputs("\\e", out); break;
        case '-': fputs("\\-", out); break;
        case '`': fputs("\\(ga", out); break;
        case '\'': fputs("\\(aq", out); break;
        case '"': fputs("\\(dq", out); break;
        default: fputc(*text, out);
        }
    }
}

// A paragraph, a word a line: the formatter fills its lines, and knows a sentence by the end of one.
static void put_text(FILE *out, const char *text) {
    fputs("\\&", out);
    put(out, text, "\n\\&");
    fputc('\n', out);
}

// A command line, literally.
static void put_example(FILE *out, const char *line) {
    fputs(".Dl \\&", out);
    put(out, line, " ");
    fputc('\n', out);
}

// ".Dd November 22, 2026", for "2026-11-22", and ".Dt STEPMARK-RUN 1".
static void put_head(FILE *out, const char *command) {
    static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                         "July",    "August",   "September", "October", "November", "December"};
    int year = 1970, month = 1, day = 1;
    month = sscanf(sm_build.date, "%d-%d-%d", &year, &month, &day) != 3 || month < 1 || month > 12 ? 1 : month;
    fprintf(out, ".Dd %s %d, %d\n.Dt STEPMARK%s", months[month - 1], day, year, command[0] != '\0' ? "-" : "");
    for (; *command != '\0'; command++) {
        fputc(toupper((unsigned char)*command), out);
    }
    fputs(" 1\n.Os\n", out);
}

// " Fl \\-seq\\-len Ar \\&T[,T]", then its meaning.
static void put_entry(FILE *out, const char *name, const char *argument, const char *help) {
    fputs(" Fl \\-", out);
    put(out, name, " ");
    fputs(argument[0] != '\0' ? " Ar \\&" : "", out);
    put(out, argument, "~"); // one word
    fputc('\n', out);
    put_text(out, help);
}

static void put_flags(FILE *out, cli_command command, cli_command form) {
    cli_flag flags[CLI_MAX_FLAGS];
    const int n = cli_flags_of_form(command, form, flags);
    const char *group = "";
    if (form != command && n > 0) {
        fputs(".Ss With ", out);
        put(out, cli_commands[form].with, " ");
        fputc('\n', out);
        put_text(out, cli_commands[form].purpose);
    }
    for (int i = 0; i < n; i++) {
        char argument[CLI_ARGUMENT_SIZE], help[CLI_HELP_SIZE];
        if (strcmp(group, flags[i].group) != 0) {
            fprintf(out, "%s.Ss %s\n.Bl -tag -width Ds\n", group[0] != '\0' ? ".El\n" : "", flags[i].group);
            group = flags[i].group;
        }
        cli_flag_argument(&flags[i], form, argument);
        flag_text(&flags[i], help);
        fputs(".It", out);
        if (flags[i].letter != 0) {
            fprintf(out, " Fl %c ,", flags[i].letter);
        }
        put_entry(out, flags[i].name, argument, help);
    }
    fputs(n > 0 ? ".El\n" : "", out);
}

static void put_exit_status(FILE *out, cli_command command) {
    fputs(".Sh EXIT STATUS\n", out);
    put_text(out, exit_text(command, (char[CLI_HELP_SIZE]){""}));
    fputs(".Sh EXAMPLES\n", out);
}

static void print_program(FILE *out) {
    put_head(out, "");
    fprintf(out, ".Sh NAME\n.Nm stepmark\n.Nd " PURPOSE "\n", models_text());
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
    fputs(".El\n.Sh ENVIRONMENT\n.Bl -tag -width Ds\n"
          ".It Ev XDG_CACHE_HOME\nfolder of the kernels chosen by measurement and of compiled programs.\n"
          ".It Ev XDG_DATA_HOME\nfolder of the baselines saved by compare.\n"
          ".It Ev OPENBLAS_CORETYPE\nkernels for OpenBLAS; replaced if they are for an older processor.\n"
          ".El\n.Sh FILES\n.Bl -tag -width Ds\n"
          ".It Pa ~/.cache/stepmark\nkernels chosen by measurement, and compiled OpenCL programs.\n"
          ".It Pa ~/.local/share/stepmark\nbaselines.\n.El\n",
          out);
    put_exit_status(out, CLI_COMMAND_COUNT);
    put_example(out, cli_commands[CLI_DEVICES].examples[0]);
    put_example(out, cli_commands[CLI_RUN].examples[0]);
    put_example(out, cli_commands[CLI_PROFILE].examples[0]);
}

void cli_manual_print(FILE *out, cli_command command) {
    if (command == CLI_COMMAND_COUNT) {
        print_program(out);
        return;
    }
    const cli_subcommand *c = &cli_commands[command];
    put_head(out, c->name);
    fprintf(out, ".Sh NAME\n.Nm stepmark-%s\n.Nd ", c->name);
    put(out, c->purpose, " ");
    fprintf(out, "\n.Sh SYNOPSIS\n.Nm stepmark %s\n.Op Ar flags\n", c->name);
    if (c->operands != NULL) {
        fprintf(out, ".Ar %s\n", c->operands);
    }
    fputs(".Sh DESCRIPTION\nResults go to stdout, the rest to stderr.\n", out);
    if (takes_ranges(command)) {
        put_text(out, RANGES_TEXT);
    }
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        if (cli_command_is_form_of((cli_command)i, command)) {
            put_flags(out, command, (cli_command)i);
        }
    }
    put_exit_status(out, command);
    for (int i = 0; c->examples[i] != NULL; i++) {
        put_example(out, c->examples[i]);
    }
    fputs(".Sh SEE ALSO\n.Xr stepmark 1\n", out);
}

sm_status cli_print_schema(cli_command command) {
    char title[128];
    const cli_subcommand *c = &cli_commands[command];
    snprintf(title, sizeof(title), "record of stepmark %s", c->name);
    json_t *schema =
        c->table == &sm_row_table ? sm_row_json_schema() : sm_table_json_schema(c->table, title, c->purpose);
    return cli_print_object(schema, "the schema");
}

// --- completion of a command line that is being typed ------------------------------------------

// A value is being typed, after the part `before` of its word, which candidates repeat.
typedef struct {
    int n_before;
    const char *before, *value;
} typed;

static void offer(const typed *t, const char *candidate, const char *help) {
    if (strncmp(candidate, t->value, strlen(t->value)) == 0) {
        printf("%.*s%s\t%s\n", t->n_before, t->before, candidate, help);
    }
}

// The flags of a subcommand and of its forms.
enum { MAX_FORM_FLAGS = 4 * CLI_MAX_FLAGS };
// Completes an argument; in a list, its last entry.
static void complete_value(cli_command command, const cli_flag *flag, typed t) {
    const char *words[CLI_MAX_WORDS];
    const int n = cli_flag_words(flag, words);
    const bool is_list = n > 0 && cli_takes_list(flag, command);
    const char *comma = is_list ? strrchr(t.value, ',') : NULL;
    const char *argument = flag->argument != NULL ? flag->argument : "";
    if (n == 0) {
        const bool is_file =
            flag->type == CLI_NEW_FILE || flag->type == CLI_LOG_FILE || strstr(argument, "FILE") != NULL;
        const bool is_folder = flag->type == CLI_NEW_FOLDER || strstr(argument, "DIR") != NULL;
        puts(is_file ? "files" : is_folder ? "folders" : "words");
        return;
    }
    if (comma != NULL) {
        t.n_before += (int)(comma + 1 - t.value);
        t.value = comma + 1;
    }
    puts(is_list ? "list" : "words");
    for (int i = 0; i < n; i++) {
        offer(&t, words[i], "");
    }
}

static void complete_command(cli_command command, int n, char **words) {
    cli_flag flags[MAX_FORM_FLAGS];
    int n_flags = 0;
    for (int c = 0; c < CLI_COMMAND_COUNT && n_flags + CLI_MAX_FLAGS <= MAX_FORM_FLAGS; c++) {
        if (cli_command_is_form_of((cli_command)c, command)) {
            n_flags += cli_flags_of_form(command, (cli_command)c, flags + n_flags);
        }
    }
    typed t = {0, words[n - 1], words[n - 1]};
    const bool is_split = n >= 3 && strcmp(words[n - 2], "=") == 0; // bash makes three words of --flag=value
    const bool is_at_equals = n >= 2 && strcmp(words[n - 1], "=") == 0;
    const char *before = words[n - (is_split ? 3 : 2)];
    const char *equals = is_at_equals || t.value[0] != '-' ? NULL : strchr(t.value, '=');
    t.value += is_at_equals;
    const char *word = equals != NULL ? t.value : before;
    const cli_flag *flag = word[0] == '-' ? cli_flag_named(flags, n_flags, word) : NULL;
    if (flag != NULL && flag->type != CLI_SWITCH) {
        t.n_before = equals != NULL ? (int)(equals + 1 - t.value) : 0;
        t.value = equals != NULL ? equals + 1 : t.value;
        complete_value(command, flag, t);
    } else if (t.value[0] == '-' || cli_commands[command].operands == NULL) {
        puts("words");
        for (int i = 0; i < n_flags; i++) {
            char help[CLI_HELP_SIZE];
            flag_text(&flags[i], help);
            offer(&t, SM_TEXT_IN(CLI_ARGUMENT_SIZE, "--%s", flags[i].name), help);
        }
    } else {
        puts("files");
    }
}

void cli_complete(int n, char **words) {
    const typed t = {0, "", n > 0 ? words[n - 1] : ""};
    if (n > 1 && words[0][0] != '-') {
        const cli_command command = cli_command_find(words[0]);
        if (command != CLI_COMMAND_COUNT) {
            complete_command(command, n, words);
        }
        return;
    }
    puts("words");
    if (n <= 1 || strcmp(words[0], "--manual") == 0) {
        for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
            if (!cli_command_is_form((cli_command)i)) {
                offer(&t, cli_commands[i].name, cli_commands[i].purpose);
            }
        }
    }
    if (n > 1 && strcmp(words[0], "--completion") == 0) {
        offer(&t, "bash", "");
        offer(&t, "zsh", "");
        offer(&t, "fish", "");
    }
#define X(name, argument, help) n <= 1 ? offer(&t, name, help) : (void)0;
    CLI_FRONT_LIST(X)
#undef X
}

// The program's first line is what stands there: words, a list, files or folders; others: a candidate, a tab, its meaning.
static const char bash[] =
    "# bash completion of stepmark; `stepmark --completion bash` printed it\n"
    "_stepmark() {\n"
    "  local cur=${COMP_WORDS[COMP_CWORD]} lines\n"
    "  mapfile -t lines < <(stepmark --complete \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
    "  lines=(\"${lines[@]%%$'\\t'*}\")\n"
    "  [[ $cur == = ]] && cur=\n"
    "  case ${lines[0]} in\n"
    "    files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") ;;\n"
    "    folders) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- \"$cur\") ;;\n"
    "    list) compopt -o nospace 2>/dev/null; COMPREPLY=(\"${lines[@]:1}\") ;;\n"
    "    *) COMPREPLY=(\"${lines[@]:1}\") ;;\n"
    "  esac\n"
    "}\n"
    "complete -F _stepmark stepmark\n";

static const char zsh[] =
    "#compdef stepmark\n"
    "# `stepmark --completion zsh` printed it\n"
    "_stepmark() {\n"
    "  local -a lines=(\"${(@f)$(stepmark --complete \"${(@Q)words[2,CURRENT]}\" 2>/dev/null)}\")\n"
    "  local kind=$lines[1]\n"
    "  shift lines\n"
    "  local -a shown=(\"${(@)lines/$'\\t'/  }\") suffix=()\n"
    "  [[ $kind == list ]] && suffix=(-S '')\n"
    "  case $kind in\n"
    "    files) _files ;;\n"
    "    folders) _files -/ ;;\n"
    "    *) compadd -l -d shown \"${(@)suffix}\" -- \"${(@)lines%%$'\\t'*}\" ;;\n"
    "  esac\n"
    "}\n"
    "# Read by hand or found in $fpath.\n"
    "if [[ $funcstack[1] == _stepmark ]]; then _stepmark \"$@\"; else compdef _stepmark stepmark; fi\n";

static const char fish[] = "# fish completion of stepmark; `stepmark --completion fish` printed it\n"
                           "function __stepmark_complete\n"
                           "  set -l before (commandline -opc)\n"
                           "  set -e before[1]\n"
                           "  set -l lines (stepmark --complete $before (commandline -ct) 2>/dev/null)\n"
                           "  switch \"$lines[1]\"\n"
                           "    case files; __fish_complete_path (commandline -ct)\n"
                           "    case folders; __fish_complete_directories (commandline -ct) ''\n"
                           "    case '*'; set -e lines[1]; printf '%s\\n' $lines\n"
                           "  end\n"
                           "end\n"
                           "complete -c stepmark -f -a '(__stepmark_complete)'\n";

sm_status cli_completion_print(FILE *stream, const char *shell) {
    const char *const texts[][2] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (shell != NULL && strcmp(shell, texts[i][0]) == 0) {
            fputs(texts[i][1], stream);
            return SM_OK;
        }
    }
    return sm_fail(SM_ERR_USAGE, "--completion: give a shell: bash, zsh or fish");
}
