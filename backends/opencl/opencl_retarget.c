// opencl_retarget.c: PTX for another target than the compiler's own. OpenCL's compilers make PTX for sm_90; the
// instructions of wgmma are in sm_90a alone. A kernel has them as comments, "//@" before each, and this makes text of
// them: the driver's assembler takes that as a program's binary.
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

static const char hidden[] = "//@";
static const char target[] = ".target sm_";

// Copies the number after ".target sm_", and says which architecture-specific one is meant.
static const char *copy_target(const char *from, char **to) {
    const size_t length = strspn(from + sizeof target - 1, "0123456789") + sizeof target - 1;
    memcpy(*to, from, length);
    *to += length;
    *(*to)++ = 'a';
    return from + length + (from[length] == 'a');
}

char *opencl_retarget(const unsigned char *ptx, size_t size_bytes, size_t *new_bytes) {
    char *text = calloc(size_bytes + 2, 1); // one letter more at most, and an end
    char *copy = calloc(size_bytes + 1, 1);
    if (text == NULL || copy == NULL) {
        free(text);
        free(copy);
        return NULL;
    }
    memcpy(copy, ptx, size_bytes);
    const char *from = copy;
    char *to = text;
    bool is_found = false;
    while (*from != '\0') {
        if (strncmp(from, hidden, sizeof hidden - 1) == 0) {
            from += sizeof hidden - 1;
        } else if (!is_found && strncmp(from, target, sizeof target - 1) == 0) {
            from = copy_target(from, &to);
            is_found = true;
        } else {
            *to++ = *from++;
        }
    }
    *new_bytes = (size_t)(to - text);
    free(copy);
    if (!is_found) {
        free(text);
        return NULL;
    }
    return text;
}
