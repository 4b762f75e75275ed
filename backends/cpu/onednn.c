// onednn.c: loads oneDNN's functions.
#include <stdio.h>

#include "backends/cpu/onednn.h"
#include "backends/host/library.h"

cpu_onednn_functions cpu_onednn;

static void *library;

bool cpu_onednn_find(const char *name, void *function, size_t size_bytes) {
    return host_library_find(library, name, function, size_bytes);
}

// Opens the newest version. Debian 13's name also has the minor version: libdnnl.so.3.6.
static void *open_library(void) {
    enum { LAST_MINOR = 40 };
    char name[32] = "libdnnl.so.3";
    void *opened = host_library_open(name, NULL);
    for (int minor = LAST_MINOR; opened == NULL && minor >= 0; minor--) {
        snprintf(name, sizeof name, "libdnnl.so.3.%d", minor);
        opened = host_library_open(name, NULL);
    }
    return opened != NULL ? opened : host_library_open("libdnnl.so.2", NULL);
}

static bool load(void) {
    library = open_library();
    return cpu_onednn_find("dnnl_version", &cpu_onednn.version, sizeof cpu_onednn.version) &&
           (cpu_onednn.version()->major == 2 || cpu_onednn.version()->major == 3) &&
           cpu_onednn_find("dnnl_sgemm", &cpu_onednn.sgemm, sizeof cpu_onednn.sgemm);
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
        const cpu_onednn_version *version = cpu_onednn.version();
        snprintf(text, size_bytes, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
    } else {
        snprintf(text, size_bytes, "no oneDNN");
    }
}
