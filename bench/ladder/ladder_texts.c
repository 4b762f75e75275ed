// ladder_texts.c: finds a source by its name, and puts in what it includes.
#include "ladder_texts.h"

#include <stdbool.h>
#include <string.h>

#define TEXT(name, path) extern const char ladder_text_##name[], ladder_text_end_##name[];
#include "ladder_texts.list"
#undef TEXT

typedef struct {
    const char *path;
    const char *text, *end;
} text_file;

static const text_file files[] = {
#define TEXT(name, path) {path, ladder_text_##name, ladder_text_end_##name},
#include "ladder_texts.list"
#undef TEXT
};
enum { N_FILES = sizeof files / sizeof files[0] };

// Its index; -1: none.
static int find(const char *name, size_t length) {
    for (int i = 0; i < N_FILES; i++) {
        const char *base = strrchr(files[i].path, '/') + 1;
        if (strlen(base) == length && strncmp(base, name, length) == 0) {
            return i;
        }
    }
    return -1;
}

const char *sm_ladder_text(const char *file) {
    const int i = find(file, strlen(file));
    return i < 0 ? NULL : files[i].text; // a zero byte is behind each
}

// The file that `#include "NAME"` names; -1: the line is none, or NAME is no file of the ladder.
static int included(const char *line) {
    static const char include[] = "#include \"";
    const size_t length = strlen(include);
    return strncmp(line, include, length) != 0 ? -1 : find(line + length, strcspn(line + length, "\""));
}

// Each file once, as their guards have it.
static void print(int index, bool seen[N_FILES], FILE *out) {
    seen[index] = true;
    for (const char *line = files[index].text; line < files[index].end;) {
        const size_t length = strcspn(line, "\n") + 1;
        const int other = included(line);
        if (other < 0) {
            fwrite(line, 1, length, out);
        } else if (!seen[other]) {
            print(other, seen, out);
        }
        line += length;
    }
}

sm_status sm_ladder_print_text(const char *file, FILE *out) {
    bool seen[N_FILES] = {false};
    const int index = find(file, strlen(file));
    if (index < 0) {
        return sm_fail(SM_ERR_INTERNAL, "ladder: there is no source %s", file);
    }
    print(index, seen, out);
    return SM_OK;
}
