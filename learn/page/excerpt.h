// excerpt.h: a function from a source file, with the parts of that file that it needs: for a reader.
#ifndef STEPMARK_LEARN_PAGE_EXCERPT_H
#define STEPMARK_LEARN_PAGE_EXCERPT_H

#include <stdbool.h>
#include <stddef.h>

#include "status.h"

typedef struct {
    const char *data; // need not end with a zero
    size_t n;
} sm_source;

// A name is a function's, "gelu_forward", or what stands for one: "CPU_KERNEL(gelu_forward)". With a star behind it,
// the beginning of names.

// The definition of each of the names (up to a NULL) with the comment above it, and those of the same file that it
// uses, in the file's order; what is further away is left out beyond about `most_bytes`. *text is NULL where the file
// has none of them; the caller frees it.
sm_status sm_excerpt(sm_source file, const char *const *names, size_t most_bytes, char **text);

#endif
