// residual_layernorm.c: fuses the residual stream's sum with the layernorm or rmsnorm next to it.
//
//   r = a + b;  y = layernorm(r)                  =>  r, y = layernorm_forward(a, add b)
//   g = layernorm_backward(dy, x);  dx = skip + g =>  dx = layernorm_backward(dy, x, dskip)
//
// Equal because both work row by row. It saves writing and reading an (N,C) tensor.
#include "src/rewrites/passes.h"

// Both norms have these operands at the same indices.
_Static_assert(SM_IN(rmsnorm_forward, x) == SM_IN(layernorm_forward, x) &&
                   SM_OUT(rmsnorm_backward, dx) == SM_OUT(layernorm_backward, dx),
               "what is asked of both norms");

static bool fuse_forward(const sm_op *residual, const sm_op *norm, sm_op *fused) {
    const bool is_norm = norm->kind == SM_OP_LAYERNORM_FORWARD || norm->kind == SM_OP_RMSNORM_FORWARD;
    if (residual->kind != SM_OP_RESIDUAL || !is_norm ||
        norm->in[SM_IN(layernorm_forward, x)] != residual->out[SM_OUT(residual, y)]) {
        return false;
    }
    *fused = *norm;
    fused->in[SM_IN(layernorm_forward, x)] = residual->in[SM_IN(residual, a)];
    fused->in[sm_op_find_in(norm->kind, "add")] = residual->in[SM_IN(residual, b)];
    fused->out[sm_op_find_out(norm->kind, "r")] = residual->out[SM_OUT(residual, y)];
    return true;
}

static bool fuse_backward(const sm_plan *plan, const sm_op *norm, const sm_op *residual, sm_op *fused) {
    const bool is_norm = norm->kind == SM_OP_LAYERNORM_BACKWARD || norm->kind == SM_OP_RMSNORM_BACKWARD;
    if (!is_norm || residual->kind != SM_OP_RESIDUAL ||
        residual->in[SM_IN(residual, b)] != norm->out[SM_OUT(layernorm_backward, dx)] ||
        sm_rewrite_n_readers(plan, norm->out[SM_OUT(layernorm_backward, dx)]) != 1) {
        return false;
    }
    *fused = *norm;
    fused->in[sm_op_find_in(norm->kind, "dskip")] = residual->in[SM_IN(residual, a)];
    fused->out[SM_OUT(layernorm_backward, dx)] = residual->out[SM_OUT(residual, y)];
    return true;
}

static int fuse(const sm_plan *plan, int i, sm_op *op) {
    const sm_op *one = &plan->ops[i];
    return i + 1 < plan->n_ops && (fuse_forward(one, one + 1, op) || fuse_backward(plan, one, one + 1, op));
}

sm_status sm_rewrite_residual_layernorm(sm_plan *plan) { return sm_rewrite_fuse(plan, fuse); }
