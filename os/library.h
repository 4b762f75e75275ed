// library.h: libraries that are loaded when the program runs.
#ifndef STEPMARK_OS_LIBRARY_H
#define STEPMARK_OS_LIBRARY_H

// By its name on Linux, "libOpenCL.so.1", for which other systems look by theirs, or by its path. NULL: none, and
// os_library_error() says why.
void *os_library_open(const char *name);
void os_library_close(void *library);

// The address of what has this name; NULL: nothing.
void *os_library_find(void *library, const char *name);

const char *os_library_error(void);

// The advice to users of this system who have none.
extern const char os_no_openblas[], os_no_opencl[];

#endif
