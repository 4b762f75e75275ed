// library.c: see host/library.h.
#include "backends/host/library.h"

#include <dlfcn.h>
#include <string.h>

void *host_library_open(const char *name, const char *other_name) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    return library != NULL || other_name == NULL ? library : dlopen(other_name, RTLD_NOW | RTLD_LOCAL);
}

void host_library_close(void *library) {
    if (library != NULL) {
        dlclose(library);
    }
}

bool host_library_find(void *library, const char *name, void *function, size_t size_bytes) {
    void *symbol = library == NULL ? NULL : dlsym(library, name);
    memcpy(function, &symbol, size_bytes);
    return symbol != NULL;
}
