// embedded.c: see embedded.h; the table is embedded.S's.
#include "embedded.h"

#include <stdint.h>
#include <string.h>

extern const sm_embedded sm_embedded_files[];
extern const uint64_t sm_embedded_bytes; // of the table

int sm_embedded_count(void) { return (int)(sm_embedded_bytes / sizeof(sm_embedded)); }

const sm_embedded *sm_embedded_at(int index) { return &sm_embedded_files[index]; }

const sm_embedded *sm_embedded_find(const char *path) {
    for (int i = 0; i < sm_embedded_count(); i++) {
        if (strcmp(sm_embedded_files[i].path, path) == 0) {
            return &sm_embedded_files[i];
        }
    }
    return NULL;
}

const sm_embedded *sm_embedded_find_below(const char *folder, const char *name) {
    for (int i = 0; i < sm_embedded_count(); i++) {
        const char *path = sm_embedded_files[i].path;
        if (strncmp(path, folder, strlen(folder)) == 0 && strcmp(strrchr(path, '/') + 1, name) == 0) {
            return &sm_embedded_files[i];
        }
    }
    return NULL;
}
