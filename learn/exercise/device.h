// device.h: runs and times a student's kernel in OpenCL C on a device, in separate processes, as drivers do not survive
// a fork.
#ifndef STEPMARK_LEARN_EXERCISE_DEVICE_H
#define STEPMARK_LEARN_EXERCISE_DEVICE_H

#include "learn/exercise/case.h"

typedef struct {
    char device[SM_TEXT_SIZE]; // its name
    double shipped_ns;         // of the backend's kernel
    double ceiling_ns;         // NaN: unknown
    bool is_memory_bound;
} sm_exercise_device_times;

// Runs every case on the device with that id, or the backend's first ("opencl"), into the operands' memory; *case_index
// is the current one. SM_ERR_FORMAT: the source does not build. SM_ERR_MISMATCH: it wrote outside of its outputs.
sm_status sm_exercise_device_run(const sm_own_kernel *kernel, const char *device, const sm_exercise_cases *cases,
                                 volatile int *case_index);

// Times the timed case; `keeps` as in sm_case_time.
sm_status sm_exercise_device_time(const sm_own_kernel *kernel, const char *id, const sm_exercise_cases *cases,
                                  bool keeps, double *ns);

// Times the backend's own kernel, and measures the device's ceilings; the student's kernel took `own_ns`.
sm_status sm_exercise_device_meter(const char *id, const sm_exercise_cases *cases, double own_ns,
                                   sm_exercise_device_times *times);

#endif
