// shell_word.c: quotes words for a shell.
#include "src/io/shell_word.h"

#include <jansson.h>

#include "src/io/input_file.h"

// A quote ends the quotes, stands there by itself, and begins them again.
void sm_put_shell_word(FILE *out, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=.,:/+@%";
    if (word[0] != '\0' && word[0] != '=' && word[strspn(word, plain)] == '\0') {
        fputs(word, out);
        return;
    }
    json_auto_t *text = json_string(word); // NULL: not UTF-8
    const bool by_number = text == NULL || !sm_is_printable(word);
    fputs(by_number ? "$'" : "'", out);
    for (; *word != '\0'; word++) {
        const unsigned char byte = (unsigned char)*word;
        if (by_number && (byte < ' ' || byte > '~' || byte == '\'' || byte == '\\')) {
            fprintf(out, "\\%03o", byte);
        } else {
            fprintf(out, byte == '\'' ? "'\\''" : "%c", byte);
        }
    }
    fputc('\'', out);
}

char *sm_shell_line(char *const *words, int n) {
    char *line = NULL;
    size_t size_bytes;
    FILE *out = sm_memstream(&line, &size_bytes);
    for (int i = 0; i < n; i++) {
        fputs(i > 0 ? " " : "", out);
        sm_put_shell_word(out, words[i]);
    }
    sm_memstream_close(out);
    return line;
}

const char *sm_shell_path(const char *path, char text[SM_SHELL_PATH_SIZE]) {
    SM_FREED char *named = sm_text_of("%s%s", path[0] == '-' ? "./" : "", path);
    SM_FREED char *quoted = sm_shell_line(&named, 1);
    snprintf(text, SM_SHELL_PATH_SIZE, "%s", quoted);
    return text;
}

// The word at *line, without its quotes, to `word`; false: it is not plain.
static bool take_word(const char **line, char *word) {
    char quote = '\0';
    const char *c = *line;
    for (; *c != '\0' && (quote != '\0' || strchr(" \t", *c) == NULL); c++) {
        if (quote != '\0' ? *c == quote : *c == '"' || *c == '\'') {
            quote = quote != '\0' ? '\0' : *c;
        } else if (quote == '\0' && strchr("|&;<>(){}\n", *c) != NULL) {
            return false;
        } else {
            const bool is_escaped = *c == '\\' && quote != '\'' && strchr("\\\"' ", c[1]) != NULL && c[1] != '\0';
            c += is_escaped;
            *word++ = *c;
        }
    }
    *word = '\0';
    *line = c;
    return quote == '\0';
}

char **sm_shell_words(const char *line, int *n) {
    char **words = sm_calloc(strlen(line) / 2 + 2, sizeof *words);
    for (*n = 0; *(line += strspn(line, " \t")) != '\0'; ++*n) {
        words[*n] = sm_malloc(strlen(line) + 1);
        if (!take_word(&line, words[*n])) {
            sm_shell_words_free(words);
            return NULL;
        }
    }
    return words;
}

void sm_shell_words_free(char **words) {
    for (int i = 0; words != NULL && words[i] != NULL; i++) {
        free(words[i]);
    }
    free(words);
}
