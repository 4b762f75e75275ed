// commands.c: the table of subcommands, and their forms; the possible words of a flag, and what a wrong one meant.
#include "bench/tables/show.h"
#include "cli/flags/flag.h"
#include "src/rewrites/rewrite.h"

const sm_table cli_no_table = {"", NULL, 0};

const cli_subcommand cli_commands[CLI_COMMAND_COUNT] = {
#define X(code, name, function, table, ...) {name, function, &table, __VA_ARGS__},
    CLI_COMMAND_LIST(X)
#undef X
};

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
    const char *nearest = cli_nearest(name, names, CLI_COMMAND_COUNT);
#define X(flag, argument, help) nearest = strcmp(name, &(flag)[2]) == 0 ? flag : nearest; // "--help" for "help"
    CLI_FRONT_LIST(X)
#undef X
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

// --- what a misspelt name probably meant ---------------------------------------------------------

static int min_int(int a, int b) { return a < b ? a : b; }

// Number of typing errors (a letter too many, missing, wrong, or two swapped) between two texts of less than
// CLI_TEXT_SIZE characters: distance[i][j] is that of the first i and the first j letters.
static int edit_distance(const char *a, const char *b) {
    int distance[CLI_TEXT_SIZE][CLI_TEXT_SIZE];
    int n_a = (int)strlen(a), n_b = (int)strlen(b);
    for (int i = 0; i <= n_a; i++) {
        for (int j = 0; j <= n_b; j++) {
            if (i == 0 || j == 0) {
                distance[i][j] = i + j;
                continue;
            }
            int best = distance[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            best = min_int(best, min_int(distance[i - 1][j], distance[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                best = min_int(best, distance[i - 2][j - 2] + 1);
            }
            distance[i][j] = best;
        }
    }
    return distance[n_a][n_b];
}

const char *cli_nearest(const char *text, const char *const *names, int n) {
    size_t length = strlen(text);
    if (length >= CLI_TEXT_SIZE) {
        return NULL;
    }
    int best_distance = 2 + (int)length / 4; // more errors make another word
    const char *best = NULL;
    for (int i = 0; i < n; i++) {
        int distance = strlen(names[i]) < CLI_TEXT_SIZE ? edit_distance(text, names[i]) : CLI_TEXT_SIZE;
        // Errors seldom hit the first letter, and short words that differ in it are often different words: gpu, cpu.
        const bool begins_alike =
            text[0] == names[i][0] || (text[0] != '\0' && text[0] == names[i][1] && text[1] == names[i][0]);
        if (begins_alike && distance < best_distance && distance < (int)length) {
            best_distance = distance;
            best = names[i];
        }
    }
    return best;
}

void cli_append_word(char *text, size_t size_bytes, const char *between, const char *word) {
    sm_append(text, size_bytes, "%s%s", text[0] != '\0' ? between : "", word);
}

sm_status cli_no_such_name(const char *flag, const char *noun, const char *text, const char *const *names, int n) {
    char list[512] = "";
    const char *nearest = cli_nearest(text, names, n);
    SM_FAIL_IF(nearest != NULL, SM_ERR_USAGE, "%s: no %s '%s'; did you mean %s?", flag, noun, text, nearest);
    for (int i = 0; i < n; i++) {
        cli_append_word(list, sizeof(list), ", ", names[i]);
    }
    return sm_fail(SM_ERR_USAGE, "%s: no %s '%s'; there are %s", flag, noun, text, list);
}

// Adds a word unless it is there; returns the number of words.
static int add(const char *words[CLI_MAX_WORDS], int n, const char *word) {
    for (int i = 0; i < n; i++) {
        if (strcmp(words[i], word) == 0) {
            return n;
        }
    }
    words[n] = word;
    return n + (n < CLI_MAX_WORDS - 1);
}

int cli_flag_words(const cli_flag *flag, const char *words[CLI_MAX_WORDS]) {
    int n = 0;
    const bool is_sizes = strcmp(flag->name, "model-size") == 0;
    for (const cli_choice *c = flag->choices; c != NULL && c->word != NULL; c++) {
        n = add(words, n, c->word);
    }
    for (int i = 0; i < SM_FORMAT_COUNT && flag->type == CLI_FORMAT; i++) {
        n = add(words, n, sm_format_name((sm_format)i));
    }
    for (int m = 0; m < sm_model_count() && is_sizes; m++) {
        for (int i = 0; i < sm_model_at(m)->n_sizes; i++) {
            n = add(words, n, sm_model_at(m)->sizes[i].name);
        }
    }
    for (int i = 0; i < sm_backend_count() && strcmp(flag->name, "backend") == 0; i++) {
        n = add(words, n, sm_backend_at(i)->name);
    }
    for (int i = 0; i < sm_rewrite_count() && strcmp(flag->name, "without") == 0; i++) {
        n = add(words, n, sm_rewrite_at(i)->name);
    }
    for (int i = 0; cli_preset_at(i) != NULL && strcmp(flag->name, "preset") == 0; i++) {
        n = add(words, n, cli_preset_at(i));
    }
    return n;
}
