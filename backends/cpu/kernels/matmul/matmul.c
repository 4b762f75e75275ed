// matmul.c: the three products of a linear layer.
//
// Our own packed kernels compute them if the instruction set has what they need (matmul/product.c; for narrow data, and
// with SME, matmul/product_bf16.c). On the baseline BLAS computes products of floats, by serial calls of each thread on
// its own part, since BLAS chooses its own instruction set. Mode tuned may choose otherwise, and --products openblas
// has BLAS compute all of them.

#include "backends/cpu/common/geometry.h"
#include "backends/cpu/common/product.h"

// For floats with SME, mode tuned also tries the products by vectors.
#if CPU_SME && !defined(CPU_DATA_NARROW)
#define TRIES_BASE 1
#else
#define TRIES_BASE 0
#endif

#if CPU_OWN_PRODUCTS || defined(CPU_DATA_NARROW)
static void multiply_by_default(const cpu_product *p, const cpu_team *team) { ISA(cpu_multiply)(p, team); }
static size_t scratch_bytes(int64_t m, int64_t n, int64_t k, int n_threads) {
    const size_t own_bytes = ISA(cpu_product_scratch)(m, n, k, n_threads);
    const size_t base_bytes = TRIES_BASE ? BASE_ISA(cpu_product_scratch)(m, n, k, n_threads) : 0;
    return own_bytes > base_bytes ? own_bytes : base_bytes;
}
#else
static void multiply_by_default(const cpu_product *p, const cpu_team *team) { ISA(cpu_multiply_blas)(p, team); }
static size_t scratch_bytes(SM_UNUSED int64_t m, SM_UNUSED int64_t n, SM_UNUSED int64_t k, SM_UNUSED int n_threads) {
    return 0;
}
#endif

// Multiplies by the chosen implementation, if one was chosen.
static void multiply(const cpu_product *p, const cpu_team *team) {
    switch (team->choice == NULL ? CPU_BY_DEFAULT : team->choice->method) {
#if !defined(CPU_DATA_NARROW) && !defined(CPU_SPLITS_FLOATS)
    case CPU_BY_OPENBLAS: BASE_ISA(cpu_multiply_blas)(p, team); break;
#endif
#if TRIES_BASE
    case CPU_BY_PACKED: BASE_ISA(cpu_multiply)(p, team); break;
#endif
    default: multiply_by_default(p, team); break;
    }
}

// y and dx are data: rounded where that is narrow. (dW is float always.)
static void set_result(cpu_product *p, void *result) {
#if defined(CPU_DATA_NARROW)
    p->rounded = result;
#else
    p->c = result;
#endif
}

static cpu_product product_of(const host_op *op) {
    const cpu_geometry g = cpu_geometry_of(op);
    return (cpu_product){
        .m = g.m,
        .n = g.n,
        .k = g.k,
        .a = op->in[g.a_in],
        .a_row = g.a_row,
        .a_col = g.a_col,
        .b = op->in[1 - g.a_in],
        .b_row = g.b_row,
        .b_col = g.b_col,
        .activation = sm_epilogue_activation(op->op->attr.epilogue),
    };
}

// y = x W, and the epilogues.
CPU_MATMUL(forward) {
    cpu_product p = product_of(op);
    set_result(&p, op->out[SM_OUT(matmul_forward, y)]);
    p.bias = op->in[SM_IN(matmul_forward, b)];
    p.act = op->out[SM_OUT(matmul_forward, act)];
    multiply(&p, team);
}

// dx = dy W^T, and the slope of an activation.
CPU_MATMUL(backward_input) {
    cpu_product p = product_of(op);
    set_result(&p, op->out[SM_OUT(matmul_backward_input, dx)]);
    p.pre = op->in[SM_IN(matmul_backward_input, pre)];
    multiply(&p, team);
}

// Offset of a part's sums of dy in its scratch, in floats: after the product's memory, which others may still read.
static int64_t sums_at(const host_op *op, int n_threads) {
    enum { LINE_BYTES = 64 };
    const cpu_geometry g = cpu_geometry_of(op);
    const int64_t n_lines = cpu_divide_up((int64_t)scratch_bytes(g.m, g.n, g.k, n_threads), LINE_BYTES);
    return n_lines * (LINE_BYTES / (int64_t)sizeof(float));
}

// dW (C,F) += x^T dy; transposed, dW (F,C) += dy^T x; or = where the op overwrites. db likewise, as in bias.c.
CPU_MATMUL(backward_weight) {
    cpu_product p = product_of(op);
    p.c = op->out[SM_OUT(matmul_backward_weight, dW)];
    p.add = !op->op->attr.overwrites;
    multiply(&p, team);
    if (op->out[SM_OUT(matmul_backward_weight, db)] != NULL) {
        BASE_ISA(cpu_sum_my_rows)(op, SM_IN(matmul_backward_weight, dy), sums_at(op, team->n_threads), team);
    }
}

CPU_MATMUL(backward_weight_finish) {
    float *db = op->out[SM_OUT(matmul_backward_weight, db)];
    const int64_t F = sm_tensor_cols(op->in_tensor[SM_IN(matmul_backward_weight, dy)]);
    const cpu_range mine = cpu_my_elems(team, F);
    if (op->op->attr.overwrites) {
        memset(db + mine.first, 0, (size_t)(mine.end - mine.first) * sizeof *db);
    }
    cpu_add_partials(team, sums_at(op, team->n_threads), F, db);
}

size_t ISA(cpu_matmul_scratch)(const host_op *op, int n_threads) {
    const sm_tensor *db = op->out_tensor[SM_OUT(matmul_backward_weight, db)];
    const bool has_sums = op->op->kind == SM_OP_MATMUL_BACKWARD_WEIGHT && db != NULL;
    return (size_t)(sums_at(op, n_threads) + (has_sums ? sm_tensor_elems(db) : 0)) * sizeof(float);
}
