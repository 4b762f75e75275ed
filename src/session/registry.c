// registry.c: the only place that names backends. Adding one is a line here.
#include <string.h>

#include "backend.h"

extern const sm_backend sm_backend_cpu;
extern const sm_backend sm_backend_reference;
#ifdef SM_OPENCL
extern const sm_backend sm_backend_opencl;
#endif

static const sm_backend *const backends[] = {
    &sm_backend_cpu,
#ifdef SM_OPENCL
    &sm_backend_opencl,
#endif
    &sm_backend_reference,
};

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
