// backend_file.h: a backend from a shared library (backend_library.h).
#ifndef STEPMARK_LEARN_OWN_KERNELS_BACKEND_FILE_H
#define STEPMARK_LEARN_OWN_KERNELS_BACKEND_FILE_H

#include "backend_library.h"

// Loads it for as long as the process lives, and adds it to the backends. SM_ERR_FORMAT: it is no library, has no
// backend, or one that was compiled against other headers.
sm_status sm_backend_file_load(const char *path, const sm_backend **backend);

#endif
