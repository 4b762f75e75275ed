// recompute.c: computes cheap results again in the backward instead of keeping them.
//
//   forward   y, mean, rstd = layernorm(x)      y, mean, rstd = layernorm(x)
//   ...                                     =>  ...
//                                               y', mean', rstd' = layernorm(x)
//   backward  dW += y^T dz                      dW += y'^T dz
//
// and rmsnorm(x), act = gelu(fc) and swiglu(gate, up) likewise, also inside a fused op. Equal because the op is the
// same and its inputs are kept for other readers (Chen et al. 2016, "Training deep nets with sublinear memory cost",
// section 4.2). y then lives for two ops in forward and two in backward, as y' in scratch memory that all layers share.
// A block of GPT-2 then keeps 10 (N,C) instead of 16: it drops ln1, ln2 and the four of gelu.
#include "src/rewrites/passes.h"

// The op that recomputes a forward op's cheap output, as its out[0]. False: there is none.
static bool cheap_part(const sm_op *op, sm_op *part) {
    if (sm_op_get_info(op->kind)->is_cheap) {
        *part = *op;
        part->phase = SM_PHASE_BACKWARD;
        part->range = SM_PHASE_BACKWARD;
        if (sm_op_tensor(op, "r") != SM_NO_TENSOR) { // a norm of the residual's sum, which is there
            part->in[sm_op_find_in(op->kind, "x")] = sm_op_tensor(op, "r");
            part->in[sm_op_find_in(op->kind, "add")] = SM_NO_TENSOR;
            part->out[sm_op_find_out(op->kind, "r")] = SM_NO_TENSOR;
        }
        return true;
    }
    if (op->kind == SM_OP_MATMUL_FORWARD && op->attr.epilogue & SM_EPILOGUE_ACT) { // y, gelu(y) = x W + b
        const sm_activation activation = sm_epilogue_activation(op->attr.epilogue);
        *part = sm_op_make(sm_activation_get_info(activation)->forward, SM_PHASE_BACKWARD, op->layer);
        part->in[SM_IN(gelu_forward, x)] = op->out[SM_OUT(matmul_forward, y)];
        part->out[SM_OUT(gelu_forward, y)] = op->out[SM_OUT(matmul_forward, act)];
        return true;
    }
    return false;
}

// Finds a cheap op in the forward range that computes `tensor`, an input of a backward op.
static bool find_recipe(const sm_plan *plan, int tensor, sm_op *part) {
    const sm_range forward = sm_plan_range(plan, SM_PHASE_FORWARD);
    for (int i = forward.first; i < forward.end; i++) {
        if (cheap_part(&plan->ops[i], part) && part->out[0] == tensor) {
            return true;
        }
    }
    return false;
}

sm_status sm_rewrite_recompute(sm_plan *plan) {
    sm_again a;
    sm_again_open(plan, &a);
    for (int i = 0; i < plan->n_ops; i++) {
        for (int k = 0; k < SM_MAX_IN && plan->ops[i].range == SM_PHASE_BACKWARD; k++) {
            const int tensor = plan->ops[i].in[k];
            sm_op part;
            if (sm_again_is_kept(&a, tensor) && find_recipe(plan, tensor, &part)) {
                sm_again_emit(&a, part, SM_ROLE_SCRATCH);
            }
        }
        sm_again_append(&a, plan->ops[i]);
    }
    return sm_again_close(&a);
}
