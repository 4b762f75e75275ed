// jsonl.c: the index has a mark at the first line after every MARK_BYTES of text. A read decodes the lines from one mark
// to the next.
#include "src/data/data_files.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/data/data_format.h"
#include "src/io/input_file.h"

enum { MARK_BYTES = 8192, BOM_BYTES = 3 };

typedef struct {
    int64_t file_at, text_at;
} mark;

struct sm_jsonl {
    mark *marks; // the last one is the end
    size_t n, capacity;
};

// The document of a line; *line NULL: the line is blank. The caller frees *line.
static sm_status parse_line(const char *text, size_t n, json_t **line, const char **document, size_t *n_bytes) {
    json_error_t error = {.line = 0};
    *line = NULL;
    if (strspn(text, " \t\r\n") >= n) {
        return SM_OK;
    }
    *line = json_loadb(text, n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    const json_t *value = json_object_get(*line, "text");
    if (!json_is_string(value)) {
        json_decref(*line);
        return sm_fail(SM_ERR_INVALID, "no object {\"text\": ...}%s%s", error.text[0] != '\0' ? ": " : "",
                       sm_is_printable(error.text) ? error.text : "malformed");
    }
    *document = json_string_value(value);
    *n_bytes = json_string_length(value);
    return SM_OK;
}

// ---- the index ------------------------------------------------------------------------------

static sm_status add_mark(sm_jsonl *j, mark m) {
    if (j->n == j->capacity) {
        const size_t capacity = j->capacity > 0 ? 2 * j->capacity : 64;
        mark *grown = realloc(j->marks, capacity * sizeof *grown);
        SM_FAIL_IF(grown == NULL, SM_ERR_OOM, "no memory for an index of %zu places", capacity);
        j->marks = grown;
        j->capacity = capacity;
    }
    j->marks[j->n++] = m;
    return SM_OK;
}

static sm_status add_line(sm_jsonl *j, const char *text, size_t n, mark *at) {
    json_t *line;
    const char *document;
    size_t n_bytes;
    if (j->n == 0 || at->text_at - j->marks[j->n - 1].text_at >= MARK_BYTES) {
        SM_TRY(add_mark(j, *at));
    }
    SM_TRY(parse_line(text, n, &line, &document, &n_bytes));
    at->file_at += (int64_t)n;
    at->text_at += line != NULL ? (int64_t)(n_bytes + strlen(SM_END_OF_TEXT)) : 0;
    json_decref(line);
    return SM_OK;
}

static sm_status make_index(sm_jsonl *j, const char *path, FILE *file) {
    char *text = NULL;
    size_t capacity = 0;
    long long number = 0;
    mark at = {0};
    sm_status status = SM_OK;
    errno = 0;
    for (ssize_t n; status == SM_OK && (n = getline(&text, &capacity, file)) >= 0; number++) {
        const size_t skipped = number == 0 && n >= BOM_BYTES && memcmp(text, "\xef\xbb\xbf", BOM_BYTES) == 0 ? 3 : 0;
        at.file_at += (int64_t)skipped;
        status = add_line(j, text + skipped, (size_t)n - skipped, &at);
    }
    if (status == SM_OK && !feof(file)) {
        status = sm_fail(SM_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    } else if (status == SM_OK) {
        status = add_mark(j, at);
    } else {
        char reason[256];
        snprintf(reason, sizeof reason, "%s", sm_error_message());
        status = sm_fail(status, "%s: line %lld: %s", path, number, reason);
    }
    free(text);
    return status;
}

sm_status sm_jsonl_open(const char *path, sm_jsonl **jsonl) {
    int fd;
    int64_t size_bytes;
    *jsonl = NULL;
    SM_TRY(sm_input_open(path, &fd, &size_bytes));
    FILE *file = fdopen(fd, "r");
    sm_jsonl *j = sm_calloc(1, sizeof *j);
    sm_status status = file != NULL ? make_index(j, path, file) : sm_fail(SM_ERR_OOM, "%s: no memory to read it", path);
    if (file != NULL) {
        fclose(file);
    } else {
        close(fd);
    }
    if (status != SM_OK) {
        sm_jsonl_close(j);
        return status;
    }
    *jsonl = j;
    return SM_OK;
}

void sm_jsonl_close(sm_jsonl *j) {
    if (j != NULL) {
        free(j->marks);
        free(j);
    }
}

int64_t sm_jsonl_bytes(const sm_jsonl *j) { return j->marks[j->n - 1].text_at; }

// ---- reading --------------------------------------------------------------------------------

// A part of the text that is wanted.
typedef struct {
    int64_t at, end;
    char *data;
} wanted;

// Copies what is wanted of n bytes at text_at.
static void copy(const wanted *w, int64_t text_at, const char *bytes, size_t n) {
    const int64_t begin = w->at > text_at ? w->at : text_at;
    const int64_t end = w->end < text_at + (int64_t)n ? w->end : text_at + (int64_t)n;
    if (begin < end) {
        memcpy(w->data + (begin - w->at), bytes + (begin - text_at), (size_t)(end - begin));
    }
}

// Copies what is wanted of the lines from a mark to the next.
static sm_status decode(const mark *m, const char *lines, const char *path, const wanted *w) {
    const char *end = lines + (m[1].file_at - m->file_at);
    int64_t text_at = m->text_at;
    sm_status status = SM_OK;
    while (lines < end && status == SM_OK) {
        const char *newline = memchr(lines, '\n', (size_t)(end - lines));
        const size_t n = (size_t)((newline != NULL ? newline + 1 : end) - lines);
        json_t *line;
        const char *document;
        size_t n_bytes;
        status = parse_line(lines, n, &line, &document, &n_bytes);
        if (status == SM_OK && line != NULL) {
            copy(w, text_at, document, n_bytes);
            copy(w, text_at + (int64_t)n_bytes, SM_END_OF_TEXT, strlen(SM_END_OF_TEXT));
            text_at += (int64_t)(n_bytes + strlen(SM_END_OF_TEXT));
            json_decref(line);
        }
        lines += n;
    }
    return status == SM_OK && text_at == m[1].text_at
               ? SM_OK
               : sm_fail(SM_ERR_INVALID, "%s: has changed since it was opened; do not change files during training",
                         path);
}

// The last mark at or before a place in the text.
static size_t find_mark(const sm_jsonl *j, int64_t at) {
    size_t low = 0;
    size_t high = j->n - 1;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        *(j->marks[middle].text_at <= at ? &low : &high) = middle;
    }
    return low;
}

sm_status sm_jsonl_read(const sm_jsonl *j, int fd, const char *path, int64_t at, void *data, size_t n) {
    const wanted w = {.at = at, .end = at + (int64_t)n, .data = data};
    sm_status status = SM_OK;
    for (size_t i = find_mark(j, at); status == SM_OK && i + 1 < j->n && j->marks[i].text_at < w.end; i++) {
        const mark *m = &j->marks[i];
        const size_t n_lines = (size_t)(m[1].file_at - m->file_at);
        char *lines = malloc(n_lines + 1);
        status = lines != NULL ? sm_input_read(fd, path, m->file_at, lines, n_lines)
                               : sm_fail(SM_ERR_OOM, "%s: no memory for %zu bytes", path, n_lines);
        if (status == SM_OK) {
            lines[n_lines] = '\0';
            status = decode(m, lines, path, &w);
        }
        free(lines);
    }
    return status;
}
