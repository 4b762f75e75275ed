// completion.c: completions for bash, zsh and fish, from the tables of --help.
#include <string.h>

#include "cli/front/front.h"

#define SHELLS_TEXT "bash zsh fish"

// --- what an argument is -------------------------------------------------------------------------

typedef enum {
    ARGUMENT_NONE,
    ARGUMENT_FILE,
    ARGUMENT_FOLDER,
    ARGUMENT_WORD,
    ARGUMENT_WORDS,
    ARGUMENT_OTHER
} argument_kind;

static bool mentions(const char *text, const char *word) { return text != NULL && strstr(text, word) != NULL; }

static argument_kind kind_of(const cli_flag *flag, cli_command command) {
    const char *words[CLI_MAX_WORDS];
    switch (flag->type) {
    case CLI_SWITCH: return ARGUMENT_NONE;
    case CLI_NEW_FILE:
    case CLI_LOG_FILE: return ARGUMENT_FILE;
    case CLI_NEW_FOLDER: return ARGUMENT_FOLDER;
    default: break;
    }
    if (cli_flag_words(flag, words) > 0) {
        return cli_takes_list(flag, command) ? ARGUMENT_WORDS : ARGUMENT_WORD;
    }
    return mentions(flag->argument, "FILE")  ? ARGUMENT_FILE
           : mentions(flag->argument, "DIR") ? ARGUMENT_FOLDER
                                             : ARGUMENT_OTHER;
}

static void put_words(FILE *out, const cli_flag *flag) {
    const char *words[CLI_MAX_WORDS];
    const int n = cli_flag_words(flag, words);
    for (int i = 0; i < n; i++) {
        fprintf(out, "%s%s", i > 0 ? " " : "", words[i]);
    }
}

// Puts a text between a shell's single quotes; a quote inside ends them briefly. With `escaped`, these characters get a
// backslash.
static void put_quoted(FILE *out, const char *text, const char *escaped) {
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", out);
            continue;
        }
        if (strchr(escaped, *text) != NULL) {
            fputc('\\', out);
        }
        fputc(*text, out);
    }
}

static void put_commands(FILE *out) {
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        fprintf(out, "%s%s", i > 0 ? " " : "", cli_commands[i].name);
    }
}

// --- bash ----------------------------------------------------------------------------------------

static void bash_case(FILE *out, cli_command command, const cli_flag *flag) {
    static const char *const kinds[] = {"none", "file", "folder", "word", "words", "other"};
    const argument_kind kind = kind_of(flag, command);
    if (kind == ARGUMENT_NONE) {
        return;
    }
    fprintf(out, "    '%s --%s'", cli_commands[command].name, flag->name);
    if (flag->letter != 0) {
        fprintf(out, "|'%s -%c'", cli_commands[command].name, flag->letter);
    }
    fprintf(out, ") kind=%s words='", kinds[kind]);
    put_words(out, flag);
    fputs("' ;;\n", out);
}

static void bash_flags(FILE *out) {
    cli_flag flags[CLI_MAX_FLAGS];
    for (int c = 0; c < CLI_COMMAND_COUNT; c++) {
        const int n = cli_flags_of((cli_command)c, flags);
        fprintf(out, "    %s) words='", cli_commands[c].name);
        for (int i = 0; i < n; i++) {
            fprintf(out, "%s--%s", i > 0 ? " " : "", flags[i].name);
        }
        fprintf(out, "' operands=%s ;;\n", cli_commands[c].operands != NULL ? "yes" : "no");
    }
}

static void bash_arguments(FILE *out) {
    cli_flag flags[CLI_MAX_FLAGS];
    for (int c = 0; c < CLI_COMMAND_COUNT; c++) {
        const int n = cli_flags_of((cli_command)c, flags);
        for (int i = 0; i < n; i++) {
            bash_case(out, (cli_command)c, &flags[i]);
        }
    }
}

static void print_bash(FILE *out) {
    fputs("# bash completion of stepmark; `stepmark --completion bash` printed it\n"
          "_stepmark_front() {\n  words='",
          out);
    put_commands(out);
#define X(name, argument, help) fputs(" " name, out);
    CLI_FRONT_LIST(X)
#undef X
    fputs("'\n}\n\n# Of a flag's argument: kind, words.\n_stepmark_argument() {\n  kind=none words=\n  case $1 in\n"
          "    '--completion --completion') kind=word words='" SHELLS_TEXT
          "' ;;\n    '--manual --manual') kind=word words='",
          out);
    put_commands(out);
    fputs("' ;;\n", out);
    bash_arguments(out);
    fputs("  esac\n}\n\n# Of a subcommand: words (its flags), operands.\n_stepmark_flags() {\n  words= operands=no\n"
          "  case $1 in\n",
          out);
    bash_flags(out);
    fputs("  esac\n}\n\n"
          "_stepmark() {\n"
          "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} kind words operands before=\n"
          "  COMPREPLY=()\n"
          "  if [[ $cur == = ]]; then # --flag=, which bash takes apart\n"
          "    cur=\n"
          "  elif [[ $prev == = ]]; then\n"
          "    prev=${COMP_WORDS[COMP_CWORD-2]}\n"
          "  fi\n"
          "  if (( COMP_CWORD == 1 )); then\n"
          "    _stepmark_front\n"
          "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
          "    return\n"
          "  fi\n"
          "  _stepmark_argument \"${COMP_WORDS[1]} $prev\"\n"
          "  case $kind in\n"
          "    none)\n"
          "      _stepmark_flags \"${COMP_WORDS[1]}\"\n"
          "      if [[ $cur == -* || $operands == no ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
          "      else\n"
          "        compopt -o filenames 2>/dev/null\n"
          "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
          "      fi ;;\n"
          "    word) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
          "    words) # the last of a list\n"
          "      [[ $cur == *,* ]] && before=${cur%,*},\n"
          "      COMPREPLY=($(compgen -P \"$before\" -W \"$words\" -- \"${cur##*,}\"))\n"
          "      compopt -o nospace 2>/dev/null ;;\n"
          "    file) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n"
          "    folder) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- \"$cur\")) ;;\n"
          "  esac\n"
          "}\n"
          "complete -F _stepmark stepmark\n",
          out);
}

// --- zsh -----------------------------------------------------------------------------------------

static void zsh_argument(FILE *out, cli_command command, const cli_flag *flag) {
    char argument[CLI_ARGUMENT_SIZE];
    const argument_kind kind = kind_of(flag, command);
    if (kind == ARGUMENT_NONE) {
        return;
    }
    cli_flag_argument(flag, command, argument);
    fputc(':', out);
    put_quoted(out, kind == ARGUMENT_WORD || kind == ARGUMENT_WORDS ? flag->name : argument, ":\\");
    fputc(':', out);
    switch (kind) {
    case ARGUMENT_FILE: fputs("_files", out); break;
    case ARGUMENT_FOLDER: fputs("_files -/", out); break;
    case ARGUMENT_WORD: fputc('(', out); break;
    case ARGUMENT_WORDS: fputs("_sequence compadd - ", out); break;
    default: fputc(' ', out);
    }
    if (kind == ARGUMENT_WORD || kind == ARGUMENT_WORDS) {
        put_words(out, flag);
    }
    fputs(kind == ARGUMENT_WORD ? ")" : "", out);
}

static void zsh_flag(FILE *out, cli_command command, const cli_flag *flag, bool with_letter) {
    char help[CLI_HELP_SIZE];
    cli_flag_text(flag, help);
    fputs(" \\\n        '", out);
    if (flag->letter != 0) {
        fprintf(out, "(-%c --%s)", flag->letter, flag->name);
    }
    if (with_letter) {
        fprintf(out, "-%c", flag->letter);
    } else {
        fprintf(out, "--%s%s", flag->name, flag->type == CLI_SWITCH ? "" : "=");
    }
    fputc('[', out);
    put_quoted(out, help, "[]\\");
    fputc(']', out);
    zsh_argument(out, command, flag);
    fputc('\'', out);
}

static void zsh_command(FILE *out, cli_command command) {
    cli_flag flags[CLI_MAX_FLAGS];
    const int n = cli_flags_of(command, flags);
    fprintf(out, "    (%s)\n      _arguments -s", cli_commands[command].name);
    for (int i = 0; i < n; i++) {
        zsh_flag(out, command, &flags[i], false);
        if (flags[i].letter != 0) {
            zsh_flag(out, command, &flags[i], true);
        }
    }
    fprintf(out, "%s ;;\n", cli_commands[command].operands != NULL ? " \\\n        '*:file:_files'" : "");
}

static void zsh_front(FILE *out, const char *name, const char *help) {
    fprintf(out, "      '%s:", name);
    put_quoted(out, help, ":");
    fputs("'\n", out);
}

static void print_zsh(FILE *out) {
    fputs("#compdef stepmark\n# `stepmark --completion zsh` printed it\n\n_stepmark() {\n  local -a commands\n"
          "  if (( CURRENT == 2 )); then\n    commands=(\n",
          out);
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        zsh_front(out, cli_commands[i].name, cli_commands[i].purpose);
    }
#define X(name, argument, help) zsh_front(out, name, help);
    CLI_FRONT_LIST(X)
#undef X
    fputs("    )\n    _describe -t commands subcommand commands\n    return\n  fi\n"
          "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n"
          "    (--completion) compadd " SHELLS_TEXT " ;;\n    (--manual) compadd ",
          out);
    put_commands(out);
    fputs(" ;;\n", out);
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        zsh_command(out, (cli_command)i);
    }
    fputs("  esac\n}\n\n"
          "# Read by hand or found in $fpath.\n"
          "if [[ $funcstack[1] == _stepmark ]]; then\n  _stepmark \"$@\"\nelse\n  compdef _stepmark stepmark\nfi\n",
          out);
}

// --- fish ----------------------------------------------------------------------------------------

static void fish_argument(FILE *out, cli_command command, const cli_flag *flag) {
    switch (kind_of(flag, command)) {
    case ARGUMENT_NONE: return;
    case ARGUMENT_FILE: fputs(" -r -F", out); return;
    case ARGUMENT_FOLDER: fputs(" -x -a '(__fish_complete_directories)'", out); return;
    case ARGUMENT_WORD:
        fputs(" -x -a '", out);
        put_words(out, flag);
        break;
    case ARGUMENT_WORDS:
        fputs(" -x -a '(__fish_complete_list , \"string split \\\\x20 -- \\\\\"", out);
        put_words(out, flag);
        fputs("\\\\\"\")", out);
        break;
    case ARGUMENT_OTHER: fputs(" -x", out); return;
    }
    fputc('\'', out);
}

static void fish_command(FILE *out, cli_command command) {
    cli_flag flags[CLI_MAX_FLAGS];
    const int n = cli_flags_of(command, flags);
    for (int i = 0; i < n; i++) {
        char help[CLI_HELP_SIZE];
        cli_flag_text(&flags[i], help);
        fprintf(out, "complete -c stepmark -n '__fish_seen_subcommand_from %s' -l %s", cli_commands[command].name,
                flags[i].name);
        if (flags[i].letter != 0) {
            fprintf(out, " -s %c", flags[i].letter);
        }
        fish_argument(out, command, &flags[i]);
        fputs(" -d '", out);
        put_quoted(out, help, "\\");
        fputs("'\n", out);
    }
    if (cli_commands[command].operands != NULL) {
        fprintf(out, "complete -c stepmark -n '__fish_seen_subcommand_from %s' -F\n", cli_commands[command].name);
    }
}

// A subcommand, or a flag in its place.
static void fish_front(FILE *out, const char *name, const char *argument, const char *help) {
    const bool is_flag = name[0] == '-';
    fprintf(out, "complete -c stepmark -n __fish_use_subcommand %s %s", is_flag ? "-l" : "-a",
            is_flag ? name + 2 : name);
    if (argument[0] == '[') {
        fputs(" -x -a '", out);
        put_commands(out);
        fputs("'", out);
    } else if (argument[0] != '\0') {
        fputs(" -x -a '" SHELLS_TEXT "'", out);
    }
    fputs(" -d '", out);
    put_quoted(out, help, "\\");
    fputs("'\n", out);
}

static void print_fish(FILE *out) {
    fputs("# fish completion of stepmark; `stepmark --completion fish` printed it\ncomplete -c stepmark -f\n", out);
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        fish_front(out, cli_commands[i].name, "", cli_commands[i].purpose);
    }
#define X(name, argument, help) fish_front(out, name, argument, help);
    CLI_FRONT_LIST(X)
#undef X
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        fish_command(out, (cli_command)i);
    }
}

static const struct {
    const char *shell;
    void (*print)(FILE *out);
} shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};

sm_status cli_completion_print(FILE *stream, const char *shell) {
    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
        if (shell != NULL && strcmp(shell, shells[i].shell) == 0) {
            shells[i].print(stream);
            return SM_OK;
        }
    }
    return sm_fail(SM_ERR_USAGE, "--completion: give a shell: bash, zsh or fish");
}
