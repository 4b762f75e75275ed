// json_text.c: measured first, then written into one buffer.
#include "json_text.h"

#include <stdlib.h>

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
