// geometry.h: each of a linear layer's three ops as a matmul c (m,n) = a (m,k) b (k,n).
//
//   matmul_forward          y  = x W        a = x,   b = W
//   matmul_backward_input   dx = dy W^T     a = dy,  b = W^T
//   matmul_backward_weight  dW = x^T dy     a = x^T, b = dy;  of a transposed W: dy^T x
#pragma once

#include "backends/host/memory.h"

// Element (i,j) of a is a[i * a_row + j * a_col]; one stride of each operand is 1. c has rows of n.
typedef struct {
    int64_t m, n, k;
    int64_t a_row, a_col;
    int64_t b_row, b_col;
    int a_in; // index of the op's input that is a; b is the other of the first two
} cpu_geometry;

static inline cpu_geometry cpu_geometry_of(const host_op *op) {
    const bool transposed = op->op->attr.w_transposed;
    cpu_geometry g = {.k = sm_tensor_cols(op->in_tensor[0])}; // x or dy
    if (op->op->kind == SM_OP_MATMUL_BACKWARD_WEIGHT) {
        g.a_in = transposed ? SM_IN(matmul_backward_weight, dy) : SM_IN(matmul_backward_weight, x);
        g.m = sm_tensor_cols(op->in_tensor[g.a_in]);
        g.n = sm_tensor_cols(op->in_tensor[1 - g.a_in]);
        g.k = sm_tensor_rows(op->in_tensor[SM_IN(matmul_backward_weight, x)]);
        g.a_row = 1;
        g.a_col = g.m;
        g.b_row = g.n;
        g.b_col = 1;
        return g;
    }
    // W is stored as (k,n), otherwise as (n,k).
    const bool w_is_kn = transposed == (op->op->kind == SM_OP_MATMUL_BACKWARD_INPUT);
    g.m = sm_tensor_rows(op->in_tensor[0]);
    g.n = sm_tensor_cols(op->out_tensor[0]);
    g.a_row = g.k;
    g.a_col = 1;
    g.b_row = w_is_kn ? g.n : 1;
    g.b_col = w_is_kn ? 1 : g.k;
    return g;
}
