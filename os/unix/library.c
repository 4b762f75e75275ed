// library.c: see os/library.h.
#include "os/library.h"

#include <dlfcn.h>

void *os_library_open(const char *name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }

void os_library_close(void *library) { dlclose(library); }

void *os_library_find(void *library, const char *name) { return dlsym(library, name); }

const char *os_library_error(void) { return dlerror(); }

const char os_no_openblas[] = "libopenblas.so.0 is not installed (Debian: libopenblas0-openmp)";
const char os_no_opencl[] = "no OpenCL loader (libOpenCL.so.1); install ocl-icd-libopencl1 and a driver, such as "
                            "pocl-opencl-icd for processors";
