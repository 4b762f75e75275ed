// library.c: see os/library.h.
#include "os/library.h"

#include <dlfcn.h>

void *os_library_open(const char *name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }

void os_library_close(void *library) { dlclose(library); }

void *os_library_find(void *library, const char *name) { return dlsym(library, name); }

const char *os_library_error(void) { return dlerror(); }
