// product.c: describes matmuls and attention for the family, which launches them.

#include "backends/opencl/binders/binders.h"

#include "philox.h"

// The first two inputs and the first output are the product's: x W = y, dy W^T = dx, x^T dy = dW.
static opencl_product describe(const sm_plan *plan, const sm_op *op) {
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
                        .summed = SM_NO_TENSOR,
                        .a_scale = SM_NO_TENSOR,
                        .b_scale = SM_NO_TENSOR,
                        .plan = plan};
    if (op->kind == SM_OP_MATMUL_BACKWARD_WEIGHT) { // dW (C,F) += (or =) x^T dy; transposed, dW (F,C) += dy^T x
        const int x = op->in[SM_IN(matmul_backward_weight, x)];
        const int dy = op->in[SM_IN(matmul_backward_weight, dy)];
        p.a = op->attr.w_transposed ? dy : x;
        p.b = op->attr.w_transposed ? x : dy;
        p.K = sm_tensor_rows(first);
        p.a_transposed = true;
        p.add = !op->attr.overwrites;
        p.sums = op->out[SM_OUT(matmul_backward_weight, db)];
        p.summed = p.sums != SM_NO_TENSOR ? dy : SM_NO_TENSOR;
        return p;
    }
    const bool forward = op->kind == SM_OP_MATMUL_FORWARD;
    p.b_transposed = op->attr.w_transposed == forward; // dx = dy W^T
    if (op->attr.epilogue & SM_EPILOGUE_BIAS) {
        p.side = op->in[SM_IN(matmul_forward, b)];
    }
    if (op->attr.epilogue & SM_EPILOGUE_ACT_BACKWARD) {
        p.side = op->in[SM_IN(matmul_backward_input, pre)];
    }
    if (op->attr.epilogue & SM_EPILOGUE_ACT) {
        p.act = op->out[SM_OUT(matmul_forward, act)];
    }
    return p;
}

// Bytes of both operands lie along K.
opencl_product opencl_describe_product(const sm_plan *plan, const sm_op *op) {
    opencl_product p = describe(plan, op);
    if (op->attr.fp8) {
        const int x = sm_op_tensor(op, "x_scale");
        const int W = sm_op_tensor(op, "W_scale");
        const int dy = sm_op_tensor(op, "dy_scale");
        const bool is_first = p.a == op->in[0];
        p.K = sm_tensor_cols(&plan->tensors[p.a]);
        p.a_transposed = false;
        p.b_transposed = true;
        p.a_scale = is_first && x != SM_NO_TENSOR ? x : dy;
        p.b_scale = W != SM_NO_TENSOR ? W : is_first ? dy : x;
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

static bool is_aligned(const sm_plan *plan, int tensor, int64_t n_cols, size_t n_bytes) {
    if (tensor == SM_NO_TENSOR) {
        return true;
    }
    const sm_tensor *t = &plan->tensors[tensor];
    const size_t elem_bytes = sm_dtype_size(t->dtype);
    const size_t step_bytes = n_bytes > 0 ? n_bytes : 4 * elem_bytes;
    return t->offset_bytes % step_bytes == 0 && (size_t)n_cols * elem_bytes % step_bytes == 0;
}

bool opencl_is_product_aligned(const opencl_product *p, size_t n_bytes) {
    return is_aligned(p->plan, p->a, p->a_transposed ? p->M : p->K, n_bytes) &&
           is_aligned(p->plan, p->b, p->b_transposed ? p->K : p->N, n_bytes) &&
           is_aligned(p->plan, p->c, p->N, n_bytes) && is_aligned(p->plan, p->side, p->N, n_bytes) &&
           is_aligned(p->plan, p->act, p->N, n_bytes);
}

int opencl_cheapest_parts(const opencl_facts *facts, const opencl_product *p, const void *tiles,
                          int64_t (*cost)(const opencl_facts *, const opencl_product *, const void *, int),
                          bool (*can_cut)(const opencl_product *, int)) {
    int best = 1;
    for (int n = 2; can_cut(p, n); n++) {
        best = cost(facts, p, tiles, n) < cost(facts, p, tiles, best) ? n : best;
    }
    return best;
}

bool opencl_rounds(const opencl_product *p) { return sm_dtype_is_narrow(p->plan->tensors[p->c].dtype); }

// GELU is the prelude's default.
const char *opencl_result_option(const opencl_product *p, bool to_scratch) {
    static const char *const options[][2] = {
#define X(CODE, name, f, slope) {" -DACTIVATION=" #name, " -DC_REAL -DACTIVATION=" #name},
        SM_ACTIVATION_LIST(X)
#undef X
    };
    const bool is_real = sm_dtype_is_narrow(p->plan->dtype) && (to_scratch || !opencl_rounds(p));
    const sm_activation activation = sm_epilogue_activation(p->epilogue);
    return activation != SM_ACTIVATION_GELU ? options[activation][is_real] : is_real ? " -DC_REAL" : "";
}

uint32_t opencl_epilogue(const opencl_product *p) {
    return (p->epilogue & SM_EPILOGUE_BIAS ? OPENCL_BIAS : 0u) | (p->epilogue & SM_EPILOGUE_ACT ? OPENCL_ACT : 0u) |
           (p->epilogue & SM_EPILOGUE_ACT_BACKWARD ? OPENCL_ACT_BACKWARD : 0u);
}

bool opencl_sums_beside(const opencl_device *device, const opencl_product *product) {
    const opencl_family *family = device->family;
    return product->summed != SM_NO_TENSOR &&
           (family->matmul_sums == NULL || !family->matmul_sums(&device->facts, product));
}

bool opencl_leaves_squares(const opencl_device *device, const sm_plan *plan, const sm_op *op) {
    const opencl_family *family = device->family;
    opencl_product p;
    int n_writers = 0;
    if (family->matmul_squares == NULL || op->kind != SM_OP_MATMUL_BACKWARD_WEIGHT || !op->attr.overwrites ||
        !plan->one_micro_batch || plan->processes.n > 1 || device->own[op->kind] != NULL) {
        return false;
    }
    for (int i = 0; i < plan->n_arenas; i++) { // it is in the gradients' arena, of which there is one
        n_writers += (i == plan->tensors[op->out[0]].arena) != (plan->arenas[i].role == SM_ROLE_GRADIENT);
    }
    for (int i = 0; i < plan->n_ops * SM_MAX_OUT; i++) {
        n_writers += plan->ops[i / SM_MAX_OUT].out[i % SM_MAX_OUT] == op->out[0];
    }
    return n_writers == 1 && opencl_is_product(plan, op, &p) &&
           family->matmul_squares(&device->facts, &p, opencl_way(device, plan, &p));
}

void opencl_bind_matmul(opencl_binder *b) {
    opencl_product p = opencl_describe_product(b->e->base.plan, b->op);
    p.leaves_squares = opencl_leaves_squares(b->e->device, p.plan, b->op);
    b->e->device->family->matmul(b, &p, opencl_way(b->e->device, b->e->base.plan, &p));
    if (opencl_sums_beside(b->e->device, &p)) {
        opencl_sum_rows(b, p.summed, p.sums, p.add);
    }
}

void opencl_bind_cast_fp8(opencl_binder *b) {
    enum { TILE = 128, ITEMS = 256 }; // of cl/nvidia/cast_fp8.cl
    const sm_tensor *x = in(b, SM_IN(cast_fp8, x));
    const int64_t N = sm_tensor_rows(x);
    const int64_t C = sm_tensor_cols(x);
    const int db = b->op->out[SM_OUT(cast_fp8, db)];
    char options[32];
    snprintf(options, sizeof options, "-DE5M2=%d -DSUMS=%d", out(b, SM_OUT(cast_fp8, rows))->dtype == SM_E5M2,
             db != SM_NO_TENSOR);
    opencl_begin(b, "cast_fp8", options, "cast_fp8");
    OPENCL_ARGS(b, arg_uint((uint32_t)N), arg_uint((uint32_t)C));
    opencl_arg_inputs(b);
    OPENCL_ARGS(b, arg_out(b, SM_OUT(cast_fp8, rows)), arg_out(b, SM_OUT(cast_fp8, columns)),
                arg_out(b, SM_OUT(cast_fp8, amax)));
    if (db != SM_NO_TENSOR) {
        OPENCL_ARGS(b, arg_scratch(0));
    }
    opencl_launch_groups(b, opencl_count_up(C, TILE), opencl_count_up(N, TILE), ITEMS);
    if (db != SM_NO_TENSOR) {
        opencl_sum_strips(b, 0, opencl_count_up(N, TILE), C, db, true);
    }
}

opencl_attention opencl_describe_attention(const sm_plan *plan, const sm_op *op) {
    const double p = op->attr.dropout_p;
    opencl_attention a = {.dy = sm_op_tensor(op, "dy"),
                          .qkv = sm_op_tensor(op, "qkv"),
                          .weights = sm_op_tensor(op, "att"),
                          .y = sm_op_tensor(op, "y"),
                          .dqkv = sm_op_tensor(op, "dqkv"),
                          .rng_step = sm_op_tensor(op, "rng_step"),
                          .starts = sm_op_tensor(op, "starts")};
    const int64_t *dims = plan->tensors[a.qkv].dims;
    a.forward = sm_op_is_attention_forward(op->kind);
    a.stores_weights = a.weights != SM_NO_TENSOR;
    a.weights = a.stores_weights ? a.weights : sm_op_tensor(op, "lse");
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

bool opencl_is_attention_aligned(const sm_plan *plan, const opencl_attention *a, size_t n_bytes) {
    return is_aligned(plan, a->qkv, a->HS, n_bytes) && is_aligned(plan, a->y, a->HS, n_bytes) &&
           is_aligned(plan, a->dy, a->HS, n_bytes) && is_aligned(plan, a->dqkv, a->HS, n_bytes);
}

void opencl_bind_attention(opencl_binder *b) {
    const opencl_attention a = opencl_describe_attention(b->e->base.plan, b->op);
    b->e->device->family->attention(b, &a);
}

void opencl_arg_heads(opencl_binder *b, const opencl_attention *a) {
    OPENCL_ARGS(b, arg_count(a->T), arg_count(a->NH), arg_count(a->NKV));
}

void opencl_arg_mask(opencl_binder *b, const opencl_attention *a) {
    OPENCL_ARGS(b, arg_ulong(a->key), arg_uint(a->threshold), arg_float(a->drop_scale));
}

void opencl_arg_gradient(opencl_binder *b, const opencl_attention *a) {
    OPENCL_ARGS(b, arg_tensor(a->dy), arg_tensor(a->qkv), arg_tensor(a->weights), arg_tensor(a->rng_step));
}

const char *const opencl_attention_kernels[OPENCL_ATTENTION_PARTS] = {
    [OPENCL_ATTENTION_FORWARD] = "attention_forward",
    [OPENCL_ATTENTION_ROWS] = "attention_backward_rows",
    [OPENCL_ATTENTION_KEYS] = "attention_backward_keys",
};

void opencl_arg_attention(opencl_binder *b, const opencl_attention *a, int part) {
    if (part == OPENCL_ATTENTION_FORWARD) {
        OPENCL_ARGS(b, arg_tensor(a->qkv), arg_tensor(a->rng_step), arg_tensor(a->y), arg_tensor(a->weights));
        return;
    }
    opencl_arg_gradient(b, a);
    if (part == OPENCL_ATTENTION_ROWS) {
        OPENCL_ARGS(b, arg_tensor(a->y));
    }
    OPENCL_ARGS(b, arg_scratch(0), arg_tensor(a->dqkv));
}

void opencl_arg_product(opencl_binder *b, const opencl_product *p, uint32_t beside, int64_t part_cols, int n_parts) {
    OPENCL_ARGS(b, arg_uint(n_parts > 1 ? 0 : beside), arg_count(p->M), arg_count(p->N), arg_count(p->K),
                arg_count(part_cols), arg_tensor(p->a), arg_tensor(p->b));
    if (n_parts > 1) {
        OPENCL_ARGS(b, arg_scratch(0));
    } else {
        OPENCL_ARGS(b, arg_tensor(p->c));
    }
}

void opencl_arg_parts(opencl_binder *b, const opencl_product *p, uint32_t beside, int n_parts, int64_t scratch_at) {
    OPENCL_ARGS(b, arg_uint(beside), arg_count(p->M), arg_count(p->N), arg_count(n_parts),
                arg_scratch((size_t)scratch_at), arg_tensor(p->c));
}

void opencl_arg_sides(opencl_binder *b, const opencl_product *p) {
    const bool is_bias = (p->epilogue & SM_EPILOGUE_BIAS) != 0;
    OPENCL_ARGS(b, arg_tensor(is_bias ? p->side : SM_NO_TENSOR), arg_tensor(is_bias ? SM_NO_TENSOR : p->side),
                arg_tensor(p->act));
}
