#include "backends/host/library.h"

#include <string.h>

#include "os/library.h"

void *host_library_open(const char *name, const char *other_name) {
    void *library = os_library_open(name);
    return library != NULL || other_name == NULL ? library : os_library_open(other_name);
}

void host_library_close(void *library) {
    if (library != NULL) {
        os_library_close(library);
    }
}

bool host_library_find(void *library, const char *name, void *function, size_t size_bytes) {
    void *symbol = library == NULL ? NULL : os_library_find(library, name);
    memcpy(function, &symbol, size_bytes);
    return symbol != NULL;
}
