// sources.h: the files of cl/, as they were when the program was built.
#ifndef STEPMARK_BACKENDS_OPENCL_SOURCES_H
#define STEPMARK_BACKENDS_OPENCL_SOURCES_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *text; // without a terminating NUL
    size_t size_bytes;
} opencl_source;

// The text of cl/STEM.cl; false when there is no such file.
bool opencl_find_source(const char *stem, opencl_source *source);

#endif
