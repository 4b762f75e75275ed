// complete.c: completes a command line that is being typed, from the tables of --help; and the functions with which
// bash, zsh and fish ask for it.
#include "cli/front/front.h"

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
// Of a list the last entry is typed.
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
            char name[CLI_ARGUMENT_SIZE], help[CLI_HELP_SIZE];
            snprintf(name, sizeof(name), "--%s", flags[i].name);
            cli_flag_text(&flags[i], help);
            offer(&t, name, help);
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

// --- shells --------------------------------------------------------------------------------------

// The first line that the program prints is what stands there: words, a list of words, files or folders; each other
// line is a candidate, a tab and its meaning.
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
