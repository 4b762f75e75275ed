// product_blas.c: products by serial calls of OpenBLAS or oneDNN.
//
// The result is cut into one rectangle a thread, and each thread computes its own with one
// sgemm: no fork, no join, no sharing. The result is finished by the thread
// that made it, panel by panel while the panel is in cache.
#include "backends/cpu/blas.h"
#include "backends/cpu/common/math.h"
#include "backends/cpu/common/product.h"
#include "backends/cpu/common/rectangle.h"
#include "backends/cpu/onednn.h"

// A row-major product as sgemm takes it: c (m,n) = op(a) (m,k) op(b) (k,n), transposed or not.
typedef struct {
    int64_t m, n, k;
    bool a_transposed, b_transposed;
    const float *a, *b;
    int64_t lda, ldb, ldc;
    float beta; // 1: added to c
    float *c;
} sgemm;

typedef void (*serial_sgemm)(const sgemm *g);

static void call_blas(const sgemm *g) {
    cpu_blas.sgemm(CPU_BLAS_ROW_MAJOR, g->a_transposed ? CPU_BLAS_TRANSPOSED : CPU_BLAS_PLAIN,
                   g->b_transposed ? CPU_BLAS_TRANSPOSED : CPU_BLAS_PLAIN, (int)g->m, (int)g->n, (int)g->k, 1.0f, g->a,
                   (int)g->lda, g->b, (int)g->ldb, g->beta, g->c, (int)g->ldc);
}

// oneDNN's sgemm is of row-major matrices, too. It runs on the thread that calls it.
static void call_onednn(const sgemm *g) {
    cpu_onednn_one_thread();
    cpu_onednn.sgemm(g->a_transposed ? 'T' : 'N', g->b_transposed ? 'T' : 'N', g->m, g->n, g->k, 1.0f, g->a, g->lda,
                     g->b, g->ldb, g->beta, g->c, g->ldc);
}

static void multiply_rectangle(const cpu_product *p, cpu_rectangle part, serial_sgemm call) {
    const sgemm g = {
        .m = part.rows.end - part.rows.first,
        .n = part.cols.end - part.cols.first,
        .k = p->k,
        .a_transposed = p->a_col != 1,
        .b_transposed = p->b_col != 1,
        .a = p->a + part.rows.first * p->a_row,
        .lda = p->a_col != 1 ? p->a_col : p->a_row,
        .b = p->b + part.cols.first * p->b_col,
        .ldb = p->b_col != 1 ? p->b_col : p->b_row,
        .beta = p->add ? 1.0f : 0.0f,
        .c = p->c + part.rows.first * p->n + part.cols.first,
        .ldc = p->n,
    };
    if (g.m > 0 && g.n > 0) {
        call(&g);
    }
}

// The next panel of rows of `part` from row `first` on: so much that BLAS is efficient.
static cpu_rectangle panel_from(cpu_rectangle part, int64_t first) {
    enum { PANEL_ROWS = 512 };
    int64_t end = part.rows.end - first < 2 * PANEL_ROWS ? part.rows.end : first + PANEL_ROWS;
    return (cpu_rectangle){{first, end}, part.cols};
}

static void multiply_part(const cpu_product *p, const cpu_team *team, serial_sgemm call) {
    const cpu_rectangle mine = cpu_rectangle_of(p->m, p->n, team->thread, team->n_threads);
    for (int64_t first = mine.rows.first; first < mine.rows.end;) {
        cpu_rectangle panel = panel_from(mine, first);
        multiply_rectangle(p, panel, call);
        ISA(cpu_finish_product)(p, panel.rows, panel.cols);
        first = panel.rows.end;
    }
}

void ISA(cpu_multiply_blas)(const cpu_product *p, const cpu_team *team) { multiply_part(p, team, call_blas); }

void ISA(cpu_multiply_onednn)(const cpu_product *p, const cpu_team *team) { multiply_part(p, team, call_onednn); }
