// fake_clock.h: for single-threaded tests that depend on time: a monotonic clock that advances by a microsecond at each
// reading, and by what is slept. So durations are what the test sets, on any machine and under any load.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_bool has_fake_clock; // else it is the machine's
static atomic_llong fake_clock_ns = 1000000000;

// In front of the C library's own, for the test and all that it is linked with.
int clock_gettime(clockid_t clock, struct timespec *now) {
    if (clock != CLOCK_MONOTONIC || !has_fake_clock) {
        return (int)syscall(SYS_clock_gettime, clock, now);
    }
    const long long ns = atomic_fetch_add(&fake_clock_ns, 1000);
    *now = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}

int nanosleep(const struct timespec *how_long, struct timespec *left) {
    if (!has_fake_clock) {
        return (int)syscall(SYS_nanosleep, how_long, left);
    }
    atomic_fetch_add(&fake_clock_ns, how_long->tv_sec * 1000000000LL + how_long->tv_nsec);
    return 0;
}
