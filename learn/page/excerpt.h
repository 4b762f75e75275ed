// excerpt.h: extracts a function from a source file, with the parts of the file that it needs, for readers.
#ifndef STEPMARK_LEARN_PAGE_EXCERPT_H
#define STEPMARK_LEARN_PAGE_EXCERPT_H

#include <stdbool.h>
#include <stddef.h>

#include "status.h"

typedef struct {
    const char *data; // need not end with a zero
    size_t n;
} sm_source;

// A name is a function's, "gelu_forward", or what stands for one: "CPU_KERNEL(gelu_forward)". With a star after it,
// the beginning of names.

// The definitions of the names (a list ending with NULL) with the comments above them, and the definitions in the same
// file that they use, in the file's order; the least related are left out beyond about `most_bytes`. *text is NULL if
// the file has none of the names; the caller frees it.
sm_status sm_excerpt(sm_source file, const char *const *names, size_t most_bytes, char **text);

#endif
