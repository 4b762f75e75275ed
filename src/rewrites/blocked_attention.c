// blocked_attention.c: attention that does not store the weights of keys that no row of a block attends to.
//
//   attention_forward(qkv) -> y, att              blocked_attention_forward(qkv) -> y, att in blocks of rows
//   attention_backward(dy, qkv, att) -> dqkv  =>  blocked_attention_backward(dy, qkv, att in blocks of rows) -> dqkv
//
// Equal because the weights left out are zero. Memory falls from B NH T^2 to a little more than half of it.
#include "src/rewrites/passes.h"

_Static_assert(SM_IN(blocked_attention_forward, starts) == SM_IN(attention_forward, starts) &&
                   SM_OUT(blocked_attention_forward, att) == SM_OUT(attention_forward, att) &&
                   SM_IN(blocked_attention_backward, starts) == SM_IN(attention_backward, starts) &&
                   SM_IN(blocked_attention_backward, att) == SM_IN(attention_backward, att),
               "only the kind and the weights change");

static sm_status forward(sm_plan *plan, sm_op *op) {
    const sm_tensor att = plan->tensors[op->out[SM_OUT(attention_forward, att)]]; // (B,NH,T,T)
    const int64_t dims[] = {att.dims[0], att.dims[1], sm_blocked_elems(att.dims[2], att.dims[2])};
    const int blocks =
        sm_plan_add_tensor(plan, SM_ROLE_ACTIVATION, plan->dtype, 3, dims, "%.*s.blocks", SM_NAME_SIZE - 8, att.name);
    op->kind = SM_OP_BLOCKED_ATTENTION_FORWARD;
    op->out[SM_OUT(blocked_attention_forward, att)] = blocks;
    return blocks == SM_NO_TENSOR ? SM_ERR_OOM : sm_op_check(plan, op);
}

static sm_status backward(const sm_plan *plan, const sm_op *forward_op, sm_op *op) {
    op->kind = SM_OP_BLOCKED_ATTENTION_BACKWARD;
    op->in[SM_IN(blocked_attention_backward, att)] = forward_op->out[SM_OUT(blocked_attention_forward, att)];
    return sm_op_check(plan, op);
}

sm_status sm_rewrite_blocked_attention(sm_plan *plan) { return sm_rewrite_each_attention(plan, forward, backward); }
