// embedded.h: files that are part of the program, as they were when it was built: the text that is learned from where
// there is no other, kernels in OpenCL C, sources and equations that a page shows, styles and scripts of pages, the
// ladder's sources.
#ifndef STEPMARK_EMBEDDED_H
#define STEPMARK_EMBEDDED_H

#include <stddef.h>

typedef struct {
    const char *path; // within the tree: "cl/gelu.cl"
    const char *text; // with a zero byte after it
    size_t size_bytes;
} sm_embedded;

int sm_embedded_count(void);
const sm_embedded *sm_embedded_at(int index); // in the order of their paths

// The file of that path, or NULL.
const sm_embedded *sm_embedded_find(const char *path);

// The first file called `name` in `folder` ("cl/") or a folder within it, or NULL.
const sm_embedded *sm_embedded_find_below(const char *folder, const char *name);

// The essay on training steps that `run` and `train` read, a byte a token, when no --data is given.
#define SM_EMBEDDED_TEXT "src/io/text.txt"

#endif
