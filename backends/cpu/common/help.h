// help.h: threads help each other with a matmul.
//
// Shared cores change their speed from moment to moment (on a machine with 16 of them, some had half the speed of
// others), and with fixed parts all threads wait for the slowest. So a thread's columns are taken panel by panel, by
// itself and then by threads that have finished: first by those with the same rows, which have packed them. A panel's
// sums do not depend on the thread. Two threads are equally fast, and do not help each other. Each time that all threads
// meet, all wait for the one that is slowest just then: so they meet only before something is read that others wrote.
// Panels of a slice of k add to those of the one before: they wait for these alone, which a helper may still compute.
#pragma once

#include "backends/cpu/common/kernel.h"

static inline bool cpu_helps(const cpu_team *team) { return team->n_threads > 2; }

// The thread to help in turn `turn`, in a grid in which grid_rows threads have the same columns; turn 0: itself.
static inline int cpu_helped(const cpu_team *team, int grid_rows, int turn) {
    const int grid_cols = team->n_threads / grid_rows;
    const int row = (team->thread / grid_cols + turn / grid_cols) % grid_rows;
    return row * grid_cols + (team->thread + turn) % grid_cols;
}

// The next of a thread's n_panels in each of n_slices, or -1: none is left. Packing another thread's rows for its last
// panel is not worthwhile.
static inline int64_t cpu_take_panel(const cpu_team *team, int thread, int grid_rows, int64_t round, int64_t n_panels,
                                     int64_t n_slices) {
    const int grid_cols = team->n_threads / grid_rows;
    const int64_t kept = thread / grid_cols == team->thread / grid_cols ? 0 : 1;
    const int64_t unit = cpu_pool_take(team->pool, thread, 2 * round + 1, n_panels * n_slices, kept);
    if (unit >= n_panels) {
        cpu_pool_await_units(team->pool, thread, 2 * round + 1, unit / n_panels * n_panels);
    }
    return unit;
}

static inline void cpu_end_panel(const cpu_team *team, int thread, int64_t round, int64_t n_slices) {
    if (n_slices > 1) {
        cpu_pool_end_unit(team->pool, thread, 2 * round + 1);
    }
}

// Before that, threads with the same columns pack them in small parts, a slow one fewer: the next of n_parts, or -1.
static inline int64_t cpu_take_packing(const cpu_team *team, int grid_col, int64_t round, int64_t n_parts) {
    return cpu_pool_take(team->pool, grid_col, 2 * round, n_parts, 0);
}
