// product_blas.c: products by serial calls of OpenBLAS.
//
// The result is cut into one rectangle a thread, and each thread computes its own with one sgemm: no fork, no join, no
// sharing. The result is finished by the thread that made it, panel by panel while the panel is in cache.
#include "backends/cpu/blas.h"
#include "backends/cpu/common/product.h"

typedef struct {
    cpu_range rows;
    cpu_range cols;
} rectangle;

// Time of one m by n rectangle, up to a factor: the product itself, and the library's packing of the
// operands, which matters when the rectangle is narrow. The two weights are fitted to OpenBLAS on
// GPT-2's shapes: few columns cost more than few rows.
static double cost_of(int64_t m, int64_t n) { return (double)m * (double)n + 16.0 * (double)n + 40.0 * (double)m; }

// The rectangle of one thread: of all grids of n_threads cells, the one with the cheapest cell.
static rectangle rectangle_of(int64_t m, int64_t n, int thread, int n_threads) {
    enum { ROW_STEP = 8, COL_STEP = 16 };
    int best_rows = 1;
    double best_cost = -1;
    for (int grid_rows = 1; grid_rows <= n_threads; grid_rows++) {
        if (n_threads % grid_rows != 0) {
            continue;
        }
        cpu_range rows = cpu_split(m, ROW_STEP, 0, grid_rows); // part 0 is never the smallest
        cpu_range cols = cpu_split(n, COL_STEP, 0, n_threads / grid_rows);
        double cost = cost_of(rows.end, cols.end);
        if (best_cost < 0 || cost < best_cost) {
            best_cost = cost;
            best_rows = grid_rows;
        }
    }
    int grid_cols = n_threads / best_rows;
    return (rectangle){cpu_split(m, ROW_STEP, thread / grid_cols, best_rows),
                       cpu_split(n, COL_STEP, thread % grid_cols, grid_cols)};
}

static void multiply_rectangle(const cpu_product *p, rectangle part) {
    const int64_t m = part.rows.end - part.rows.first, n = part.cols.end - part.cols.first;
    const bool a_transposed = p->a_col != 1, b_transposed = p->b_col != 1;
    if (m > 0 && n > 0) {
        cpu_blas.sgemm(CPU_BLAS_ROW_MAJOR, a_transposed ? CPU_BLAS_TRANSPOSED : CPU_BLAS_PLAIN,
                       b_transposed ? CPU_BLAS_TRANSPOSED : CPU_BLAS_PLAIN, (int)m, (int)n, (int)p->k, 1.0f,
                       p->a + part.rows.first * p->a_row, (int)(a_transposed ? p->a_col : p->a_row),
                       p->b + part.cols.first * p->b_col, (int)(b_transposed ? p->b_col : p->b_row),
                       p->add ? 1.0f : 0.0f, p->c + part.rows.first * p->n + part.cols.first, (int)p->n);
    }
}

void ISA(cpu_multiply_blas)(const cpu_product *p, const cpu_team *team) {
    const rectangle mine = rectangle_of(p->m, p->n, team->thread, team->n_threads);
    enum { PANEL_ROWS = 512 }; // or more: so many that BLAS is efficient
    rectangle panel = {.cols = mine.cols};
    for (int64_t first = mine.rows.first; first < mine.rows.end; first = panel.rows.end) {
        panel.rows = (cpu_range){first, mine.rows.end - first < 2 * PANEL_ROWS ? mine.rows.end : first + PANEL_ROWS};
        multiply_rectangle(p, panel);
        ISA(cpu_finish_product)(p, panel.rows, panel.cols);
    }
}
