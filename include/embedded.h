// embedded.h: files that are built into the program: the default training text, OpenCL kernels, the sources, equations,
// styles and scripts of pages, and the ladder's sources.
#pragma once

#include <stddef.h>

typedef struct {
    const char *path; // within the tree: "cl/bias.cl"
    const char *text; // followed by a zero byte
    size_t size_bytes;
} sm_embedded;

int sm_embedded_count(void);
const sm_embedded *sm_embedded_at(int index); // in ascending order of paths

// The file with that path, or NULL.
const sm_embedded *sm_embedded_find(const char *path);

// The first file called `name` in `folder` ("cl/") or a folder within it, or NULL.
const sm_embedded *sm_embedded_find_below(const char *folder, const char *name);

// The default text of `run` and `train` without --data: an essay on training steps, one token for each byte.
#define SM_EMBEDDED_TEXT "src/io/text.txt"
