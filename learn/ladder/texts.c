// texts.c: finds a source by its name, and expands its includes.
#include "learn/ladder/texts.h"

#include <stdbool.h>
#include <string.h>

#include "embedded.h"

// Searches the ladder's two folders; NULL: none.
static const sm_embedded *find(const char *name, size_t length) {
    char file_name[64];
    snprintf(file_name, sizeof file_name, "%.*s", (int)length, name);
    const sm_embedded *file = sm_embedded_find_below("learn/ladder/", file_name);
    return file != NULL ? file : sm_embedded_find_below("cl/ladder/", file_name);
}

const char *sm_ladder_text(const char *name) {
    const sm_embedded *file = find(name, strlen(name));
    return file == NULL ? NULL : file->text;
}

// The file in `#include "NAME"`; NULL: no such line, or NAME is not a file of the ladder.
static const sm_embedded *included(const char *line) {
    static const char include[] = "#include \"";
    const size_t length = strlen(include);
    return strncmp(line, include, length) != 0 ? NULL : find(line + length, strcspn(line + length, "\""));
}

typedef struct {
    const sm_embedded *files[8];
    int n;
} seen_files;

static bool is_new(seen_files *seen, const sm_embedded *file) {
    for (int i = 0; i < seen->n; i++) {
        if (seen->files[i] == file) {
            return false;
        }
    }
    seen->files[seen->n++] = file;
    return true;
}

// Prints each file once, as include guards do.
static sm_status print(const sm_embedded *file, seen_files *seen, FILE *out) {
    for (const char *line = file->text; line < file->text + file->size_bytes;) {
        const size_t length = strcspn(line, "\n") + 1;
        const sm_embedded *other = included(line);
        if (other == NULL) {
            fwrite(line, 1, length, out);
        } else if (seen->n == sizeof seen->files / sizeof seen->files[0]) {
            return sm_fail(SM_ERR_INTERNAL, "ladder: %s includes too many files", file->path);
        } else if (is_new(seen, other)) {
            SM_TRY(print(other, seen, out));
        }
        line += length;
    }
    return SM_OK;
}

sm_status sm_ladder_print_text(const char *name, FILE *out) {
    const sm_embedded *file = find(name, strlen(name));
    seen_files seen = {.files = {file}, .n = 1};
    return file == NULL ? sm_fail(SM_ERR_INTERNAL, "ladder: there is no source %s", name) : print(file, &seen, out);
}
