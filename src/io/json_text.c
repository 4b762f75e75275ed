// json_text.c: measures the text, or the file, first, and then allocates one buffer.
#include "src/io/json_text.h"

#include <stdlib.h>
#include <unistd.h>

#include "src/io/input_file.h"

char *sm_json_to_text(const json_t *value, size_t flags) {
    size_t size_bytes = value != NULL ? json_dumpb(value, NULL, 0, flags) : 0;
    char *text = size_bytes > 0 ? malloc(size_bytes + 1) : NULL;
    if (text == NULL || json_dumpb(value, text, size_bytes, flags) != size_bytes) {
        free(text);
        return NULL;
    }
    text[size_bytes] = '\0';
    return text;
}

json_t *sm_json_name(const char *name) {
    json_t *text = json_string(name);
    return text != NULL ? text : json_string("(not UTF-8)");
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
    *root = json_loadb(text, (size_t)size_bytes, JSON_REJECT_DUPLICATES, &error);
    if (*root == NULL && error.text[0] == '\0') { // jansson describes malformed input, but not a failed allocation
        status = sm_fail(SM_ERR_OOM, "%s: no memory for its %lld bytes", path, (long long)size_bytes);
    } else if (*root == NULL) {
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
