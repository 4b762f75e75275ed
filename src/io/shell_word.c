// shell_word.c: quotes words for a shell.
#include "src/io/shell_word.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "src/io/input_file.h"

static bool is_shown(const char *word) {
    json_t *text = json_string(word); // NULL: not UTF-8
    json_decref(text);
    return text != NULL && sm_is_printable(word);
}

// A quote ends the quotes, stands there by itself, and begins them again.
void sm_put_shell_word(FILE *out, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=.,:/+@%";
    if (word[0] != '\0' && word[0] != '=' && word[strspn(word, plain)] == '\0') {
        fputs(word, out);
        return;
    }
    const bool by_number = !is_shown(word);
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

const char *sm_shell_path(const char *path, char text[SM_SHELL_PATH_SIZE]) {
    char *named = sm_text_of("%s%s", path[0] == '-' ? "./" : "", path);
    FILE *out = fmemopen(text, SM_SHELL_PATH_SIZE, "w");
    text[0] = '\0';
    if (out != NULL) {
        sm_put_shell_word(out, named);
        fclose(out);
    }
    free(named);
    return text;
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
