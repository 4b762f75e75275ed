// rewrite_residual_layernorm.c: the residual stream's sum and the layernorm beside it.
//
//   r = a + b;  y = layernorm(r)                  =>  r, y = residual_layernorm_forward(a, b)
//   g = layernorm_backward(dy, x);  dx = skip + g =>  dx = residual_layernorm_backward(dy, x, skip)
//
// Equal because both work row by row. It saves writing and reading an (N,C) tensor.
#include "rewrite_passes.h"

static bool fuse_forward(const sm_op *residual, const sm_op *layernorm, sm_op *fused) {
    if (residual->kind != SM_OP_RESIDUAL || layernorm->kind != SM_OP_LAYERNORM_FORWARD ||
        layernorm->in[0] != residual->out[0]) {
        return false;
    }
    *fused = *layernorm;
    fused->kind = SM_OP_RESIDUAL_LAYERNORM_FORWARD;
    fused->in[0] = residual->in[0];
    fused->in[1] = residual->in[1];
    fused->in[2] = layernorm->in[1];
    fused->in[3] = layernorm->in[2];
    fused->out[0] = residual->out[0];
    for (int i = 0; i < 3; i++) {
        fused->out[i + 1] = layernorm->out[i];
    }
    return true;
}

static bool fuse_backward(const sm_plan *plan, const sm_op *layernorm, const sm_op *residual, sm_op *fused) {
    if (layernorm->kind != SM_OP_LAYERNORM_BACKWARD || residual->kind != SM_OP_RESIDUAL ||
        residual->in[1] != layernorm->out[0] || sm_rewrite_n_readers(plan, layernorm->out[0]) != 1) {
        return false;
    }
    *fused = *layernorm;
    fused->kind = SM_OP_RESIDUAL_LAYERNORM_BACKWARD;
    fused->in[5] = residual->in[0];
    fused->out[0] = residual->out[0];
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
