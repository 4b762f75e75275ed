// child.h: runs a student's function on all cases, in a process of its own that may compute and print, and
// nothing else: no files but to read, no other processes, no network. Whatever it does, it ends, and harms nothing but
// the memory of its cases.
#ifndef STEPMARK_LEARN_EXERCISE_CHILD_H
#define STEPMARK_LEARN_EXERCISE_CHILD_H

#include <signal.h>

#include "learn/exercise/case.h"
#include "learn/exercise/device.h"
#include "learn/own_kernels/kernel_library.h"

typedef enum {
    SM_CHILD_DONE,    // all cases ran
    SM_CHILD_REFUSED, // the library could not be loaded: `message` says why
    SM_CHILD_SIGNAL,  // a signal ended it
    SM_CHILD_SYSCALL, // it asked the operating system for what a kernel has no need of
    SM_CHILD_EXIT,    // it ended the process
    SM_CHILD_TIMEOUT,
} sm_child_end;

typedef struct {
    sm_child_end end;
    int signal_number;
    int syscall_number;
    bool has_address;    // a memory access failed at:
    const void *address; // may be NULL
    int case_index;      // that was under way
    double ns;           // of one call of the timed case; 0: not measured
    char message[512];
    char *printed; // the beginning of what it printed; the caller frees it
} sm_child_result;

typedef struct {
    double timeout_s; // for all cases together
    bool with_time;
    const char *device; // "opencl", or the id of a device: for kernels in OpenCL C
    const volatile sig_atomic_t *interrupted;
} sm_exercise_child_options;

// What the device's own kernel takes, and its ceilings, where no stranger's code is; the student's took `own_ns`. 0 and
// NaN: not measured.
sm_status sm_exercise_meter_run(const sm_exercise_cases *cases, const sm_exercise_child_options *how, double own_ns,
                                sm_exercise_device_times *times);

// Runs every case once, then the timed one until its time is known. SM_ERR_UNSUPPORTED: this system cannot confine a
// process. SM_ERR_INTERRUPTED: *interrupted was set.
sm_status sm_exercise_child_run(const char *path, sm_kernel_file *file, const sm_exercise_cases *cases,
                                const sm_exercise_child_options *how, sm_child_result *result);

#endif
