// kernel_library.h: a user's kernel from its file: C that is compiled, a shared library that is there already, or
// OpenCL C, which a device's driver compiles.
#ifndef STEPMARK_LEARN_OWN_KERNELS_KERNEL_LIBRARY_H
#define STEPMARK_LEARN_OWN_KERNELS_KERNEL_LIBRARY_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>

#include "own_kernel.h"

typedef struct {
    sm_own_language language;
    char *source;           // of FILE.cl; sm_kernel_load takes it over
    char library[PATH_MAX]; // of C: what is loaded: FILE.so itself, or what FILE.c was compiled to
    char folder[PATH_MAX];  // where that is, to be removed; "": none
    char *said;             // by the compiler: its warnings, or why it failed; "" if nothing
} sm_kernel_file;

// What the compiler may take.
typedef struct {
    double timeout_s; // SM_ERR_TIMEOUT; 0: none
    bool is_confined; // of a file that is not trusted: limits of memory and of files' sizes; it reads what is the
                      // system's and the compiler's, and the file's folder, and writes nowhere else (file_access.h)
    const volatile sig_atomic_t *interrupted; // NULL is fine
} sm_kernel_limits;

// Compiles FILE.c with $CC, or cc; reads FILE.cl; FILE.so is a library. A failure of the compiler is
// SM_ERR_FORMAT, and `said` has the beginning of its words.
sm_status sm_kernel_file_open(const char *path, const sm_kernel_limits *limits, sm_kernel_file *file);
void sm_kernel_file_close(sm_kernel_file *file); // also one that could not be opened

// Loads the kind's function into this process, for as long as it lives. SM_ERR_FORMAT: it has no such function, or one
// that was made for other arguments.
sm_status sm_kernel_load(const char *path, sm_kernel_file *file, sm_op_kind kind, sm_own_kernel *kernel);

// The kind of that name; SM_OP_KIND_COUNT: none.
sm_op_kind sm_op_kind_find(const char *name);

#endif
