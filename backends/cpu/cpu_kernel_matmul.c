// cpu_kernel_matmul.c: the three products of a linear layer, by serial BLAS calls.
//
// The result is cut into one rectangle a thread, and each thread computes its own with one
// cblas_sgemm: no fork, no join, no sharing. What is done to the result afterwards is done
// by the thread that made it, panel by panel while the panel is in cache.
#include <cblas.h>

#include "cpu_kernel.h"
#include "cpu_math.h"

// c (m,n) = a' b', or += with `add`; a' is a (m,k), or the transpose of a (k,m); likewise b'.
typedef struct {
    int64_t m, n, k;
    const float *a;
    bool a_transposed;
    const float *b;
    bool b_transposed;
    float *c;
} product;

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

static void multiply(const product *g, rectangle part, bool add) {
    int64_t m = part.rows.end - part.rows.first;
    int64_t n = part.cols.end - part.cols.first;
    if (m <= 0 || n <= 0) {
        return;
    }
    const float *a = g->a + (g->a_transposed ? part.rows.first : part.rows.first * g->k);
    const float *b = g->b + (g->b_transposed ? part.cols.first * g->k : part.cols.first);
    cblas_sgemm(CblasRowMajor, g->a_transposed ? CblasTrans : CblasNoTrans, g->b_transposed ? CblasTrans : CblasNoTrans,
                (blasint)m, (blasint)n, (blasint)g->k, 1.0f, a, (blasint)(g->a_transposed ? g->m : g->k), b,
                (blasint)(g->b_transposed ? g->k : g->n), add ? 1.0f : 0.0f,
                g->c + part.rows.first * g->n + part.cols.first, (blasint)g->n);
}

// The next panel of rows of `part` from row `first` on: so much that BLAS is efficient.
static rectangle panel_from(rectangle part, int64_t first) {
    enum { PANEL_ROWS = 512 };
    int64_t end = part.rows.end - first < 2 * PANEL_ROWS ? part.rows.end : first + PANEL_ROWS;
    return (rectangle){{first, end}, part.cols};
}

// Rows of the panel start as the bias; the product is then added to them.
static void fill_bias(const product *g, rectangle part, const float *bias) {
    for (int64_t row = part.rows.first; row < part.rows.end; row++) {
        float *c = g->c + row * g->n;
#pragma omp simd
        for (int64_t col = part.cols.first; col < part.cols.end; col++) {
            c[col] = bias[col];
        }
    }
}

static void apply_gelu(const product *g, rectangle part, float *act) {
    for (int64_t row = part.rows.first; row < part.rows.end; row++) {
#pragma omp simd
        for (int64_t i = row * g->n + part.cols.first; i < row * g->n + part.cols.end; i++) {
            act[i] = cpu_gelu(g->c[i]);
        }
    }
}

static void apply_gelu_backward(const product *g, rectangle part, const float *pre) {
    for (int64_t row = part.rows.first; row < part.rows.end; row++) {
#pragma omp simd
        for (int64_t i = row * g->n + part.cols.first; i < row * g->n + part.cols.end; i++) {
            g->c[i] *= cpu_gelu_derivative(pre[i]);
        }
    }
}

CPU_KERNEL(matmul_forward) {
    const unsigned epilogue = op->op->attr.epilogue;
    product g = {
        .m = sm_tensor_rows(op->in_tensor[0]),
        .n = sm_tensor_cols(op->out_tensor[0]),
        .k = sm_tensor_cols(op->in_tensor[0]),
        .a = op->in[0],
        .b = op->in[1],
        .b_transposed = op->op->attr.w_transposed,
        .c = op->out[0],
    };
    rectangle mine = my_rectangle(g.m, g.n, team);
    for (int64_t first = mine.rows.first; first < mine.rows.end;) {
        rectangle panel = epilogue & SM_EPILOGUE_GELU ? panel_from(mine, first) : mine;
        if (epilogue & SM_EPILOGUE_BIAS) {
            fill_bias(&g, panel, op->in[2]);
        }
        multiply(&g, panel, (epilogue & SM_EPILOGUE_BIAS) != 0);
        if (epilogue & SM_EPILOGUE_GELU) {
            apply_gelu(&g, panel, op->out[1]);
        }
        first = panel.rows.end;
    }
}

CPU_KERNEL(matmul_backward_input) {
    const unsigned epilogue = op->op->attr.epilogue;
    product g = {
        .m = sm_tensor_rows(op->in_tensor[0]),
        .n = sm_tensor_cols(op->out_tensor[0]),
        .k = sm_tensor_cols(op->in_tensor[0]),
        .a = op->in[0],
        .b = op->in[1],
        .b_transposed = !op->op->attr.w_transposed,
        .c = op->out[0],
    };
    rectangle mine = my_rectangle(g.m, g.n, team);
    for (int64_t first = mine.rows.first; first < mine.rows.end;) {
        rectangle panel = epilogue & SM_EPILOGUE_GELU_BACKWARD ? panel_from(mine, first) : mine;
        multiply(&g, panel, false);
        if (epilogue & SM_EPILOGUE_GELU_BACKWARD) {
            apply_gelu_backward(&g, panel, op->in[2]);
        }
        first = panel.rows.end;
    }
}

// dW (C,F) += x^T dy; transposed, dW (F,C) += dy^T x.
CPU_KERNEL(matmul_backward_weight) {
    const bool swapped = op->op->attr.w_transposed;
    const int left = swapped ? 1 : 0;
    product g = {
        .m = sm_tensor_cols(op->in_tensor[left]),
        .n = sm_tensor_cols(op->in_tensor[1 - left]),
        .k = sm_tensor_rows(op->in_tensor[0]),
        .a = op->in[left],
        .a_transposed = true,
        .b = op->in[1 - left],
        .c = op->out[0],
    };
    multiply(&g, my_rectangle(g.m, g.n, team), true);
}
