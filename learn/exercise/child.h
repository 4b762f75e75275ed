// child.h: runs a student's function on all cases, in a process that may only compute and print: it may read files, but
// not write them, and use no other processes and no network. It always ends, and can damage only the memory of its
// cases.
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
    double ns;           // of one call of the timed case; 0: not measured
    char message[512];
    char *printed; // the beginning of its output; the caller frees it
} sm_child_result;

typedef struct {
    double timeout_s; // for all cases together
    bool with_time;
    const char *device; // "opencl", or the id of a device: for kernels in OpenCL C
    const volatile sig_atomic_t *interrupted;
} sm_exercise_child_options;

// The time of the device's own kernel, and the device's ceilings, measured without foreign code; the student's kernel
// took `own_ns`. 0 and NaN: not measured.
sm_status sm_exercise_meter_run(const sm_exercise_cases *cases, const sm_exercise_child_options *how, double own_ns,
                                sm_exercise_device_times *times);

// Runs every case once, then the timed case until its time is known. SM_ERR_UNSUPPORTED: this system cannot confine a
// process. SM_ERR_INTERRUPTED: *interrupted was set.
sm_status sm_exercise_child_run(const char *path, sm_kernel_file *file, const sm_exercise_cases *cases,
                                const sm_exercise_child_options *how, sm_child_result *result);

#endif
