// product.c: matrix products and attention: described here, launched by the family.
#include "backends/opencl/binders/binders.h"

#include "philox.h"

// The first two inputs and the first output are the product's: x W = y, dy W^T = dx, x^T dy = dW.
opencl_product opencl_describe_product(const sm_plan *plan, const sm_op *op) {
    const sm_tensor *first = &plan->tensors[op->in[0]];
    const sm_tensor *result = &plan->tensors[op->out[0]];
    opencl_product p = {.M = sm_tensor_rows(result),
                        .N = sm_tensor_cols(result),
                        .K = sm_tensor_cols(first),
                        .a = op->in[0],
                        .b = op->in[1],
                        .c = op->out[0],
                        .epilogue = op->attr.epilogue,
                        .side = SM_NO_TENSOR,
                        .act = SM_NO_TENSOR,
                        .plan = plan};
    if (op->kind == SM_OP_MATMUL_BACKWARD_WEIGHT) { // dW (C,F) += (or =) x^T dy; transposed, dW (F,C) += dy^T x
        const int x = op->in[SM_IN(matmul_backward_weight, x)];
        const int dy = op->in[SM_IN(matmul_backward_weight, dy)];
        p.a = op->attr.w_transposed ? dy : x;
        p.b = op->attr.w_transposed ? x : dy;
        p.K = sm_tensor_rows(first);
        p.a_transposed = true;
        p.add = !op->attr.overwrites;
        return p;
    }
    const bool forward = op->kind == SM_OP_MATMUL_FORWARD;
    p.b_transposed = op->attr.w_transposed == forward; // dx = dy W^T
    if (op->attr.epilogue & SM_EPILOGUE_BIAS) {
        p.side = op->in[SM_IN(matmul_forward, b)];
    }
    if (op->attr.epilogue & SM_EPILOGUE_GELU_BACKWARD) {
        p.side = op->in[SM_IN(matmul_backward_input, pre)];
    }
    if (op->attr.epilogue & SM_EPILOGUE_GELU) {
        p.act = op->out[SM_OUT(matmul_forward, act)];
    }
    return p;
}

bool opencl_is_product(const sm_plan *plan, const sm_op *op, opencl_product *product) {
    if (!sm_op_is_matmul(op->kind)) {
        return false;
    }
    *product = opencl_describe_product(plan, op);
    return true;
}

bool opencl_rounds(const opencl_product *p) { return sm_dtype_is_narrow(p->plan->tensors[p->c].dtype); }

const char *opencl_result_option(const opencl_product *p, bool to_scratch) {
    return sm_dtype_is_narrow(p->plan->dtype) && (to_scratch || !opencl_rounds(p)) ? " -DC_REAL" : "";
}

uint32_t opencl_epilogue(const opencl_product *p) {
    return (p->epilogue & SM_EPILOGUE_BIAS ? OPENCL_BIAS : 0u) | (p->epilogue & SM_EPILOGUE_GELU ? OPENCL_GELU : 0u) |
           (p->epilogue & SM_EPILOGUE_GELU_BACKWARD ? OPENCL_GELU_BACKWARD : 0u);
}

void opencl_bind_matmul(opencl_binder *b) {
    const opencl_product p = opencl_describe_product(b->e->base.plan, b->op);
    b->e->device->family->matmul(b, &p, opencl_way(b->e->device, b->e->base.plan, &p));
}

// The operands of all kinds of attention stand at the same places, but that flash's backward also reads y.
#define SAME_FORWARD(kind)                                          \
    (SM_IN(kind, qkv) == SM_IN(attention_forward, qkv) &&           \
     SM_IN(kind, rng_step) == SM_IN(attention_forward, rng_step) && \
     SM_IN(kind, starts) == SM_IN(attention_forward, starts) && SM_OUT(kind, y) == SM_OUT(attention_forward, y))
_Static_assert(SAME_FORWARD(blocked_attention_forward) && SAME_FORWARD(flash_attention_forward) &&
                   SM_OUT(blocked_attention_forward, att) == SM_OUT(attention_forward, att) &&
                   SM_OUT(flash_attention_forward, lse) == SM_OUT(attention_forward, att) &&
                   SM_IN(blocked_attention_backward, starts) == SM_IN(attention_backward, starts) &&
                   SM_IN(blocked_attention_backward, att) == SM_IN(attention_backward, att),
               "one function describes them");

// Which tensors the kinds read and write.
static opencl_attention attention_operands(const sm_op *op) {
    if (sm_op_is_attention_forward(op->kind)) {
        return (opencl_attention){.dy = SM_NO_TENSOR,
                                  .qkv = op->in[SM_IN(attention_forward, qkv)],
                                  .weights = op->out[SM_OUT(attention_forward, att)],
                                  .y = op->out[SM_OUT(attention_forward, y)],
                                  .dqkv = SM_NO_TENSOR,
                                  .rng_step = op->in[SM_IN(attention_forward, rng_step)],
                                  .starts = op->in[SM_IN(attention_forward, starts)]};
    }
    if (op->kind != SM_OP_FLASH_ATTENTION_BACKWARD) {
        return (opencl_attention){.dy = op->in[SM_IN(attention_backward, dy)],
                                  .qkv = op->in[SM_IN(attention_backward, qkv)],
                                  .weights = op->in[SM_IN(attention_backward, att)],
                                  .y = SM_NO_TENSOR,
                                  .dqkv = op->out[SM_OUT(attention_backward, dqkv)],
                                  .rng_step = op->in[SM_IN(attention_backward, rng_step)],
                                  .starts = op->in[SM_IN(attention_backward, starts)]};
    }
    return (opencl_attention){.dy = op->in[SM_IN(flash_attention_backward, dy)],
                              .qkv = op->in[SM_IN(flash_attention_backward, qkv)],
                              .weights = op->in[SM_IN(flash_attention_backward, lse)],
                              .y = op->in[SM_IN(flash_attention_backward, y)],
                              .dqkv = op->out[SM_OUT(flash_attention_backward, dqkv)],
                              .rng_step = op->in[SM_IN(flash_attention_backward, rng_step)],
                              .starts = op->in[SM_IN(flash_attention_backward, starts)]};
}

opencl_attention opencl_describe_attention(const sm_plan *plan, const sm_op *op) {
    const double p = op->attr.dropout_p;
    opencl_attention a = attention_operands(op);
    const int64_t *dims = plan->tensors[a.qkv].dims;
    a.forward = sm_op_is_attention_forward(op->kind);
    a.blocked = op->kind == SM_OP_BLOCKED_ATTENTION_FORWARD || op->kind == SM_OP_BLOCKED_ATTENTION_BACKWARD;
    a.stores_weights = op->kind != SM_OP_FLASH_ATTENTION_FORWARD && op->kind != SM_OP_FLASH_ATTENTION_BACKWARD;
    a.B = dims[0];
    a.T = dims[1];
    a.NH = op->attr.n_head;
    a.NKV = op->attr.n_kv_head;
    a.HS = dims[2] / (a.NH + 2 * a.NKV);
    a.key = op->attr.rng_key;
    if (a.rng_step != SM_NO_TENSOR && p > 0) {
        a.threshold = sm_dropout_threshold(p);
        a.drop_scale = (float)(1 / (1 - p));
    }
    return a;
}

void opencl_bind_attention(opencl_binder *b) {
    const opencl_attention a = opencl_describe_attention(b->e->base.plan, b->op);
    b->e->device->family->attention(b, &a);
}
