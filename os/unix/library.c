// library.c: see os/library.h.
#include "os/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#ifdef __APPLE__
// libNAME.so.1 is libNAME.dylib here, also where Homebrew keeps what macOS has in its own way; OpenCL is a framework.
void *os_library_open(const char *name) {
    static const char *const places[] = {"%s", "/opt/homebrew/opt/openblas/lib/%s", "/usr/local/opt/openblas/lib/%s"};
    const char *end = strstr(name, ".so");
    void *library = NULL;
    char file[256];
    char path[512];
    if (strchr(name, '/') != NULL || end == NULL) {
        return dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    snprintf(file, sizeof file, "%.*s.dylib", (int)(end - name), name);
    for (size_t i = 0; i < sizeof places / sizeof places[0] && library == NULL; i++) {
        snprintf(path, sizeof path, places[i], file);
        library =
            dlopen(strncmp(name, "libOpenCL", 9) != 0 ? path : "/System/Library/Frameworks/OpenCL.framework/OpenCL",
                   RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}
#else
void *os_library_open(const char *name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }
#endif

void os_library_close(void *library) { dlclose(library); }

void *os_library_find(void *library, const char *name) { return dlsym(library, name); }

const char *os_library_error(void) { return dlerror(); }

const char *const os_compilers[] = {"cc", NULL};
const char os_library_end[] = ".so";
const bool os_removes_loaded = true, os_lends_functions = true;

const char *os_library_flag(const char *compiler) {
    (void)compiler;
    return "-fPIC";
}

#ifdef __APPLE__
const char os_no_openblas[] = "libopenblas.dylib is not installed (brew install openblas)";
const char os_no_opencl[] = "no OpenCL.framework";
#else
const char os_no_openblas[] = "libopenblas.so.0 is not installed (Debian: libopenblas0-openmp)";
const char os_no_opencl[] = "no OpenCL loader (libOpenCL.so.1); install ocl-icd-libopencl1 and a driver, such as "
                            "pocl-opencl-icd for processors";
#endif
