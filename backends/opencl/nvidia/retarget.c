// retarget.c: changes the target of PTX. OpenCL's compilers make PTX for sm_90, but only sm_90a has the instructions of
// wgmma. A kernel contains them as comments, "//@" before each, which become text here; the driver's assembler accepts
// the result as a program's binary. It also declares how many work-groups a unit is to run at a time: as many as the
// comment "//groups a unit: " says, or one. The assembler needs that for warps to pass registers to one another
// (setmaxnreg), and gives each item as many registers as there are for so many; or as "//registers: " says.

#include "backends/opencl/nvidia/tensor.h"

static const char hidden[] = "//@";
static const char target[] = ".target sm_";
static const char group[] = ".reqntid";
static const char n_groups[] = "//groups a unit: "; // one digit follows
static const char n_registers[] = "//registers: ";  // three digits follow

// Copies the number after ".target sm_", with the suffix of the architecture-specific variant.
static const char *copy_target(const char *from, char **to) {
    const size_t length = strspn(from + sizeof target - 1, "0123456789") + sizeof target - 1;
    memcpy(*to, from, length);
    *to += length;
    *(*to)++ = 'a';
    return from + length + (from[length] == 'a');
}

char *opencl_retarget(const unsigned char *ptx, size_t size_bytes, size_t *new_bytes) {
    char limit[] = ".minnctapersm 1\n";
    SM_FREED char *text = sm_calloc(3 * size_bytes + sizeof limit, 1); // a line grows to less than three times as long
    SM_FREED char *copy = sm_strndup((const char *)ptx, size_bytes);
    const char *from = strstr(copy, n_groups);
    limit[sizeof limit - 3] = from != NULL ? from[sizeof n_groups - 1] : '1';
    from = strstr(copy, n_registers);
    if (from != NULL) {
        snprintf(limit, sizeof limit, ".maxnreg %.3s\n", from + sizeof n_registers - 1);
    }
    from = copy;
    char *to = text;
    bool is_found = false;
    while (*from != '\0') {
        if (strncmp(from, hidden, sizeof hidden - 1) == 0) {
            from += sizeof hidden - 1;
        } else if (!is_found && strncmp(from, target, sizeof target - 1) == 0) {
            from = copy_target(from, &to);
            is_found = true;
        } else if (strncmp(from, group, sizeof group - 1) == 0) {
            memcpy(to, limit, strlen(limit));
            to += strlen(limit);
            memcpy(to, group, sizeof group - 1);
            to += sizeof group - 1;
            from += sizeof group - 1;
        } else {
            *to++ = *from++;
        }
    }
    *new_bytes = (size_t)(to - text);
    return is_found ? sm_give(&text) : NULL;
}
