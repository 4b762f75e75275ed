// product_blas.c: products by serial calls of OpenBLAS.
//
// The result is cut into one rectangle a thread, and each thread computes its own with one
// sgemm: no fork, no join, no sharing. The result is finished by the thread
// that made it, panel by panel while the panel is in cache.
#include "backends/cpu/blas.h"
#include "backends/cpu/common/math.h"
#include "backends/cpu/common/product.h"
#include "backends/cpu/common/rectangle.h"

static void multiply_rectangle(const cpu_product *p, cpu_rectangle part) {
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

// The next panel of rows of `part` from row `first` on: so much that BLAS is efficient.
static cpu_rectangle panel_from(cpu_rectangle part, int64_t first) {
    enum { PANEL_ROWS = 512 };
    int64_t end = part.rows.end - first < 2 * PANEL_ROWS ? part.rows.end : first + PANEL_ROWS;
    return (cpu_rectangle){{first, end}, part.cols};
}

void ISA(cpu_multiply_blas)(const cpu_product *p, const cpu_team *team) {
    const cpu_rectangle mine = cpu_rectangle_of(p->m, p->n, team->thread, team->n_threads);
    for (int64_t first = mine.rows.first; first < mine.rows.end;) {
        cpu_rectangle panel = panel_from(mine, first);
        multiply_rectangle(p, panel);
        ISA(cpu_finish_product)(p, panel.rows, panel.cols);
        first = panel.rows.end;
    }
}
