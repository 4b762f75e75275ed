// kernel_library.h: a user's kernel from its file: C to compile, a shared library, or OpenCL C, which a device's driver
// compiles; a backend from a shared library (backend_library.h); and the processes that run them (src/plan/own_process.h).
#pragma once

#include <limits.h>
#include <signal.h>

#include "backend_library.h"

// Makes an empty folder, stepmark-WHAT-XXXXXX, in $TMPDIR or /tmp; `folder` is "" after a failure.
sm_status sm_kernel_folder_make(const char *what, char folder[PATH_MAX]);

typedef struct {
    sm_own_language language;
    char *source;           // of FILE.cl; sm_kernel_load takes ownership
    char library[PATH_MAX]; // for C: the library to load: FILE.so itself, or the compiled FILE.c
    char folder[PATH_MAX];  // its folder, to be removed; "": none
    char *said;             // by the compiler: its warnings, or why it failed; "" if nothing
} sm_kernel_file;

// The compiler's limits.
typedef struct {
    double timeout_s; // SM_ERR_TIMEOUT; 0: none
    bool is_confined; // for an untrusted file: limits memory and file sizes; reads only files of the system and
                      // compiler, and the file's folder; writes nowhere else (os/confinement.h)
    const volatile sig_atomic_t *interrupted; // NULL is fine
} sm_kernel_limits;

// Compiles FILE.c with $CC, or cc; reads FILE.cl; takes FILE.so as it is. SM_ERR_FORMAT if the compiler fails; `said`
// has the beginning of its output.
sm_status sm_kernel_file_open(const char *path, const sm_kernel_limits *limits, sm_kernel_file *file);
void sm_kernel_file_close(sm_kernel_file *file); // also after a failed open

// Loads the kind's function into this process, for good. SM_ERR_FORMAT: it is missing, or made for other arguments.
sm_status sm_kernel_load(const char *path, sm_kernel_file *file, sm_op_kind kind, sm_own_kernel *kernel);

// The OpenCL device with that id, or the first that can be used ("opencl"), with a kernel in OpenCL C, or NULL.
sm_status sm_kernel_device_open(const sm_own_kernel *kernel, const char *id, sm_device **device);

// The kind with that name; SM_OP_KIND_COUNT: none.
sm_op_kind sm_op_kind_find(const char *name);

// --- processes of foreign code -----------------------------------------------------------------------

// Irrevocably limits the rights of the calling thread (confine.c). False: this system has no filter of system calls.

// Allows computing, memory, time, reading files, writing to stdout and stderr, and ending. Any other system call raises
// SIGSYS. With Landlock it reads only the system's files, and the folders of its libraries.
bool sm_confine_kernel(char *const *libraries, int n);

// Also allows what an OpenCL driver needs: threads, compilers, computing devices, files. Caches and temporary files are
// moved to empty folders in `folder`. No network, no other processes, no leaving the process group; with Landlock it
// writes nowhere else.
bool sm_confine_driver(const char *folder);

// The process of sm_own_process_start (process.c): its standard input is the shared memory. Confines this process,
// loads the libraries, and runs kernels until it is ended. SM_ERR_USAGE: it was not started so.
sm_status sm_own_process_serve(int n_words, char *const *words);

// --- a backend from a library --------------------------------------------------------------------------

// It lives in a process of its own, as own kernels do. This process never loads the library: it asks, and believes of
// an answer nothing but what the device is. Times of ops are taken here, ceilings are not measured, and memory is what
// the plan needs.

// Adds the backend, which lives as long as the process. Each process that uses it starts one for the library; in it the
// library may have threads and devices, read files, and write only to a folder that is removed when this process ends.
// SM_ERR_FORMAT: it is not a library, has no backend, or was compiled with other headers.
sm_status sm_backend_apart_load(const char *path, const sm_backend **backend);

// The process with the library; NULL: none has been started.
const sm_own_process *sm_backend_apart_process(void);
