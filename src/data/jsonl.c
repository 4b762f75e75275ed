// jsonl.c: the index has a mark at the first line after every MARK_BYTES of text, and a read decodes to the next.
#include "src/data/data_files.h"

#include <errno.h>

#include "src/io/input_file.h"
#include "src/io/json_text.h"

enum { MARK_BYTES = 8192 };

typedef struct {
    int64_t text_at, file_at;
} mark;

struct sm_jsonl {
    mark *marks; // the last one is the end
    size_t n;
};

// The document of a line; *line NULL: the line is blank.
static sm_status parse_line(const char *text, size_t n, json_t **line, const char **document, size_t *n_bytes) {
    json_error_t error = {.line = 0};
    *line = NULL;
    if (strspn(text, " \t\r\n") >= n) {
        return SM_OK;
    }
    *line = sm_json_line(text, n, &error);
    const json_t *value = json_object_get(*line, "text");
    SM_FAIL_IF(!json_is_string(value), SM_ERR_INVALID, "no object {\"text\": ...}%s%s",
               error.text[0] != '\0' ? ": " : "", sm_is_printable(error.text) ? error.text : "malformed");
    *document = json_string_value(value);
    *n_bytes = json_string_length(value);
    return SM_OK;
}

// ---- the index ------------------------------------------------------------------------------

static sm_status add_line(sm_jsonl *j, const char *text, size_t n, mark *at) {
    json_auto_t *line = NULL;
    const char *document;
    size_t n_bytes;
    if (j->n == 0 || at->text_at - j->marks[j->n - 1].text_at >= MARK_BYTES) {
        SM_PUSH(j->marks, j->n, *at);
    }
    SM_TRY(parse_line(text, n, &line, &document, &n_bytes));
    at->file_at += (int64_t)n;
    at->text_at += line != NULL ? (int64_t)(n_bytes + strlen(SM_END_OF_TEXT)) : 0;
    return SM_OK;
}

static sm_status make_index(sm_jsonl *j, const char *path, FILE *file) {
    SM_FREED char *text = NULL;
    size_t capacity = 0;
    long long number = 0;
    mark at = {0};
    errno = 0;
    for (ssize_t n; (n = getline(&text, &capacity, file)) >= 0;) {
        const size_t skipped = number++ == 0 ? sm_mark_bytes(text, (size_t)n) : 0;
        at.file_at += (int64_t)skipped;
        const sm_status status = add_line(j, text + skipped, (size_t)n - skipped, &at);
        SM_FAIL_IF(status != SM_OK, status, "%s: line %lld: %s", path, number, sm_error_message());
    }
    SM_FAIL_IF(!feof(file), SM_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    SM_PUSH(j->marks, j->n, at);
    return SM_OK;
}

sm_status sm_jsonl_open(const char *path, sm_jsonl **jsonl) {
    SM_OWN(FILE) *file = NULL;
    SM_OWN(sm_jsonl) *j = sm_calloc(1, sizeof *j);
    *jsonl = NULL;
    SM_TRY(sm_input_file(path, &file));
    SM_TRY(make_index(j, path, file));
    *jsonl = sm_give(&j);
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
        json_auto_t *line = NULL;
        const char *document;
        size_t n_bytes;
        status = parse_line(lines, n, &line, &document, &n_bytes);
        if (status == SM_OK && line != NULL) {
            copy(w, text_at, document, n_bytes);
            copy(w, text_at + (int64_t)n_bytes, SM_END_OF_TEXT, strlen(SM_END_OF_TEXT));
            text_at += (int64_t)(n_bytes + strlen(SM_END_OF_TEXT));
        }
        lines += n;
    }
    SM_FAIL_IF(status != SM_OK || text_at != m[1].text_at, SM_ERR_INVALID,
               "%s: has changed since it was opened; do not change files during training", path);
    return SM_OK;
}

sm_status sm_jsonl_read(const sm_jsonl *j, int fd, const char *path, int64_t at, void *data, size_t n) {
    const wanted w = {.at = at, .end = at + (int64_t)n, .data = data};
    for (size_t i = (size_t)sm_find_last(j->marks, sizeof *j->marks, (int64_t)j->n - 1, at);
         i + 1 < j->n && j->marks[i].text_at < w.end; i++) {
        const mark *m = &j->marks[i];
        const size_t n_lines = (size_t)(m[1].file_at - m->file_at);
        SM_FREED char *lines = malloc(n_lines + 1);
        SM_FAIL_IF(lines == NULL, SM_ERR_OOM, "%s: no memory for %zu bytes", path, n_lines);
        SM_TRY(sm_input_read(fd, path, m->file_at, lines, n_lines));
        lines[n_lines] = '\0';
        SM_TRY(decode(m, lines, path, &w));
    }
    return SM_OK;
}
