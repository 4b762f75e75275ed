// The tables of subcommands and of flags: what a row lacks, by the row's name. Every example is a command line.
#include "tests/support/test.h"
#include "cli/flags/flag.h"

static bool is_empty(const char *text) { return text == NULL || text[0] == '\0'; }

TEST(subcommands_are_complete) {
    assert_non_null(cli_commands[0].heading);
    for (int i = 0; i < CLI_COMMAND_COUNT; i++) {
        const cli_subcommand *c = &cli_commands[i];
        const bool is_form = cli_command_is_form((cli_command)i);
        const char *lacks = is_empty(c->purpose)                                    ? "a purpose"
                            : c->run == NULL                                        ? "a function"
                            : c->table != &cli_no_table && is_empty(c->table->name) ? "a name of its table"
                            : is_form && is_empty(c->with)                          ? "what chooses it"
                            : !is_form && is_empty(c->examples[0])                  ? "an example"
                            : !is_form && strstr(c->examples[0], textf("stepmark %s", c->name)) == NULL
                                ? "itself in its first example"
                                : NULL;
        FAIL_IF(lacks != NULL, "commands.h: %s lacks %s", c->name, lacks);
    }
}

TEST(flags_are_complete) {
    for (int i = 0; i < cli_flag_count(); i++) {
        const cli_flag *flag = cli_flag_at(i);
        const bool is_choice = flag->type == CLI_CHOICE || flag->type == CLI_CHOICES;
        const bool is_number =
            flag->type == CLI_INT || flag->type == CLI_INTS || flag->type == CLI_COUNT || flag->type == CLI_REAL;
        const char *lacks = is_empty(flag->group)                                                ? "a group"
                            : is_empty(flag->help)                                               ? "a help text"
                            : flag->commands == 0                                                ? "a subcommand"
                            : flag->target == 0                                                  ? "a target"
                            : is_number && flag->max <= flag->min                                ? "a range"
                            : is_choice && flag->choices == NULL                                 ? "its words"
                            : !is_choice && flag->type != CLI_SWITCH && is_empty(flag->argument) ? "an argument"
                                                                                                 : NULL;
        FAIL_IF(lacks != NULL, "flags.c: --%s lacks %s", flag->name, lacks);
        for (const cli_flag_variant *v = flag->unlike; v != NULL && v->commands != 0; v++) {
            FAIL_IF((v->commands & ~flag->commands) != 0,
                    "flags.c: --%s differs for a subcommand that does not have it", flag->name);
        }
    }
}

// A name and a letter mean one flag, and it has room for all.
TEST(flags_of_a_subcommand_differ) {
    for (int c = 0; c < CLI_COMMAND_COUNT; c++) {
        cli_flag flags[CLI_MAX_FLAGS];
        const int n = cli_flags_of((cli_command)c, flags);
        assert_true(n > 0 && n < CLI_MAX_FLAGS);
        for (int i = 0; i < n; i++) {
            for (int k = 0; k < i; k++) {
                FAIL_IF(strcmp(flags[i].name, flags[k].name) == 0, "flags.c: --%s is there twice for %s", flags[i].name,
                        cli_commands[c].name);
                FAIL_IF(flags[i].letter != 0 && flags[i].letter == flags[k].letter,
                        "flags.c: -%c is --%s and --%s of %s", flags[i].letter, flags[k].name, flags[i].name,
                        cli_commands[c].name);
            }
        }
    }
}

// The words of an example after "stepmark NAME", as a shell parts them: blanks, and quotes around some.
static int split(char *text, char *words[32]) {
    int n = 0;
    while (*text != '\0' && n < 32) {
        const char end = *text == '"' || *text == '\'' ? *text++ : ' ';
        words[n++] = text;
        text += strcspn(text, end == ' ' ? " " : end == '"' ? "\"" : "'");
        if (*text != '\0') {
            *text++ = '\0';
        }
        text += strspn(text, " ");
    }
    return n;
}

TEST(examples_are_command_lines) {
    static cli_options options; // large: lists
    for (int c = 0; c < CLI_COMMAND_COUNT; c++) {
        for (int i = 0; cli_commands[c].examples[i] != NULL; i++) {
            const char *example = cli_commands[c].examples[i];
            const char *begin = strstr(example, "stepmark "); // what feeds it may come first
            assert_non_null(begin);
            SM_FREED char *text = strdup(begin + strlen("stepmark "));
            char *words[32];
            const int n = split(text, words);
            FAIL_IF(strcmp(words[0], cli_commands[c].name) != 0, "commands.h: an example of %s: %s",
                    cli_commands[c].name, example);
            FAIL_IF(cli_options_parse(cli_command_form((cli_command)c, n, words), false, n, words, &options) != SM_OK,
                    "commands.h: %s: %s", example, sm_error_message());
        }
    }
}
