#include "src/io/json_text.h"

#include <errno.h>
#include <math.h>

#include "src/io/atomic_file.h"
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
// place. They become empty arrays of the same length: who wants a number or a text refuses them, others ignore them.
static void keep_odd_numbers(char *text, size_t size_bytes) {
    bool in_string = false;
    bool is_kept;
    for (size_t i = 0, n; i < size_bytes; i += n) {
        n = in_string ? 0 : number_at(text + i, &is_kept);
        if (n > 2 && !is_kept) {
            memset(text + i, ' ', n);
            text[i] = '[';
            text[i + n - 1] = ']';
        } else if (n == 0) {
            in_string ^= text[i] == '"';
            n = in_string && text[i] == '\\' && i + 1 < size_bytes ? 2 : 1;
        }
    }
}

sm_status sm_json_read(const char *path, int64_t max_bytes, json_t **root) {
    SM_FREED char *text = NULL;
    size_t size_bytes;
    json_error_t error;
    *root = NULL;
    SM_TRY(sm_input_whole(path, max_bytes, &text, &size_bytes));
    const size_t mark_bytes = sm_mark_bytes(text, size_bytes);
    keep_odd_numbers(text, size_bytes);
    json_auto_t *read = json_loadb(text + mark_bytes, size_bytes - mark_bytes, JSON_REJECT_DUPLICATES, &error);
    SM_FAIL_IF(read == NULL, SM_ERR_FORMAT, "%s: not JSON: %s, line %d", path,
               sm_is_printable(error.text) ? error.text : "control character", error.line);
    SM_FAIL_IF(!json_is_object(read), SM_ERR_FORMAT, "%s: not a JSON object", path);
    *root = json_incref(read);
    return SM_OK;
}

json_t *sm_json_line(const char *text, size_t n, json_error_t *error) {
    json_t *value = json_loadb(text, n, JSON_ALLOW_NUL, error);
    if (value == NULL) {
        SM_FREED char *copy = sm_malloc(n + 1);
        memcpy(copy, text, n);
        copy[n] = '\0';
        keep_odd_numbers(copy, n);
        value = json_loadb(copy, n, JSON_ALLOW_NUL, error);
    }
    return value;
}

sm_status sm_json_write(const char *path, const json_t *root, size_t flags) {
    SM_FREED char *text = json_dumps(root, flags);
    return sm_atomic_write_all(path, text, strlen(text));
}
