// cpu_kernel_matmul.c: the three products of a linear layer.
//
// Where the instruction set has vectors of eight or more, our own packed kernels compute them
// (cpu_kernel_product.c); on the baseline BLAS does, by serial calls of each thread on its own part, since
// BLAS chooses its own instruction set. Of bf16 data our own kernels do (cpu_kernel_product_bf16.c). Mode tuned may
// choose otherwise.
#include "cpu_product.h"

#if defined(__AVX__) || defined(CPU_DATA_BF16)
static void multiply_by_default(const cpu_product *p, const cpu_team *team) { ISA(cpu_multiply)(p, team); }
static size_t scratch_bytes(int64_t m, int64_t n, int64_t k, int n_threads) {
    return ISA(cpu_product_scratch)(m, n, k, n_threads);
}
#else
static void multiply_by_default(const cpu_product *p, const cpu_team *team) { ISA(cpu_multiply_blas)(p, team); }
static size_t scratch_bytes(int64_t m, int64_t n, int64_t k, int n_threads) {
    (void)m;
    (void)n;
    (void)k;
    (void)n_threads;
    return 0;
}
#endif

// As it was chosen, where it was.
static void multiply(const cpu_product *p, const cpu_team *team) {
    switch (team->choice == NULL ? CPU_BY_DEFAULT : team->choice->method) {
#if !defined(CPU_DATA_BF16)
    case CPU_BY_OPENBLAS: ISA(cpu_multiply_blas)(p, team); break;
#endif
    case CPU_BY_ONEDNN: ISA(cpu_multiply_onednn)(p, team); break;
    default: multiply_by_default(p, team); break;
    }
}

// y and dx are data: rounded where that is bf16. (dW is float always.)
static void set_result(cpu_product *p, void *result) {
#if defined(CPU_DATA_BF16)
    p->rounded = result;
#else
    p->c = result;
#endif
}

// A product of the rows of op's first input with W, which lies in memory as (k,n) or, else, as (n,k).
static cpu_product rows_by_weight(const host_op *op, bool w_is_kn) {
    const int64_t n = sm_tensor_cols(op->out_tensor[0]);
    const int64_t k = sm_tensor_cols(op->in_tensor[0]);
    return (cpu_product){
        .m = sm_tensor_rows(op->in_tensor[0]),
        .n = n,
        .k = k,
        .a = op->in[0],
        .a_row = k,
        .a_col = 1,
        .b = op->in[1],
        .b_row = w_is_kn ? n : 1,
        .b_col = w_is_kn ? 1 : k,
    };
}

// y = x W, and the epilogues.
CPU_MATMUL(forward) {
    cpu_product p = rows_by_weight(op, !op->op->attr.w_transposed);
    set_result(&p, op->out[0]);
    p.bias = op->in[2];
    p.act = op->out[1];
    multiply(&p, team);
}

// dx = dy W^T, and gelu'.
CPU_MATMUL(backward_input) {
    cpu_product p = rows_by_weight(op, op->op->attr.w_transposed);
    set_result(&p, op->out[0]);
    p.pre = op->in[2];
    multiply(&p, team);
}

// dW (C,F) += x^T dy; transposed, dW (F,C) += dy^T x; or = where the op overwrites.
CPU_MATMUL(backward_weight) {
    const int left = op->op->attr.w_transposed ? 1 : 0;
    cpu_product p = {
        .m = sm_tensor_cols(op->in_tensor[left]),
        .n = sm_tensor_cols(op->in_tensor[1 - left]),
        .k = sm_tensor_rows(op->in_tensor[0]),
        .a = op->in[left],
        .b = op->in[1 - left],
        .c = op->out[0],
        .add = !op->op->attr.overwrites,
    };
    p.a_row = 1;
    p.a_col = p.m;
    p.b_row = p.n;
    p.b_col = 1;
    multiply(&p, team);
}

size_t ISA(cpu_matmul_scratch)(const host_op *op, int n_threads) {
    const bool is_weight = op->op->kind == SM_OP_MATMUL_BACKWARD_WEIGHT;
    const int left = op->op->attr.w_transposed ? 1 : 0;
    const int64_t rows = sm_tensor_rows(op->in_tensor[0]);
    if (is_weight) {
        return scratch_bytes(sm_tensor_cols(op->in_tensor[left]), sm_tensor_cols(op->in_tensor[1 - left]), rows,
                             n_threads);
    }
    return scratch_bytes(rows, sm_tensor_cols(op->out_tensor[0]), sm_tensor_cols(op->in_tensor[0]), n_threads);
}
