// library.h: loads libraries at run time, so that the program also runs without them.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// The first of two names (the second may be NULL) that can be loaded; NULL: neither.
void *host_library_open(const char *name, const char *other_name);
void host_library_close(void *library); // so that it can be loaded again: its functions become invalid

// The address of one of its functions as a function pointer of that size, in *function; false: not found, or `library`
// is NULL. (ISO C cannot convert a pointer to an object into one to a function.)
bool host_library_find(void *library, const char *name, void *function, size_t size_bytes);
