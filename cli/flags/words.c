// words.c: the possible words of a flag's argument.
#include <string.h>

#include "bench/tables/show.h"
#include "cli/flags/flag.h"
#include "src/rewrites/rewrite.h"

// --- what a misspelt name probably meant ---------------------------------------------------------

static int min_int(int a, int b) { return a < b ? a : b; }

// Number of typing errors (a letter too many, missing, wrong, or two swapped) between two texts of less than
// CLI_TEXT_SIZE characters: distance[i][j] is that of the first i and the first j letters.
static int edit_distance(const char *a, const char *b) {
    int distance[CLI_TEXT_SIZE][CLI_TEXT_SIZE];
    int n_a = (int)strlen(a);
    int n_b = (int)strlen(b);
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
