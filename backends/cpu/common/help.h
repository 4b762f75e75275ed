// help.h: threads that help each other with a matrix product.
//
// The cores that a machine's owner shares out are unlike in speed from moment to moment (on one with 16 of them, some
// had half the speed of others), and where each thread has its fixed part all wait for the slowest. So a thread's
// columns are taken panel by panel, by itself and then by who has none left: first who has the same rows, and so has
// packed them. Who computes a panel changes nothing in its sums. Two threads are even enough to be left alone.
#ifndef STEPMARK_BACKENDS_CPU_COMMON_HELP_H
#define STEPMARK_BACKENDS_CPU_COMMON_HELP_H

#include "backends/cpu/common/kernel.h"

// How many panels of a thread have been taken, in a slice of k and in the next: a line of its own, at the beginning of
// its scratch.
enum { CPU_HELP_BYTES = 64 };

static inline bool cpu_helps(const cpu_team *team) { return team->n_threads > 2; }

static inline int64_t *cpu_n_taken(const cpu_team *team, int thread, int64_t slice) {
    return (int64_t *)team->scratch[thread] + slice % 2;
}

// Before the first slice; the threads meet afterwards.
static inline void cpu_help_begin(const cpu_team *team) {
    *cpu_n_taken(team, team->thread, 0) = 0;
    *cpu_n_taken(team, team->thread, 1) = 0;
}

// The thread that is helped in turn `turn`, in a grid in which grid_rows threads have the same columns; turn 0:
// oneself.
static inline int cpu_helped(const cpu_team *team, int grid_rows, int turn) {
    const int grid_cols = team->n_threads / grid_rows;
    const int row = (team->thread / grid_cols + turn / grid_cols) % grid_rows;
    return row * grid_cols + (team->thread + turn) % grid_cols;
}

// The next of a thread's n_panels, or -1: none is left. The last one is not worth packing another's rows for.
static inline int64_t cpu_take_panel(const cpu_team *team, int thread, int grid_rows, int64_t slice, int64_t n_panels) {
    const int grid_cols = team->n_threads / grid_rows;
    const int64_t kept = thread / grid_cols == team->thread / grid_cols ? 0 : 1;
    int64_t *n_taken = cpu_n_taken(team, thread, slice);
    if (__atomic_load_n(n_taken, __ATOMIC_RELAXED) + kept >= n_panels) {
        return -1;
    }
    const int64_t panel = __atomic_fetch_add(n_taken, 1, __ATOMIC_RELAXED);
    return panel < n_panels ? panel : -1;
}

// After a slice: all of its panels are done when the threads have met.
static inline void cpu_help_end(const cpu_team *team, int64_t slice) {
    cpu_meet(team);
    *cpu_n_taken(team, team->thread, slice) = 0;
}

#endif
