// cpu_onednn.c: oneDNN's functions.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "cpu_onednn.h"

cpu_onednn_functions cpu_onednn;

static void *library;

// ISO C cannot cast an object's address to a function's.
bool cpu_onednn_find(const char *name, void *function, size_t size_bytes) {
    void *symbol = library == NULL ? NULL : dlsym(library, name);
    memcpy(function, &symbol, size_bytes);
    return symbol != NULL;
}

static bool load(void) {
    static const char *const names[] = {"libdnnl.so.2", "libdnnl.so.3"};
    for (size_t i = 0; library == NULL && i < sizeof names / sizeof names[0]; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    return cpu_onednn_find("dnnl_sgemm", &cpu_onednn.sgemm, sizeof cpu_onednn.sgemm) &&
           cpu_onednn_find("dnnl_version", &cpu_onednn.version, sizeof cpu_onednn.version);
}

bool cpu_onednn_load(void) {
    static bool tried = false;
    static bool loaded = false;
    if (!tried) {
        loaded = load();
        tried = true;
    }
    return loaded;
}

void cpu_onednn_name(char *text, size_t size_bytes) {
    if (cpu_onednn_load()) {
        const dnnl_version_t *version = cpu_onednn.version();
        snprintf(text, size_bytes, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
    } else {
        snprintf(text, size_bytes, "no oneDNN");
    }
}
