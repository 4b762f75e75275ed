// retarget.c: PTX for another target than the compiler's own. OpenCL's compilers make PTX for sm_90; the
// instructions of wgmma are in sm_90a alone. A kernel has them as comments, "//@" before each, and this makes text of
// them: the driver's assembler takes that as a program's binary. It also says that a unit runs one work-group at a
// time, without which the assembler does not let warps give registers to one another (setmaxnreg).
#include <stdlib.h>
#include <string.h>

#include "backends/opencl/nvidia/tensor.h"

static const char hidden[] = "//@";
static const char target[] = ".target sm_";
static const char group[] = ".reqntid";
static const char one_group[] = ".minnctapersm 1\n";

// Copies the number after ".target sm_", and says which architecture-specific one is meant.
static const char *copy_target(const char *from, char **to) {
    const size_t length = strspn(from + sizeof target - 1, "0123456789") + sizeof target - 1;
    memcpy(*to, from, length);
    *to += length;
    *(*to)++ = 'a';
    return from + length + (from[length] == 'a');
}

char *opencl_retarget(const unsigned char *ptx, size_t size_bytes, size_t *new_bytes) {
    char *text = calloc(3 * size_bytes + sizeof one_group, 1); // a line grows to less than three times its length
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
        } else if (strncmp(from, group, sizeof group - 1) == 0) {
            memcpy(to, one_group, sizeof one_group - 1);
            to += sizeof one_group - 1;
            memcpy(to, group, sizeof group - 1);
            to += sizeof group - 1;
            from += sizeof group - 1;
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
