// cpu_kernel_matmul.c: the three products of a linear layer.
//
// Where the instruction set has vectors of eight or more, our own packed kernels compute them
// (cpu_kernel_product.c); on the baseline BLAS does, by serial calls of each thread on its own part, since
// BLAS chooses its own instruction set.
#include "cpu_product.h"

#if defined(__AVX__)
static void multiply(const cpu_product *p, const cpu_team *team) { ISA(cpu_multiply)(p, team); }
static size_t scratch_bytes(int64_t m, int n_threads) { return ISA(cpu_product_scratch)(m, n_threads); }
#else
static void multiply(const cpu_product *p, const cpu_team *team) { ISA(cpu_multiply_blas)(p, team); }
static size_t scratch_bytes(int64_t m, int n_threads) {
    (void)m;
    (void)n_threads;
    return 0;
}
#endif

// y = x W, and the epilogues.
CPU_KERNEL(matmul_forward) {
    const bool swapped = op->op->attr.w_transposed;
    cpu_product p = {
        .m = sm_tensor_rows(op->in_tensor[0]),
        .n = sm_tensor_cols(op->out_tensor[0]),
        .k = sm_tensor_cols(op->in_tensor[0]),
        .a = op->in[0],
        .b = op->in[1],
        .c = op->out[0],
        .bias = op->in[2],
        .act = op->out[1],
    };
    p.a_row = p.k;
    p.a_col = 1;
    p.b_row = swapped ? 1 : p.n;
    p.b_col = swapped ? p.k : 1;
    multiply(&p, team);
}

// dx = dy W^T, and gelu'.
CPU_KERNEL(matmul_backward_input) {
    const bool swapped = op->op->attr.w_transposed;
    cpu_product p = {
        .m = sm_tensor_rows(op->in_tensor[0]),
        .n = sm_tensor_cols(op->out_tensor[0]),
        .k = sm_tensor_cols(op->in_tensor[0]),
        .a = op->in[0],
        .b = op->in[1],
        .c = op->out[0],
        .pre = op->in[2],
    };
    p.a_row = p.k;
    p.a_col = 1;
    p.b_row = swapped ? p.n : 1;
    p.b_col = swapped ? 1 : p.k;
    multiply(&p, team);
}

// dW (C,F) += x^T dy; transposed, dW (F,C) += dy^T x.
CPU_KERNEL(matmul_backward_weight) {
    const int left = op->op->attr.w_transposed ? 1 : 0;
    cpu_product p = {
        .m = sm_tensor_cols(op->in_tensor[left]),
        .n = sm_tensor_cols(op->in_tensor[1 - left]),
        .k = sm_tensor_rows(op->in_tensor[0]),
        .a = op->in[left],
        .b = op->in[1 - left],
        .c = op->out[0],
        .add = true,
    };
    p.a_row = 1;
    p.a_col = p.m;
    p.b_row = p.n;
    p.b_col = 1;
    multiply(&p, team);
}

CPU_SCRATCH(matmul) {
    const bool is_weight = op->op->kind == SM_OP_MATMUL_BACKWARD_WEIGHT;
    const int left = op->op->attr.w_transposed ? 1 : 0;
    const int64_t m = is_weight ? sm_tensor_cols(op->in_tensor[left]) : sm_tensor_rows(op->in_tensor[0]);
    return scratch_bytes(m, n_threads);
}
