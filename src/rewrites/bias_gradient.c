// bias_gradient.c: the gradient of a bias, summed by the op next to it that has the same rows: the backward of the
// layernorm to whose input the bias was added last, or else the product that computes the weight's gradient.
//
//   dx = layernorm_backward(dy, x);  db += sum_n dx  =>  dx, db = layernorm_backward(dy, x)
//   db += sum_n dy;  dW += x^T dy                    =>  dW, db = matmul_backward_weight(x, dy)
//
// Equal because it is the same sum. It saves reading an (N,C) tensor, if the product sums it on its way. W is not
// transposed: then dy is the product's second matrix, whose columns are summed.
#include "src/rewrites/passes.h"

static bool fuse_norm(const sm_op *norm, const sm_op *bias, sm_op *fused) {
    if (norm->kind != SM_OP_LAYERNORM_BACKWARD || bias->kind != SM_OP_BIAS_BACKWARD || norm->range != bias->range ||
        bias->in[SM_IN(bias_backward, dy)] != norm->out[SM_OUT(layernorm_backward, dx)]) {
        return false;
    }
    *fused = *norm;
    fused->out[SM_OUT(layernorm_backward, dbias)] = bias->out[SM_OUT(bias_backward, db)];
    return true;
}

static bool fuse_product(const sm_op *bias, const sm_op *product, sm_op *fused) {
    if (bias->kind != SM_OP_BIAS_BACKWARD || product->kind != SM_OP_MATMUL_BACKWARD_WEIGHT ||
        product->attr.w_transposed || product->range != bias->range ||
        product->in[SM_IN(matmul_backward_weight, dy)] != bias->in[SM_IN(bias_backward, dy)]) {
        return false;
    }
    *fused = *product;
    fused->out[SM_OUT(matmul_backward_weight, db)] = bias->out[SM_OUT(bias_backward, db)];
    return true;
}

static int fuse(const sm_plan *plan, int i, sm_op *op) {
    const sm_op *one = &plan->ops[i];
    return i + 1 < plan->n_ops && (fuse_norm(one, one + 1, op) || fuse_product(one, one + 1, op));
}

sm_status sm_rewrite_bias_gradient(sm_plan *plan) { return sm_rewrite_fuse(plan, fuse); }
