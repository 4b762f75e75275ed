// backend_apart.h: a backend from a shared library (backend_library.h), in a process of its own, as own kernels are
// (src/plan/own_process.h). This process never loads the library: it asks, and believes of an answer nothing but what
// the device is. Times of ops are taken here, ceilings are not measured, and memory is what the plan needs.
#ifndef STEPMARK_LEARN_OWN_KERNELS_BACKEND_APART_H
#define STEPMARK_LEARN_OWN_KERNELS_BACKEND_APART_H

#include "backend_library.h"

// Adds the backend, which lives as long as the process. Each process that uses it starts one for the library; in it the
// library may have threads and devices, read files, and write only to a folder that is removed when this process ends.
// SM_ERR_FORMAT: it is not a library, has no backend, or was compiled with other headers.
sm_status sm_backend_apart_load(const char *path, const sm_backend **backend);

// The process with the library; NULL: none has been started.
const sm_own_process *sm_backend_apart_process(void);

#endif
