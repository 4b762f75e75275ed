// json_text.c: measures the text, or the file, first, and then allocates one buffer.
#include "src/io/json_text.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/io/input_file.h"

json_t *sm_json_name(const char *name) {
    json_t *text = json_string(name);
    return text != NULL ? text : json_string("(not UTF-8)");
}

// The length of the number, or of Infinity or NaN, that begins at `text`; 0: none does. *is_kept: jansson reads it.
static size_t number_at(const char *text, bool *is_kept) {
    char *end = NULL;
    const char *digits = text + (*text == '-');
    *is_kept = false;
    if (strncmp(digits, "Infinity", 8) == 0 || strncmp(digits, "NaN", 3) == 0) {
        return (size_t)(digits - text) + (*digits == 'I' ? 8 : 3);
    }
    const size_t length = strspn(text, "+-.0123456789Ee");
    if (*digits < '0' || *digits > '9') {
        return 0;
    }
    errno = 0;
    (void)strtoll(text, &end, 10);
    const bool is_whole = (size_t)(end - text) == length;
    *is_kept = is_whole ? errno == 0 : isfinite(strtod(text, NULL));
    return length;
}

// Python's json writes Infinity, -Infinity, NaN, and whole numbers of any size, for which JSON or jansson have no
// place. They become texts of the same length: a reader that wants a number refuses them, all others ignore them.
static void keep_odd_numbers(char *text, size_t size_bytes) {
    bool in_string = false;
    bool is_kept;
    for (size_t i = 0, n; i < size_bytes; i += n) {
        n = in_string ? 0 : number_at(text + i, &is_kept);
        if (n > 2 && !is_kept) {
            memset(text + i, '0', n);
            text[i] = '"';
            text[i + n - 1] = '"';
        } else if (n == 0) {
            in_string ^= text[i] == '"';
            n = in_string && text[i] == '\\' && i + 1 < size_bytes ? 2 : 1;
        }
    }
}

sm_status sm_json_read(const char *path, int64_t max_bytes, json_t **root) {
    *root = NULL;
    int fd;
    int64_t size_bytes;
    SM_TRY(sm_input_open(path, &fd, &size_bytes));
    sm_status status = SM_OK;
    char *text = NULL;
    json_error_t error;
    if (size_bytes > max_bytes) {
        status = sm_fail(SM_ERR_FORMAT, "%s: %lld bytes are too long; such a file has at most %lld", path,
                         (long long)size_bytes, (long long)max_bytes);
        goto cleanup;
    }
    text = malloc((size_t)size_bytes + 1);
    if (text == NULL) {
        status = sm_fail(SM_ERR_OOM, "%s: no memory for its %lld bytes", path, (long long)size_bytes);
        goto cleanup;
    }
    SM_TRY_GOTO(sm_input_read(fd, path, 0, text, (size_t)size_bytes));
    text[size_bytes] = '\0';
    const size_t mark_bytes = sm_mark_bytes(text, (size_t)size_bytes);
    keep_odd_numbers(text, (size_t)size_bytes);
    *root = json_loadb(text + mark_bytes, (size_t)size_bytes - mark_bytes, JSON_REJECT_DUPLICATES, &error);
    if (*root == NULL) {
        status = sm_fail(SM_ERR_FORMAT, "%s: not JSON: %s, line %d", path,
                         sm_is_printable(error.text) ? error.text : "control character", error.line);
    } else if (!json_is_object(*root)) {
        json_decref(*root);
        *root = NULL;
        status = sm_fail(SM_ERR_FORMAT, "%s: not a JSON object", path);
    }

cleanup:
    free(text);
    close(fd);
    return status;
}
