// backend_file.c: loads a library, compares the headers that it was compiled with, and checks that its backend is
// complete.
#include "learn/own_kernels/backend_file.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>

static sm_status check_contract(const char *path, const sm_backend_library *library) {
    const sm_backend_library ours = SM_BACKEND_LIBRARY(NULL);
    if (library->version != ours.version) {
        return sm_fail(SM_ERR_FORMAT, "%s: was made for version %d of the contract of backends, and this is version %d",
                       path, library->version, ours.version);
    }
    if (library->backend_bytes != ours.backend_bytes || library->plan_bytes != ours.plan_bytes ||
        library->op_bytes != ours.op_bytes || library->tensor_bytes != ours.tensor_bytes) {
        return sm_fail(
            SM_ERR_FORMAT,
            "%s: was compiled against other headers: sizes of backend, plan, op and tensor are %zu, %zu, %zu "
            "and %zu bytes, here %zu, %zu, %zu and %zu; compile it against this stepmark's include/",
            path, library->backend_bytes, library->plan_bytes, library->op_bytes, library->tensor_bytes,
            ours.backend_bytes, ours.plan_bytes, ours.op_bytes, ours.tensor_bytes);
    }
    return SM_OK;
}

sm_status sm_backend_file_load(const char *path, const sm_backend **backend) {
    char resolved[PATH_MAX];
    if (realpath(path, resolved) == NULL) { // dlopen would search for a name without a slash
        return sm_fail(SM_ERR_IO, "--backend-library: %s: there is no such file", path);
    }
    void *handle = dlopen(resolved, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        return sm_fail(SM_ERR_FORMAT, "--backend-library: cannot be loaded: %s", dlerror());
    }
    const sm_backend_library *library = dlsym(handle, SM_BACKEND_SYMBOL);
    if (library == NULL) {
        return sm_fail(SM_ERR_FORMAT, "%s: has no %s: see docs/adding.md", path, SM_BACKEND_SYMBOL);
    }
    SM_TRY(check_contract(path, library));
    const sm_backend *b = *backend = library->get();
    if (b == NULL || b->name == NULL || b->name[0] == '\0' || b->summary == NULL || b->device_count == NULL ||
        b->describe == NULL || b->open == NULL || b->close == NULL || b->supports == NULL || b->measure_peaks == NULL ||
        b->working_bytes == NULL || b->prepare == NULL || b->release == NULL || b->execute == NULL ||
        b->synchronize == NULL || b->upload == NULL || b->download == NULL) {
        return sm_fail(SM_ERR_FORMAT, "%s: its backend lacks a name or a required function: see include/backend.h",
                       path);
    }
    return sm_backend_add(*backend);
}
