// flash_attention.c: attention without its T x T weights.
//
//   attention_forward(qkv) -> y, att              flash_attention_forward(qkv) -> y, lse
//   attention_backward(dy, qkv, att) -> dqkv  =>  flash_attention_backward(dy, qkv, y, lse) -> dqkv
//
// Equal because att = exp(q k^T / sqrt(HS) - lse) can be computed again from lse (Dao et al. 2022). Memory falls from B
// NH T^2 to B NH T in each layer.
#include "src/rewrites/passes.h"

// Attention's forward kinds share operands at the same indices.
_Static_assert(SM_IN(flash_attention_forward, starts) == SM_IN(attention_forward, starts) &&
                   SM_OUT(flash_attention_forward, lse) == SM_OUT(attention_forward, att),
               "only the kind and the second output change");

static sm_status forward(sm_plan *plan, sm_op *op) {
    const sm_tensor att = plan->tensors[op->out[SM_OUT(attention_forward, att)]]; // (B,NH,T,T)
    op->kind = SM_OP_FLASH_ATTENTION_FORWARD;
    op->out[SM_OUT(flash_attention_forward, lse)] =
        sm_plan_add_tensor(plan, SM_ROLE_ACTIVATION, plan->real, 3, att.dims, "%.*s.lse", SM_NAME_SIZE - 5, att.name);
    return plan->status == SM_OK ? sm_op_check(plan, op) : plan->status;
}

static sm_status backward(const sm_plan *plan, const sm_op *forward_op, sm_op *op) {
    const sm_op naive = *op;
    op->kind = SM_OP_FLASH_ATTENTION_BACKWARD;
    SM_INPUTS(*op, flash_attention_backward, naive.in[SM_IN(attention_backward, dy)],
              naive.in[SM_IN(attention_backward, qkv)], forward_op->out[SM_OUT(flash_attention_forward, y)],
              forward_op->out[SM_OUT(flash_attention_forward, lse)], naive.in[SM_IN(attention_backward, rng_step)],
              naive.in[SM_IN(attention_backward, starts)]);
    SM_OUTPUTS(*op, flash_attention_backward, naive.out[SM_OUT(attention_backward, dqkv)]);
    return sm_op_check(plan, op);
}

// Converts every attention that stores its weights, then each op that reads them.
sm_status sm_rewrite_flash_attention(sm_plan *plan) {
    for (int i = 0; i < plan->n_ops; i++) {
        if (plan->ops[i].kind != SM_OP_ATTENTION_FORWARD) {
            continue;
        }
        const int att = plan->ops[i].out[SM_OUT(attention_forward, att)];
        SM_TRY(forward(plan, &plan->ops[i]));
        for (int k = i + 1; k < plan->n_ops; k++) {
            if (plan->ops[k].kind == SM_OP_ATTENTION_BACKWARD &&
                plan->ops[k].in[SM_IN(attention_backward, att)] == att) {
                SM_TRY(backward(plan, &plan->ops[i], &plan->ops[k]));
            }
        }
    }
    return SM_OK;
}
