// residual_layernorm.c: fuses the residual stream's sum with the layernorm or rmsnorm next to it.
//
//   r = a + b;  y = layernorm(r)                  =>  r, y = residual_layernorm_forward(a, b)
//   g = layernorm_backward(dy, x);  dx = skip + g =>  dx = residual_layernorm_backward(dy, x, skip)
//
// Equal because both work row by row. It saves writing and reading an (N,C) tensor.
#include "src/rewrites/passes.h"

static void fuse_layernorm_forward(const sm_op *residual, const sm_op *layernorm, sm_op *fused) {
    fused->kind = SM_OP_RESIDUAL_LAYERNORM_FORWARD;
    fused->in[SM_IN(residual_layernorm_forward, a)] = residual->in[SM_IN(residual, a)];
    fused->in[SM_IN(residual_layernorm_forward, b)] = residual->in[SM_IN(residual, b)];
    fused->in[SM_IN(residual_layernorm_forward, w)] = layernorm->in[SM_IN(layernorm_forward, w)];
    fused->in[SM_IN(residual_layernorm_forward, beta)] = layernorm->in[SM_IN(layernorm_forward, b)];
    fused->out[SM_OUT(residual_layernorm_forward, r)] = residual->out[SM_OUT(residual, y)];
    fused->out[SM_OUT(residual_layernorm_forward, y)] = layernorm->out[SM_OUT(layernorm_forward, y)];
    fused->out[SM_OUT(residual_layernorm_forward, mean)] = layernorm->out[SM_OUT(layernorm_forward, mean)];
    fused->out[SM_OUT(residual_layernorm_forward, rstd)] = layernorm->out[SM_OUT(layernorm_forward, rstd)];
}

static void fuse_rmsnorm_forward(const sm_op *residual, const sm_op *rmsnorm, sm_op *fused) {
    fused->kind = SM_OP_RESIDUAL_RMSNORM_FORWARD;
    fused->in[SM_IN(residual_rmsnorm_forward, a)] = residual->in[SM_IN(residual, a)];
    fused->in[SM_IN(residual_rmsnorm_forward, b)] = residual->in[SM_IN(residual, b)];
    fused->in[SM_IN(residual_rmsnorm_forward, w)] = rmsnorm->in[SM_IN(rmsnorm_forward, w)];
    fused->out[SM_OUT(residual_rmsnorm_forward, r)] = residual->out[SM_OUT(residual, y)];
    fused->out[SM_OUT(residual_rmsnorm_forward, y)] = rmsnorm->out[SM_OUT(rmsnorm_forward, y)];
    fused->out[SM_OUT(residual_rmsnorm_forward, rstd)] = rmsnorm->out[SM_OUT(rmsnorm_forward, rstd)];
}

// The code below treats both norms alike.
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
    if (norm->kind == SM_OP_LAYERNORM_FORWARD) {
        fuse_layernorm_forward(residual, norm, fused);
    } else {
        fuse_rmsnorm_forward(residual, norm, fused);
    }
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
    fused->out[SM_OUT(layernorm_backward, dx)] = residual->out[SM_OUT(residual, y)];
    if (norm->kind == SM_OP_LAYERNORM_BACKWARD) {
        fused->kind = SM_OP_RESIDUAL_LAYERNORM_BACKWARD;
        fused->in[SM_IN(residual_layernorm_backward, dskip)] = residual->in[SM_IN(residual, a)];
    } else {
        fused->kind = SM_OP_RESIDUAL_RMSNORM_BACKWARD;
        fused->in[SM_IN(residual_rmsnorm_backward, dskip)] = residual->in[SM_IN(residual, a)];
    }
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
