// registry.c: the only place that names backends. Adding one is a line here.
#include <string.h>

#include "backend.h"

extern const sm_backend sm_backend_cpu;
extern const sm_backend sm_backend_reference;

static const sm_backend *const backends[] = {&sm_backend_cpu, &sm_backend_reference};

int sm_backend_count(void) { return (int)(sizeof backends / sizeof backends[0]); }

const sm_backend *sm_backend_at(int index) { return backends[index]; }

const sm_backend *sm_backend_find(const char *name) {
    for (int i = 0; i < sm_backend_count(); i++) {
        if (strcmp(backends[i]->name, name) == 0) {
            return backends[i];
        }
    }
    return NULL;
}
