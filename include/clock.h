// clock.h: the one clock for all times.
#pragma once

#include <stdint.h>
#include <time.h>

// macOS counts CLOCK_MONOTONIC in microseconds.
#ifdef __APPLE__
#define SM_CLOCK CLOCK_MONOTONIC_RAW
#else
#define SM_CLOCK CLOCK_MONOTONIC
#endif

static inline int64_t sm_now_ns(void) {
    struct timespec now;
    clock_gettime(SM_CLOCK, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
