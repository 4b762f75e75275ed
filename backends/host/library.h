// library.h: libraries that are looked for when the program runs, so that it also runs without them.
#ifndef STEPMARK_BACKENDS_HOST_LIBRARY_H
#define STEPMARK_BACKENDS_HOST_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

// The first of two names (the other may be NULL) that can be loaded; NULL: neither.
void *host_library_open(const char *name, const char *other_name);
void host_library_close(void *library); // so that it may be loaded anew: its functions are gone

// The address of one of its functions as a function pointer of that size, in *function; false: it has none, or
// `library` is NULL. (ISO C cannot cast an object's address to a function's.)
bool host_library_find(void *library, const char *name, void *function, size_t size_bytes);

#endif
