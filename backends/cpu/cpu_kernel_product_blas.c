// cpu_kernel_product_blas.c: products by serial calls of OpenBLAS or oneDNN.
//
// The result is cut into one rectangle a thread, and each thread computes its own with one
// sgemm: no fork, no join, no sharing. What is done to the result afterwards is done
// by the thread that made it, panel by panel while the panel is in cache.
#include <cblas.h>

#include "cpu_math.h"
#include "cpu_onednn.h"
#include "cpu_product.h"

typedef struct {
    cpu_range rows;
    cpu_range cols;
} rectangle;

// Time of one m by n rectangle, up to a factor: the product itself, and BLAS's packing of the
// operands, which matters when the rectangle is narrow. The two weights are fitted to OpenBLAS on
// GPT-2's shapes: few columns cost more than few rows.
static double rectangle_cost(int64_t m, int64_t n) {
    return (double)m * (double)n + 16.0 * (double)n + 40.0 * (double)m;
}

// This thread's rectangle: of all grids of n_threads cells, the one with the cheapest cell.
static rectangle my_rectangle(int64_t m, int64_t n, const cpu_team *team) {
    enum { ROW_STEP = 8, COL_STEP = 16 };
    int best_rows = 1;
    double best_cost = -1;
    for (int grid_rows = 1; grid_rows <= team->n_threads; grid_rows++) {
        if (team->n_threads % grid_rows != 0) {
            continue;
        }
        cpu_range rows = cpu_split(m, ROW_STEP, 0, grid_rows); // part 0 is never the smallest
        cpu_range cols = cpu_split(n, COL_STEP, 0, team->n_threads / grid_rows);
        double cost = rectangle_cost(rows.end, cols.end);
        if (best_cost < 0 || cost < best_cost) {
            best_cost = cost;
            best_rows = grid_rows;
        }
    }
    int grid_cols = team->n_threads / best_rows;
    return (rectangle){cpu_split(m, ROW_STEP, team->thread / grid_cols, best_rows),
                       cpu_split(n, COL_STEP, team->thread % grid_cols, grid_cols)};
}

typedef void (*serial_product)(const cpu_product *p, rectangle part);

static void call_blas(const cpu_product *p, rectangle part) {
    const int64_t m = part.rows.end - part.rows.first;
    const int64_t n = part.cols.end - part.cols.first;
    if (m <= 0 || n <= 0) {
        return;
    }
    const bool a_transposed = p->a_col != 1;
    const bool b_transposed = p->b_col != 1;
    cblas_sgemm(CblasRowMajor, a_transposed ? CblasTrans : CblasNoTrans, b_transposed ? CblasTrans : CblasNoTrans,
                (blasint)m, (blasint)n, (blasint)p->k, 1.0f, p->a + part.rows.first * p->a_row,
                (blasint)(a_transposed ? p->a_col : p->a_row), p->b + part.cols.first * p->b_col,
                (blasint)(b_transposed ? p->b_col : p->b_row), p->add ? 1.0f : 0.0f,
                p->c + part.rows.first * p->n + part.cols.first, (blasint)p->n);
}

// oneDNN's sgemm is of row-major matrices, too. Inside a parallel region it runs on the thread that calls it.
static void call_onednn(const cpu_product *p, rectangle part) {
    const int64_t m = part.rows.end - part.rows.first;
    const int64_t n = part.cols.end - part.cols.first;
    if (m <= 0 || n <= 0) {
        return;
    }
    const bool a_transposed = p->a_col != 1;
    const bool b_transposed = p->b_col != 1;
    cpu_onednn.sgemm(a_transposed ? 'T' : 'N', b_transposed ? 'T' : 'N', m, n, p->k, 1.0f,
                     p->a + part.rows.first * p->a_row, a_transposed ? p->a_col : p->a_row,
                     p->b + part.cols.first * p->b_col, b_transposed ? p->b_col : p->b_row, p->add ? 1.0f : 0.0f,
                     p->c + part.rows.first * p->n + part.cols.first, p->n);
}

// The next panel of rows of `part` from row `first` on: so much that BLAS is efficient.
static rectangle panel_from(rectangle part, int64_t first) {
    enum { PANEL_ROWS = 512 };
    int64_t end = part.rows.end - first < 2 * PANEL_ROWS ? part.rows.end : first + PANEL_ROWS;
    return (rectangle){{first, end}, part.cols};
}

static void multiply_part(const cpu_product *p, const cpu_team *team, serial_product call) {
    const rectangle mine = my_rectangle(p->m, p->n, team);
    for (int64_t first = mine.rows.first; first < mine.rows.end;) {
        rectangle panel = panel_from(mine, first);
        call(p, panel);
        ISA(cpu_finish_product)(p, panel.rows, panel.cols);
        first = panel.rows.end;
    }
}

void ISA(cpu_multiply_blas)(const cpu_product *p, const cpu_team *team) { multiply_part(p, team, call_blas); }

void ISA(cpu_multiply_onednn)(const cpu_product *p, const cpu_team *team) { multiply_part(p, team, call_onednn); }
