// rectangle.h: the part of a matmul's result that a thread computes by serial calls of a library.
#ifndef STEPMARK_BACKENDS_CPU_COMMON_RECTANGLE_H
#define STEPMARK_BACKENDS_CPU_COMMON_RECTANGLE_H

#include "backends/cpu/common/kernel.h"

typedef struct {
    cpu_range rows;
    cpu_range cols;
} cpu_rectangle;

// Time of one m by n rectangle, up to a factor: the product itself, and the library's packing of the
// operands, which matters when the rectangle is narrow. The two weights are fitted to OpenBLAS on
// GPT-2's shapes: few columns cost more than few rows.
static inline double cpu_rectangle_cost(int64_t m, int64_t n) {
    return (double)m * (double)n + 16.0 * (double)n + 40.0 * (double)m;
}

// The rectangle of one thread: of all grids of n_threads cells, the one with the cheapest cell.
static inline cpu_rectangle cpu_rectangle_of(int64_t m, int64_t n, int thread, int n_threads) {
    enum { ROW_STEP = 8, COL_STEP = 16 };
    int best_rows = 1;
    double best_cost = -1;
    for (int grid_rows = 1; grid_rows <= n_threads; grid_rows++) {
        if (n_threads % grid_rows != 0) {
            continue;
        }
        cpu_range rows = cpu_split(m, ROW_STEP, 0, grid_rows); // part 0 is never the smallest
        cpu_range cols = cpu_split(n, COL_STEP, 0, n_threads / grid_rows);
        double cost = cpu_rectangle_cost(rows.end, cols.end);
        if (best_cost < 0 || cost < best_cost) {
            best_cost = cost;
            best_rows = grid_rows;
        }
    }
    int grid_cols = n_threads / best_rows;
    return (cpu_rectangle){cpu_split(m, ROW_STEP, thread / grid_cols, best_rows),
                           cpu_split(n, COL_STEP, thread % grid_cols, grid_cols)};
}

#endif
