// help.h: threads help each other with a matmul.
//
// Shared cores change their speed from moment to moment (on a machine with 16 of them, some had half the speed of
// others), and with fixed parts all threads wait for the slowest. So a thread's columns are taken panel by panel, by
// itself and then by threads that have finished: first by those with the same rows, which have packed them. A panel's
// sums do not depend on the thread. Two threads are equally fast, and do not help each other.
#ifndef STEPMARK_BACKENDS_CPU_COMMON_HELP_H
#define STEPMARK_BACKENDS_CPU_COMMON_HELP_H

#include "backends/cpu/common/kernel.h"

// The number of a thread's panels taken so far, in a slice of k and in the next: in its own cache line, at the start of
// its scratch.
enum { CPU_HELP_BYTES = 64 };

static inline bool cpu_helps(const cpu_team *team) { return team->n_threads > 2; }

static inline int64_t *cpu_n_taken(const cpu_team *team, int thread, int64_t slice) {
    return (int64_t *)team->scratch[thread] + slice % 2;
}

// Call before the first slice; the threads meet afterwards.
static inline void cpu_help_begin(const cpu_team *team) {
    *cpu_n_taken(team, team->thread, 0) = 0;
    *cpu_n_taken(team, team->thread, 1) = 0;
}

// The thread to help in turn `turn`, in a grid in which grid_rows threads have the same columns; turn 0: itself.
static inline int cpu_helped(const cpu_team *team, int grid_rows, int turn) {
    const int grid_cols = team->n_threads / grid_rows;
    const int row = (team->thread / grid_cols + turn / grid_cols) % grid_rows;
    return row * grid_cols + (team->thread + turn) % grid_cols;
}

// The next of a thread's n_panels, or -1: none is left. Packing another thread's rows for its last panel is not
// worthwhile.
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

// Call after a slice: all of its panels are done when the threads have met.
static inline void cpu_help_end(const cpu_team *team, int64_t slice) {
    cpu_meet(team);
    *cpu_n_taken(team, team->thread, slice) = 0;
}

#endif
