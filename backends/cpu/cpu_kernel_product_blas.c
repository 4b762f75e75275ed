// cpu_kernel_product_blas.c: products by serial calls of OpenBLAS or oneDNN.
//
// The result is cut into one rectangle a thread, and each thread computes its own with one
// sgemm: no fork, no join, no sharing. What is done to the result afterwards is done
// by the thread that made it, panel by panel while the panel is in cache.
#include <cblas.h>

#include "cpu_math.h"
#include "cpu_onednn.h"
#include "cpu_product.h"
#include "cpu_rectangle.h"

typedef void (*serial_product)(const cpu_product *p, cpu_rectangle part);

static void call_blas(const cpu_product *p, cpu_rectangle part) {
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

// oneDNN's sgemm is of row-major matrices, too. It runs on the thread that calls it.
static void call_onednn(const cpu_product *p, cpu_rectangle part) {
    const int64_t m = part.rows.end - part.rows.first;
    const int64_t n = part.cols.end - part.cols.first;
    if (m <= 0 || n <= 0) {
        return;
    }
    const bool a_transposed = p->a_col != 1;
    const bool b_transposed = p->b_col != 1;
    cpu_onednn_one_thread();
    cpu_onednn.sgemm(a_transposed ? 'T' : 'N', b_transposed ? 'T' : 'N', m, n, p->k, 1.0f,
                     p->a + part.rows.first * p->a_row, a_transposed ? p->a_col : p->a_row,
                     p->b + part.cols.first * p->b_col, b_transposed ? p->b_col : p->b_row, p->add ? 1.0f : 0.0f,
                     p->c + part.rows.first * p->n + part.cols.first, p->n);
}

// The next panel of rows of `part` from row `first` on: so much that BLAS is efficient.
static cpu_rectangle panel_from(cpu_rectangle part, int64_t first) {
    enum { PANEL_ROWS = 512 };
    int64_t end = part.rows.end - first < 2 * PANEL_ROWS ? part.rows.end : first + PANEL_ROWS;
    return (cpu_rectangle){{first, end}, part.cols};
}

static void multiply_part(const cpu_product *p, const cpu_team *team, serial_product call) {
    const cpu_rectangle mine = cpu_rectangle_of(p->m, p->n, team->thread, team->n_threads);
    for (int64_t first = mine.rows.first; first < mine.rows.end;) {
        cpu_rectangle panel = panel_from(mine, first);
        call(p, panel);
        ISA(cpu_finish_product)(p, panel.rows, panel.cols);
        first = panel.rows.end;
    }
}

void ISA(cpu_multiply_blas)(const cpu_product *p, const cpu_team *team) { multiply_part(p, team, call_blas); }

void ISA(cpu_multiply_onednn)(const cpu_product *p, const cpu_team *team) { multiply_part(p, team, call_onednn); }
