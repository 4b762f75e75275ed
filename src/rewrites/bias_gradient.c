// bias_gradient.c: the gradient of the bias that was added last to a layernorm's input.
//
//   dx = layernorm_backward(dy, x);  db += sum_n dx  =>  dx, db = layernorm_backward(dy, x)
//
// Equal because it is the same sum. It saves reading an (N,C) tensor. The same for residual_layernorm_backward.
#include "src/rewrites/passes.h"

// The code below treats both kinds alike.
_Static_assert(SM_OUT(residual_layernorm_backward, dx) == SM_OUT(layernorm_backward, dx) &&
                   SM_OUT(residual_layernorm_backward, dbias) == SM_OUT(layernorm_backward, dbias),
               "what is asked of both kinds");

static bool fuse(const sm_op *norm, const sm_op *bias, sm_op *fused) {
    const bool is_norm = norm->kind == SM_OP_LAYERNORM_BACKWARD || norm->kind == SM_OP_RESIDUAL_LAYERNORM_BACKWARD;
    if (!is_norm || bias->kind != SM_OP_BIAS_BACKWARD || norm->range != bias->range ||
        bias->in[SM_IN(bias_backward, dy)] != norm->out[SM_OUT(layernorm_backward, dx)]) {
        return false;
    }
    *fused = *norm;
    fused->out[SM_OUT(layernorm_backward, dbias)] = bias->out[SM_OUT(bias_backward, db)];
    return true;
}

sm_status sm_rewrite_bias_gradient(sm_plan *plan) {
    int n = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op *op = &plan->ops[i];
        sm_op fused = *op;
        if (i + 1 < plan->n_ops && fuse(op, op + 1, &fused)) {
            i++;
        }
        SM_TRY(sm_op_check(plan, &fused));
        plan->ops[n++] = fused;
    }
    plan->n_ops = n;
    return SM_OK;
}
