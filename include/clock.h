// clock.h: the one clock for all times.
#ifndef STEPMARK_CLOCK_H
#define STEPMARK_CLOCK_H

#include <stdint.h>
#include <time.h>

// CLOCK_MONOTONIC, in nanoseconds.
static inline int64_t sm_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
