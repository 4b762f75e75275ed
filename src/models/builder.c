// builder.c: the parts of a plan around a model (batch, parameters, zero-grad, optimizer), and the vocabulary that
// models share.
#include "src/models/builder.h"

#include "philox.h"

#define DIMS(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

// --- tensors and ops ------------------------------------------------------------------------------

static int lasting(sm_builder *b, sm_role role, sm_dtype dtype, const char *name, int n_dims, const int64_t *dims) {
    return sm_plan_add_tensor(b->plan, role, dtype, n_dims, dims, "%s", name);
}

static int transient(sm_builder *b, sm_dtype dtype, const char *name, const char *part, int n_dims,
                     const int64_t *dims) {
    char block[16] = "";
    if (b->layer >= 0) {
        snprintf(block, sizeof block, "h.%d.", b->layer);
    }
    return sm_plan_add_tensor(b->plan, SM_ROLE_ACTIVATION, dtype, n_dims, dims, "%s%s%s%s", block, name,
                              part != NULL ? "." : "", part != NULL ? part : "");
}

// An activation or its gradient.
static int activation(sm_builder *b, const char *name, int n_dims, const int64_t *dims) {
    return transient(b, b->plan->dtype, name, NULL, n_dims, dims);
}

// A tensor that is never rounded to the data type: `name` and `what` make "h.3.ln1.mean"; `what` may be NULL.
static int statistic(sm_builder *b, const char *name, const char *what, int n_dims, const int64_t *dims) {
    return transient(b, b->plan->real, name, what, n_dims, dims);
}

// An op of the current layer and phase, without operands.
static sm_op make(const sm_builder *b, sm_op_kind kind) { return sm_op_make(kind, b->phase, b->layer); }

static void add(sm_builder *b, const sm_op *op) { sm_plan_add_op(b->plan, op); }

// A parameter by kind: itself, the copy that matmuls read, its gradient. For the first part of a matrix in parts, copy
// and gradient are those of the whole matrix.
static int value_of(const sm_builder *b, int kind) { return sm_params_get(&b->params, kind, b->layer)->value; }

static int matrix_of(const sm_builder *b, int kind) { return sm_params_get(&b->params, kind, b->layer)->whole_operand; }

static int gradient_of(const sm_builder *b, int kind) {
    return sm_params_get(&b->params, kind, b->layer)->whole_gradient;
}

static int64_t columns_of(const sm_builder *b, int tensor) {
    return tensor == SM_NO_TENSOR ? 1 : sm_tensor_cols(&b->plan->tensors[tensor]); // SM_NO_TENSOR after a failure
}

// Adds an op with a result of (B,T,n_cols).
static int result(sm_builder *b, sm_op *op, int output, const char *name, int64_t n_cols) {
    op->out[output] = activation(b, name, DIMS(b->B, b->T, n_cols));
    add(b, op);
    return op->out[output];
}

// --- lines of a model -----------------------------------------------------------------------------

int sm_build_embedding(sm_builder *b, int wte_kind, int wpe_kind) {
    sm_op op = make(b, SM_OP_EMBEDDING_FORWARD);
    op.in[SM_IN(embedding_forward, token)] = b->plan->tokens;
    op.in[SM_IN(embedding_forward, starts)] = b->plan->starts;
    op.in[SM_IN(embedding_forward, wte)] = value_of(b, wte_kind);
    if (wpe_kind != SM_NO_PARAM) {
        op.in[SM_IN(embedding_forward, wpe)] = value_of(b, wpe_kind);
    }
    return result(b, &op, SM_OUT(embedding_forward, x), "encoded", b->C);
}

void sm_build_embedding_backward(sm_builder *b, int dx, int wte_kind, int wpe_kind) {
    sm_op op = make(b, SM_OP_EMBEDDING_BACKWARD);
    op.in[SM_IN(embedding_backward, token)] = b->plan->tokens;
    op.in[SM_IN(embedding_backward, starts)] = b->plan->starts;
    op.in[SM_IN(embedding_backward, dx)] = dx;
    op.out[SM_OUT(embedding_backward, dwte)] = gradient_of(b, wte_kind);
    if (wpe_kind != SM_NO_PARAM) {
        op.out[SM_OUT(embedding_backward, dwpe)] = gradient_of(b, wpe_kind);
    }
    add(b, &op);
}

// Both norms have these operands at the same indices.
_Static_assert(SM_IN(rmsnorm_forward, w) == SM_IN(layernorm_forward, w) &&
                   SM_IN(rmsnorm_backward, w) == SM_IN(layernorm_backward, w) &&
                   SM_OUT(rmsnorm_backward, dw) == SM_OUT(layernorm_backward, dw),
               "what both norms share");

int sm_build_norm(sm_builder *b, const char *name, int x, int w_kind, int b_kind, sm_norm *norm) {
    const bool is_layernorm = b_kind != SM_NO_PARAM;
    sm_op op = make(b, is_layernorm ? SM_OP_LAYERNORM_FORWARD : SM_OP_RMSNORM_FORWARD);
    *norm = (sm_norm){.x = x, .w_kind = w_kind, .b_kind = b_kind};
    op.attr.eps = b->config->norm_eps;
    op.in[SM_IN(layernorm_forward, x)] = x;
    op.in[SM_IN(layernorm_forward, w)] = value_of(b, w_kind);
    op.out[SM_OUT(layernorm_forward, y)] = norm->y = activation(b, name, DIMS(b->B, b->T, b->C));
    if (is_layernorm) {
        op.in[SM_IN(layernorm_forward, b)] = value_of(b, b_kind);
        op.out[SM_OUT(layernorm_forward, mean)] = norm->mean = statistic(b, name, "mean", DIMS(b->B, b->T));
    }
    norm->rstd = statistic(b, name, "rstd", DIMS(b->B, b->T));
    op.out[is_layernorm ? SM_OUT(layernorm_forward, rstd) : SM_OUT(rmsnorm_forward, rstd)] = norm->rstd;
    add(b, &op);
    return norm->y;
}

int sm_build_norm_backward(sm_builder *b, const char *dx_name, int dy, const sm_norm *norm) {
    const bool is_layernorm = norm->b_kind != SM_NO_PARAM;
    sm_op op = make(b, is_layernorm ? SM_OP_LAYERNORM_BACKWARD : SM_OP_RMSNORM_BACKWARD);
    op.in[SM_IN(layernorm_backward, dy)] = dy;
    op.in[SM_IN(layernorm_backward, x)] = norm->x;
    op.in[SM_IN(layernorm_backward, w)] = value_of(b, norm->w_kind);
    op.in[is_layernorm ? SM_IN(layernorm_backward, rstd) : SM_IN(rmsnorm_backward, rstd)] = norm->rstd;
    op.out[SM_OUT(layernorm_backward, dw)] = gradient_of(b, norm->w_kind);
    if (is_layernorm) {
        op.in[SM_IN(layernorm_backward, mean)] = norm->mean;
        op.out[SM_OUT(layernorm_backward, db)] = gradient_of(b, norm->b_kind);
    }
    return result(b, &op, SM_OUT(layernorm_backward, dx), dx_name, b->C);
}

// The product of a layer, or of the head, whose W is (Vp,C) in every model: `vocab` is then V, otherwise 0.
static sm_op make_matmul(const sm_builder *b, sm_op_kind kind, int64_t vocab) {
    sm_op op = make(b, kind);
    op.attr.w_transposed = vocab > 0 || b->config->model->out_by_in;
    op.attr.vocab = vocab;
    return op;
}

static int matmul(sm_builder *b, const char *name, const char *part, int x, int w_kind, int64_t vocab) {
    const int W = matrix_of(b, w_kind);
    sm_op op = make_matmul(b, SM_OP_MATMUL_FORWARD, vocab);
    const int64_t F = op.attr.w_transposed ? sm_tensor_rows(&b->plan->tensors[W]) : columns_of(b, W);
    op.in[SM_IN(matmul_forward, x)] = x;
    op.in[SM_IN(matmul_forward, W)] = W;
    op.out[SM_OUT(matmul_forward, y)] = transient(b, b->plan->dtype, name, part, DIMS(b->B, b->T, F));
    add(b, &op);
    return op.out[SM_OUT(matmul_forward, y)];
}

static int matmul_backward(sm_builder *b, const char *dx_name, int x, int dy, int w_kind, int64_t vocab) {
    sm_op dw = make_matmul(b, SM_OP_MATMUL_BACKWARD_WEIGHT, vocab);
    dw.in[SM_IN(matmul_backward_weight, x)] = x;
    dw.in[SM_IN(matmul_backward_weight, dy)] = dy;
    dw.out[SM_OUT(matmul_backward_weight, dW)] = gradient_of(b, w_kind);
    add(b, &dw);
    sm_op dx = make_matmul(b, SM_OP_MATMUL_BACKWARD_INPUT, vocab);
    dx.in[SM_IN(matmul_backward_input, dy)] = dy;
    dx.in[SM_IN(matmul_backward_input, W)] = matrix_of(b, w_kind);
    return result(b, &dx, SM_OUT(matmul_backward_input, dx), dx_name, columns_of(b, x));
}

int sm_build_linear(sm_builder *b, const char *name, int x, int w_kind, int b_kind) {
    if (b_kind == SM_NO_PARAM) {
        return matmul(b, name, NULL, x, w_kind, 0);
    }
    const int xw = matmul(b, name, "xw", x, w_kind, 0);
    sm_op op = make(b, SM_OP_BIAS_FORWARD);
    op.in[SM_IN(bias_forward, x)] = xw;
    op.in[SM_IN(bias_forward, b)] = value_of(b, b_kind);
    return result(b, &op, SM_OUT(bias_forward, y), name, columns_of(b, xw));
}

int sm_build_linear_backward(sm_builder *b, const char *dx_name, int x, int dy, int w_kind, int b_kind) {
    if (b_kind != SM_NO_PARAM) {
        sm_op db = make(b, SM_OP_BIAS_BACKWARD);
        db.in[SM_IN(bias_backward, dy)] = dy;
        db.out[SM_OUT(bias_backward, db)] = gradient_of(b, b_kind);
        add(b, &db);
    }
    return matmul_backward(b, dx_name, x, dy, w_kind, 0);
}

int sm_build_activation(sm_builder *b, int x) {
    const sm_activation_info *activation = sm_activation_get_info(b->config->activation);
    sm_op op = make(b, activation->forward);
    op.in[SM_IN(gelu_forward, x)] = x;
    return result(b, &op, SM_OUT(gelu_forward, y), activation->name, columns_of(b, x));
}

int sm_build_activation_backward(sm_builder *b, const char *dx_name, int dy, int x) {
    sm_op op = make(b, sm_activation_get_info(b->config->activation)->backward);
    op.in[SM_IN(gelu_backward, dy)] = dy;
    op.in[SM_IN(gelu_backward, x)] = x;
    return result(b, &op, SM_OUT(gelu_backward, dx), dx_name, columns_of(b, x));
}

int sm_build_swiglu(sm_builder *b, const char *name, int gate_up) {
    sm_op op = make(b, SM_OP_SWIGLU_FORWARD);
    op.in[SM_IN(swiglu_forward, x)] = gate_up;
    return result(b, &op, SM_OUT(swiglu_forward, y), name, columns_of(b, gate_up) / 2);
}

int sm_build_swiglu_backward(sm_builder *b, const char *dx_name, int dy, int gate_up) {
    sm_op op = make(b, SM_OP_SWIGLU_BACKWARD);
    op.in[SM_IN(swiglu_backward, dy)] = dy;
    op.in[SM_IN(swiglu_backward, x)] = gate_up;
    return result(b, &op, SM_OUT(swiglu_backward, dx), dx_name, columns_of(b, gate_up));
}

// The key depends on the mask's name, so a dropout's forward and backward draw the same mask.
static uint64_t mask_key(const sm_builder *b, const char *mask_name) {
    char full[SM_NAME_SIZE];
    snprintf(full, sizeof full, "h.%d.%s", b->layer, mask_name);
    return sm_philox_key(b->options->seed, b->layer < 0 ? mask_name : full);
}

int sm_build_dropout(sm_builder *b, const char *mask_name, const char *name, int x) {
    if (!(b->options->dropout_p > 0)) {
        return x;
    }
    sm_op op = make(b, SM_OP_DROPOUT);
    op.attr.dropout_p = b->options->dropout_p;
    op.attr.rng_key = mask_key(b, mask_name);
    op.in[SM_IN(dropout, x)] = x;
    op.in[SM_IN(dropout, rng_step)] = b->plan->rng_step;
    return result(b, &op, SM_OUT(dropout, y), name, b->C);
}

int sm_build_residual(sm_builder *b, const char *name, int skip, int branch) {
    sm_op op = make(b, SM_OP_RESIDUAL);
    op.in[SM_IN(residual, a)] = skip;
    op.in[SM_IN(residual, b)] = branch;
    return result(b, &op, SM_OUT(residual, y), name, b->C);
}

static sm_op make_with_heads(const sm_builder *b, sm_op_kind kind) {
    sm_op op = make(b, kind);
    op.attr.n_head = (int)b->config->n_head;
    op.attr.n_kv_head = (int)sm_model_n_kv_head(b->config);
    return op;
}

int sm_build_head_rmsnorm(sm_builder *b, const char *name, int qkv, int wq_kind, int wk_kind, sm_head_norm *norm) {
    sm_op op = make_with_heads(b, SM_OP_HEAD_RMSNORM_FORWARD);
    const int64_t n_rstd = b->config->n_head + sm_model_n_kv_head(b->config);
    op.attr.eps = b->config->norm_eps;
    op.in[SM_IN(head_rmsnorm_forward, x)] = qkv;
    op.in[SM_IN(head_rmsnorm_forward, wq)] = value_of(b, wq_kind);
    op.in[SM_IN(head_rmsnorm_forward, wk)] = value_of(b, wk_kind);
    op.out[SM_OUT(head_rmsnorm_forward, y)] = activation(b, name, DIMS(b->B, b->T, b->QKV));
    op.out[SM_OUT(head_rmsnorm_forward, rstd)] = statistic(b, name, "rstd", DIMS(b->B, b->T, n_rstd));
    add(b, &op);
    *norm = (sm_head_norm){
        .x = qkv, .rstd = op.out[SM_OUT(head_rmsnorm_forward, rstd)], .wq_kind = wq_kind, .wk_kind = wk_kind};
    return op.out[SM_OUT(head_rmsnorm_forward, y)];
}

int sm_build_head_rmsnorm_backward(sm_builder *b, const char *dx_name, int dy, const sm_head_norm *norm) {
    sm_op op = make_with_heads(b, SM_OP_HEAD_RMSNORM_BACKWARD);
    op.in[SM_IN(head_rmsnorm_backward, dy)] = dy;
    op.in[SM_IN(head_rmsnorm_backward, x)] = norm->x;
    op.in[SM_IN(head_rmsnorm_backward, wq)] = value_of(b, norm->wq_kind);
    op.in[SM_IN(head_rmsnorm_backward, wk)] = value_of(b, norm->wk_kind);
    op.in[SM_IN(head_rmsnorm_backward, rstd)] = norm->rstd;
    op.out[SM_OUT(head_rmsnorm_backward, dwq)] = gradient_of(b, norm->wq_kind);
    op.out[SM_OUT(head_rmsnorm_backward, dwk)] = gradient_of(b, norm->wk_kind);
    return result(b, &op, SM_OUT(head_rmsnorm_backward, dx), dx_name, b->QKV);
}

int sm_build_rope(sm_builder *b, const char *name, int qkv) {
    sm_op op = make_with_heads(b, SM_OP_ROPE);
    op.attr.rope_theta = b->config->rope_theta;
    op.attr.inverse = b->phase == SM_PHASE_BACKWARD;
    op.in[SM_IN(rope, x)] = qkv;
    op.in[SM_IN(rope, starts)] = b->plan->starts;
    return result(b, &op, SM_OUT(rope, y), name, b->QKV);
}

static sm_op make_attention(const sm_builder *b, sm_op_kind kind) {
    sm_op op = make_with_heads(b, kind);
    if (b->options->dropout_p > 0) {
        op.attr.dropout_p = b->options->dropout_p;
        op.attr.rng_key = mask_key(b, "attn.dropout");
    }
    return op;
}

int sm_build_attention(sm_builder *b, int qkv, int *att) {
    sm_op op = make_attention(b, SM_OP_ATTENTION_FORWARD);
    op.in[SM_IN(attention_forward, qkv)] = qkv;
    op.in[SM_IN(attention_forward, rng_step)] = b->plan->rng_step;
    op.in[SM_IN(attention_forward, starts)] = b->plan->starts;
    op.out[SM_OUT(attention_forward, y)] = activation(b, "atty", DIMS(b->B, b->T, b->A));
    op.out[SM_OUT(attention_forward, att)] = *att = activation(b, "att", DIMS(b->B, b->config->n_head, b->T, b->T));
    add(b, &op);
    return op.out[SM_OUT(attention_forward, y)];
}

int sm_build_attention_backward(sm_builder *b, int dy, int qkv, int att) {
    sm_op op = make_attention(b, SM_OP_ATTENTION_BACKWARD);
    op.in[SM_IN(attention_backward, dy)] = dy;
    op.in[SM_IN(attention_backward, qkv)] = qkv;
    op.in[SM_IN(attention_backward, att)] = att;
    op.in[SM_IN(attention_backward, rng_step)] = b->plan->rng_step;
    op.in[SM_IN(attention_backward, starts)] = b->plan->starts;
    return result(b, &op, SM_OUT(attention_backward, dqkv), "d.qkv", b->QKV);
}

// --- the blocks -------------------------------------------------------------------------------------

static void *block_of(const sm_builder *b) {
    return (char *)b->blocks + (size_t)b->layer * b->config->model->block_bytes;
}

int sm_build_blocks(sm_builder *b, int x) {
    for (b->layer = 0; b->layer < (int)b->config->n_layer; b->layer++) {
        x = b->config->model->block_forward(b, block_of(b), x);
    }
    b->layer = -1;
    return x;
}

int sm_build_blocks_backward(sm_builder *b, int d) {
    for (b->layer = (int)b->config->n_layer - 1; b->layer >= 0; b->layer--) {
        d = b->config->model->block_backward(b, block_of(b), d);
    }
    return d; // the layer is -1 again
}

// --- the loss ---------------------------------------------------------------------------------------

void sm_build_loss(sm_builder *b, int x, int w_kind, sm_head *head) {
    *head = (sm_head){.x = x, .w_kind = w_kind, .logits = matmul(b, "logits", NULL, x, w_kind, b->V)};
    sm_op op = make(b, SM_OP_CROSSENTROPY_FORWARD);
    op.attr.vocab = b->V;
    op.in[SM_IN(crossentropy_forward, logits)] = head->logits;
    op.in[SM_IN(crossentropy_forward, target)] = b->plan->targets;
    op.out[SM_OUT(crossentropy_forward, losses)] = b->plan->losses;
    op.out[SM_OUT(crossentropy_forward, lse)] = head->lse = statistic(b, "logits", "lse", DIMS(b->B, b->T));
    add(b, &op);
    sm_op mean = make(b, SM_OP_LOSS_MEAN);
    mean.in[SM_IN(loss_mean, losses)] = b->plan->losses;
    mean.in[SM_IN(loss_mean, target)] = b->plan->targets;
    mean.out[SM_OUT(loss_mean, loss)] = b->plan->loss;
    add(b, &mean);
}

int sm_build_loss_backward(sm_builder *b, const char *dx_name, const sm_head *head) {
    b->phase = SM_PHASE_BACKWARD;
    sm_op loss = make(b, SM_OP_CROSSENTROPY_BACKWARD);
    loss.attr.vocab = b->V;
    loss.in[SM_IN(crossentropy_backward, logits)] = head->logits;
    loss.in[SM_IN(crossentropy_backward, target)] = b->plan->targets;
    loss.in[SM_IN(crossentropy_backward, lse)] = head->lse;
    loss.in[SM_IN(crossentropy_backward, scale)] = b->scale;
    const int dlogits = result(b, &loss, SM_OUT(crossentropy_backward, dlogits), "d.logits", b->Vp);
    return matmul_backward(b, dx_name, head->x, dlogits, head->w_kind, b->V);
}

// --- around the model -------------------------------------------------------------------------------

static void add_batch_and_results(sm_builder *b) {
    sm_plan *plan = b->plan;
    plan->tokens = lasting(b, SM_ROLE_BATCH, SM_I32, "tokens", DIMS(b->B, b->T));
    plan->targets = lasting(b, SM_ROLE_BATCH, SM_I32, "targets", DIMS(b->B, b->T));
    if (b->options->documents) {
        plan->starts = lasting(b, SM_ROLE_BATCH, SM_I32, "starts", DIMS(b->B, b->T));
    }
    plan->hyper = lasting(b, SM_ROLE_BATCH, plan->real, "hyper", DIMS(SM_HYPER_COUNT));
    if (b->options->dropout_p > 0) {
        plan->rng_step = lasting(b, SM_ROLE_BATCH, SM_U32, "rng_step", DIMS(2));
    }
    plan->losses = lasting(b, SM_ROLE_RESULT, plan->real, "losses", DIMS(b->B, b->T));
    plan->loss = lasting(b, SM_ROLE_RESULT, plan->real, "loss", DIMS(1));
    if (b->options->backward && b->options->scaling.scale > 0) {
        plan->scaling = b->options->scaling;
        plan->scaler = lasting(b, SM_ROLE_OPTIMIZER, plan->real, SM_SCALER_NAME, DIMS(SM_SCALER_COUNT));
        if (plan->scaler != SM_NO_TENSOR) {
            plan->tensors[plan->scaler].is_saved = true;
        }
    }
    if (b->options->optimizer != NULL) {
        plan->grad_norm = lasting(b, SM_ROLE_RESULT, plan->real, "grad_norm", DIMS(1));
    }
}

static void loss_scale(sm_builder *b) {
    sm_op op = sm_op_make(SM_OP_LOSS_SCALE, SM_PHASE_FORWARD, -1);
    op.in[SM_IN(loss_scale, targets)] = b->plan->targets;
    op.in[SM_IN(loss_scale, hyper)] = b->plan->hyper;
    op.in[SM_IN(loss_scale, scaler)] = b->plan->scaler;
    op.out[SM_OUT(loss_scale, scale)] = b->scale = statistic(b, "loss_scale", NULL, DIMS(1));
    add(b, &op);
}

static sm_status build_step(sm_builder *b) {
    const int n_kinds = b->config->model->params(b->config, b->specs);
    SM_TRY(sm_params_add(b->plan, b->specs, n_kinds, (int)b->config->n_layer, b->options->backward,
                         sm_plan_exchanged_bytes(b->plan, b->options->max_tensor_bytes), &b->params));
    if (b->options->backward && b->plan->processes.n > 1) {
        sm_params_cut(b->plan, &b->params);
    }
    add_batch_and_results(b);
    if (b->options->backward) {
        for (int g = 0; g < b->params.n_groups; g++) {
            sm_op op = sm_op_make(SM_OP_ZERO, SM_PHASE_ZERO_GRAD, -1);
            op.out[SM_OUT(zero, x)] = b->params.groups[g].gradient;
            add(b, &op);
        }
        loss_scale(b);
    }
    b->config->model->build(b);
    SM_TRY(b->plan->status);
    return b->options->optimizer != NULL ? sm_optimizer_build(b->options->optimizer, b->plan, &b->params) : SM_OK;
}

static void free_params(sm_builder *b) { sm_params_free(&b->params); }

static sm_status check_options(const sm_model_config *config, const sm_plan_options *options) {
    SM_TRY(sm_model_check(config));
    SM_FAIL_IF(options->B < 1 || options->B > INT32_MAX, SM_ERR_INVALID,
               "batch size %lld is out of range; use 1 or more", (long long)options->B);
    SM_FAIL_IF(options->T < 1 || options->T > config->context, SM_ERR_INVALID,
               "sequence length %lld does not fit the context of %lld; use a shorter one or a larger --context",
               (long long)options->T, (long long)config->context);
    SM_FAIL_IF(!(options->dropout_p >= 0 && options->dropout_p < 1), SM_ERR_INVALID,
               "dropout %g is out of range; use 0 or more, below 1", options->dropout_p);
    SM_FAIL_IF(options->optimizer != NULL && !options->backward, SM_ERR_INTERNAL,
               "a plan with an optimizer needs its backward");
    return SM_OK;
}

sm_status sm_model_build(const sm_model_config *config, const sm_plan_options *options, sm_plan **plan) {
    *plan = NULL;
    SM_TRY(check_options(config, options));
    SM_OWN(sm_plan) *made = sm_plan_new(options->dtype);
    SM_FREED void *blocks = sm_calloc((size_t)config->n_layer, config->model->block_bytes);
    made->products = options->products;
    made->n_params = sm_model_n_params(config);
    made->B = options->B;
    made->T = options->T;
    made->V = config->vocab;
    made->one_micro_batch = options->one_micro_batch;
    made->recompute = options->recompute;
    made->processes = options->processes;
    made->attention = options->attention;
    SM_AT_END(free_params)
    sm_builder b = {
        .plan = made,
        .config = config,
        .options = options,
        .blocks = blocks,
        .B = options->B,
        .T = options->T,
        .C = config->d_model,
        .F = config->d_ff,
        .V = config->vocab,
        .Vp = sm_model_padded_vocab(config),
        .QKV = sm_model_head_dim(config) * (config->n_head + 2 * sm_model_n_kv_head(config)),
        .A = sm_model_head_dim(config) * config->n_head,
        .layer = -1,
        .phase = SM_PHASE_FORWARD,
        .scale = SM_NO_TENSOR,
    };
    SM_TRY(build_step(&b));
    *plan = sm_give(&made);
    return SM_OK;
}
