// registry.c: the only file that names backends. A new backend adds a line here.
#include "backend_library.h"
#include "collectives.h"

extern const sm_backend sm_backend_cpu;
extern const sm_backend sm_backend_reference;
#ifdef SM_OPENCL
extern const sm_backend sm_backend_opencl;
extern const sm_collectives sm_collectives_links, sm_collectives_nccl;
#endif

static const sm_backend *const backends[] = {
    &sm_backend_cpu,
#ifdef SM_OPENCL
    &sm_backend_opencl,
#endif
    &sm_backend_reference,
};

enum { N_BUILT_IN = SM_COUNT(backends) };

static const sm_backend *added; // by --backend-library

int sm_backend_count(void) { return N_BUILT_IN + (added != NULL); }

const sm_backend *sm_backend_at(int index) { return index < N_BUILT_IN ? backends[index] : added; }

sm_status sm_backend_add(const sm_backend *backend) {
    SM_FAIL_IF(sm_backend_find(backend->name) != NULL, SM_ERR_FORMAT,
               "a backend named %s exists already; give the library's backend another name", backend->name);
    added = backend;
    return SM_OK;
}

const sm_backend *sm_backend_find(const char *name) {
    for (int i = 0; i < sm_backend_count(); i++) {
        if (strcmp(sm_backend_at(i)->name, name) == 0) {
            return sm_backend_at(i);
        }
    }
    return NULL;
}

const sm_collectives *sm_collectives_of(SM_UNUSED const sm_backend *backend, SM_UNUSED int i) {
#ifdef SM_OPENCL
    static const sm_collectives *const of_opencl[] = {&sm_collectives_links, &sm_collectives_nccl};
    return backend == &sm_backend_opencl && i < (int)SM_COUNT(of_opencl) ? of_opencl[i] : NULL;
#else
    return NULL;
#endif
}
