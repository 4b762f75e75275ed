// library.h: libraries that are loaded when the program runs.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

// By its name on Linux, "libOpenCL.so.1", for which other systems look by theirs, or by its path. NULL: none, and
// os_library_error() says why.
void *os_library_open(const char *name);
void os_library_close(void *library);

// The address of what has this name; NULL: nothing.
void *os_library_find(void *library, const char *name);

// The address of one of its functions, as a pointer to functions, in *function; false: not found, or `library` is NULL.
// (ISO C cannot convert a pointer to an object into one to a function.)
static inline bool os_library_function(void *library, const char *name, void *function) {
    void *symbol = library == NULL ? NULL : os_library_find(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

const char *os_library_error(void);

// Whether its file can be removed while a process has it; and whether it finds functions of the program.
extern const bool os_removes_loaded, os_lends_functions;

// For making one: the compilers to look for, up to NULL, a flag that one of them needs, and how the file's name ends.
extern const char *const os_compilers[];
const char *os_library_flag(const char *compiler);
extern const char os_library_end[];

// The advice to users of this system who have none.
extern const char os_no_openblas[], os_no_opencl[];
