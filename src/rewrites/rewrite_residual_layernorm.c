// rewrite_residual_layernorm.c: the residual stream's sum and the layernorm beside it.
//
//   r = a + b;  y = layernorm(r)                  =>  r, y = residual_layernorm_forward(a, b)
//   g = layernorm_backward(dy, x);  dx = skip + g =>  dx = residual_layernorm_backward(dy, x, skip)
//
// Equal because both work row by row. It saves writing and reading an (N,C) tensor.
#include "rewrite_passes.h"

static bool fuse_forward(const sm_op *residual, const sm_op *layernorm, sm_op *fused) {
    if (residual->kind != SM_OP_RESIDUAL || layernorm->kind != SM_OP_LAYERNORM_FORWARD ||
        layernorm->in[SM_IN(layernorm_forward, x)] != residual->out[SM_OUT(residual, y)]) {
        return false;
    }
    *fused = *layernorm;
    fused->kind = SM_OP_RESIDUAL_LAYERNORM_FORWARD;
    fused->in[SM_IN(residual_layernorm_forward, a)] = residual->in[SM_IN(residual, a)];
    fused->in[SM_IN(residual_layernorm_forward, b)] = residual->in[SM_IN(residual, b)];
    fused->in[SM_IN(residual_layernorm_forward, w)] = layernorm->in[SM_IN(layernorm_forward, w)];
    fused->in[SM_IN(residual_layernorm_forward, beta)] = layernorm->in[SM_IN(layernorm_forward, b)];
    fused->out[SM_OUT(residual_layernorm_forward, r)] = residual->out[SM_OUT(residual, y)];
    fused->out[SM_OUT(residual_layernorm_forward, y)] = layernorm->out[SM_OUT(layernorm_forward, y)];
    fused->out[SM_OUT(residual_layernorm_forward, mean)] = layernorm->out[SM_OUT(layernorm_forward, mean)];
    fused->out[SM_OUT(residual_layernorm_forward, rstd)] = layernorm->out[SM_OUT(layernorm_forward, rstd)];
    return true;
}

static bool fuse_backward(const sm_plan *plan, const sm_op *layernorm, const sm_op *residual, sm_op *fused) {
    if (layernorm->kind != SM_OP_LAYERNORM_BACKWARD || residual->kind != SM_OP_RESIDUAL ||
        residual->in[SM_IN(residual, b)] != layernorm->out[SM_OUT(layernorm_backward, dx)] ||
        sm_rewrite_n_readers(plan, layernorm->out[SM_OUT(layernorm_backward, dx)]) != 1) {
        return false;
    }
    *fused = *layernorm;
    fused->kind = SM_OP_RESIDUAL_LAYERNORM_BACKWARD;
    fused->in[SM_IN(residual_layernorm_backward, dskip)] = residual->in[SM_IN(residual, a)];
    fused->out[SM_OUT(residual_layernorm_backward, dx)] = residual->out[SM_OUT(residual, y)];
    return true;
}

sm_status sm_rewrite_residual_layernorm(sm_plan *plan) {
    int n = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op *op = &plan->ops[i];
        sm_op fused = *op;
        if (i + 1 < plan->n_ops && (fuse_forward(op, op + 1, &fused) || fuse_backward(plan, op, op + 1, &fused))) {
            i++;
        }
        SM_TRY(sm_op_check(plan, &fused));
        plan->ops[n++] = fused;
    }
    plan->n_ops = n;
    return SM_OK;
}
