// backend_file.h: a backend from a shared library (backend_library.h), in the process that has it.
#ifndef STEPMARK_LEARN_OWN_KERNELS_BACKEND_FILE_H
#define STEPMARK_LEARN_OWN_KERNELS_BACKEND_FILE_H

#include "backend_library.h"

// Loads it for the rest of the process, and adds it to the backends. SM_ERR_FORMAT: it is not a library, has no
// backend, or was compiled with other headers.
sm_status sm_backend_file_load(const char *path);

#endif
