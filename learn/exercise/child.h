// child.h: runs a student's function on all cases, in a process that may only compute and print: it may read files, but
// not write them, and use no other processes and no network. It always ends, and can damage only the memory of its
// cases.
#ifndef STEPMARK_LEARN_EXERCISE_CHILD_H
#define STEPMARK_LEARN_EXERCISE_CHILD_H

#include <signal.h>

#include "learn/exercise/case.h"
#include "learn/exercise/exercise.h"
#include "learn/own_kernels/kernel_library.h"

typedef enum {
    SM_CHILD_DONE,    // all cases ran
    SM_CHILD_REFUSED, // the library could not be loaded: `message` says why
    SM_CHILD_SIGNAL,  // a signal ended it
    SM_CHILD_SYSCALL, // it made a system call that a kernel does not need
    SM_CHILD_EXIT,    // it ended the process
    SM_CHILD_TIMEOUT,
} sm_child_end;

typedef struct {
    sm_child_end end;
    int signal_number;
    int syscall_number;
    bool has_address;    // a memory access failed at `address`
    const void *address; // may be NULL
    int case_index;      // the current case
    char message[512];
    char *printed; // the beginning of its output; the caller frees it
} sm_child_result;

typedef struct {
    char device[SM_TEXT_SIZE]; // its name
    double ceiling_ns;         // of the timed case; NaN: unknown
    bool is_memory_bound;
} sm_exercise_device_times;

// The device's ceilings, measured without foreign code; the fastest kernel took `seen_ns`.
sm_status sm_exercise_meter_run(const sm_exercise_case *timed, const sm_exercise_options *how, double seen_ns,
                                sm_exercise_device_times *times);

// Runs every case once. SM_ERR_UNSUPPORTED: this system cannot
// confine a process. SM_ERR_INTERRUPTED: *interrupted was set.
sm_status sm_exercise_child_run(const char *path, sm_kernel_file *file, const sm_exercise_cases *cases,
                                const sm_exercise_options *how, sm_child_result *result);

// --- on a device (device.c): in processes of their own, as drivers do not survive a fork -------------

// Runs every case on the device with that id, or the backend's first ("opencl"), into the operands' memory; *case_index
// is the current one. SM_ERR_FORMAT: the source does not build. SM_ERR_MISMATCH: it wrote outside of its outputs.
sm_status sm_exercise_device_run(const sm_own_kernel *kernel, const char *device, const sm_exercise_cases *cases,
                                 volatile int *case_index);

// Measures the device's ceilings.
sm_status sm_exercise_device_meter(const char *id, const sm_exercise_case *timed, double seen_ns,
                                   sm_exercise_device_times *times);

#endif
