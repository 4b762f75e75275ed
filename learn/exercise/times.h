// times.h: times of kernels, in turns. Each turn starts a process (src/plan/own_process.h) for each kernel, in an
// order that is drawn, and calls it a few times. Every call has inputs of its own, drawn after the process has loaded
// the kernel, and every result is compared: what a kernel remembers, leaves for later, or computes only when it is
// checked is no right result. The time of a call in C is the processor time that its process used since the call before,
// as the system counts it: the kernel has no part in it, and gains nothing by work between its calls. On a device it
// lasts from the request to a part of the result, by this process's clock; the shortest of a turn counts.
#ifndef STEPMARK_LEARN_EXERCISE_TIMES_H
#define STEPMARK_LEARN_EXERCISE_TIMES_H

#include "learn/exercise/case.h"
#include "learn/exercise/exercise.h"

typedef struct {
    const char *library; // or a backend's kernel (SM_OWN_BACKEND), or FILE.cl
    const char *path;    // for messages
    const char *device;  // that it runs on; NULL: a thread of a process
    sm_exercise_time *time;
    sm_exercise_report *report; // of a kernel that may be wrong; NULL: a backend's
    double left_s;              // for all of its turns
    double longest_s;           // of them so far
    bool is_out;
} sm_timed_kernel;

// Fills the times; a kernel that is wrong, or does not end, is out, and its report says why. One
// whose time runs out between its turns has fewer. call_ns: the time of a call that does nothing. SM_ERR_INTERRUPTED.
sm_status sm_exercise_time_all(sm_exercise_case *c, const sm_exercise_options *options, sm_timed_kernel *kernels, int n,
                               double *call_ns);

#endif
