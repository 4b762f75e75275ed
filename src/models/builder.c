// builder.c: a plan's parts around a model (batch, parameters, zero-grad, optimizer), and the vocabulary they share.
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

// A parameter by kind: itself, the copy that matmuls and lookups read, its gradient. For the first part of a matrix in parts, copy
// and gradient are those of the whole matrix.
static int value_of(const sm_builder *b, int kind) {
    return kind == SM_NO_PARAM ? SM_NO_TENSOR : sm_params_get(&b->params, kind, b->layer)->value;
}

static int matrix_of(const sm_builder *b, int kind) {
    return kind == SM_NO_PARAM ? SM_NO_TENSOR : sm_params_get(&b->params, kind, b->layer)->whole_operand;
}

static int gradient_of(const sm_builder *b, int kind) {
    return kind == SM_NO_PARAM ? SM_NO_TENSOR : sm_params_get(&b->params, kind, b->layer)->whole_gradient;
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
    SM_INPUTS(op, embedding_forward, b->plan->tokens, matrix_of(b, wte_kind), matrix_of(b, wpe_kind), b->plan->starts);
    return result(b, &op, SM_OUT(embedding_forward, x), "encoded", b->C);
}

void sm_build_embedding_backward(sm_builder *b, int dx, int wte_kind, int wpe_kind) {
    sm_op op = make(b, SM_OP_EMBEDDING_BACKWARD);
    SM_INPUTS(op, embedding_backward, b->plan->tokens, dx, b->plan->starts);
    SM_OUTPUTS(op, embedding_backward, gradient_of(b, wte_kind), gradient_of(b, wpe_kind));
    add(b, &op);
}

int sm_build_norm(sm_builder *b, const char *name, int x, int w_kind, int b_kind, sm_norm *norm) {
    const bool is_layernorm = b_kind != SM_NO_PARAM;
    sm_op op = make(b, is_layernorm ? SM_OP_LAYERNORM_FORWARD : SM_OP_RMSNORM_FORWARD);
    *norm = (sm_norm){.x = x, .w_kind = w_kind, .b_kind = b_kind};
    op.attr.eps = b->config->norm_eps;
    norm->y = activation(b, name, DIMS(b->B, b->T, b->C));
    norm->mean = is_layernorm ? statistic(b, name, "mean", DIMS(b->B, b->T)) : SM_NO_TENSOR;
    norm->rstd = statistic(b, name, "rstd", DIMS(b->B, b->T));
    if (is_layernorm) {
        SM_INPUTS(op, layernorm_forward, x, value_of(b, w_kind), value_of(b, b_kind), SM_NO_TENSOR);
        SM_OUTPUTS(op, layernorm_forward, norm->y, norm->mean, norm->rstd, SM_NO_TENSOR);
    } else {
        SM_INPUTS(op, rmsnorm_forward, x, value_of(b, w_kind), SM_NO_TENSOR);
        SM_OUTPUTS(op, rmsnorm_forward, norm->y, norm->rstd, SM_NO_TENSOR);
    }
    add(b, &op);
    return norm->y;
}

int sm_build_norm_backward(sm_builder *b, const char *dx_name, int dy, const sm_norm *norm) {
    const bool is_layernorm = norm->b_kind != SM_NO_PARAM;
    sm_op op = make(b, is_layernorm ? SM_OP_LAYERNORM_BACKWARD : SM_OP_RMSNORM_BACKWARD);
    const int w = value_of(b, norm->w_kind);
    const int dw = gradient_of(b, norm->w_kind);
    if (is_layernorm) {
        SM_INPUTS(op, layernorm_backward, dy, norm->x, w, norm->mean, norm->rstd, SM_NO_TENSOR);
        SM_OUTPUTS(op, layernorm_backward, SM_NO_TENSOR, dw, gradient_of(b, norm->b_kind), SM_NO_TENSOR);
    } else {
        SM_INPUTS(op, rmsnorm_backward, dy, norm->x, w, norm->rstd, SM_NO_TENSOR);
        SM_OUTPUTS(op, rmsnorm_backward, SM_NO_TENSOR, dw);
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
    SM_INPUTS(op, matmul_forward, x, W, SM_NO_TENSOR, SM_NO_TENSOR, SM_NO_TENSOR);
    op.out[SM_OUT(matmul_forward, y)] = transient(b, b->plan->dtype, name, part, DIMS(b->B, b->T, F));
    add(b, &op);
    return op.out[SM_OUT(matmul_forward, y)];
}

static int matmul_backward(sm_builder *b, const char *dx_name, int x, int dy, int w_kind, int64_t vocab) {
    sm_op dw = make_matmul(b, SM_OP_MATMUL_BACKWARD_WEIGHT, vocab);
    SM_INPUTS(dw, matmul_backward_weight, x, dy, SM_NO_TENSOR, SM_NO_TENSOR);
    SM_OUTPUTS(dw, matmul_backward_weight, gradient_of(b, w_kind), SM_NO_TENSOR);
    add(b, &dw);
    sm_op dx = make_matmul(b, SM_OP_MATMUL_BACKWARD_INPUT, vocab);
    SM_INPUTS(dx, matmul_backward_input, dy, matrix_of(b, w_kind), SM_NO_TENSOR, SM_NO_TENSOR, SM_NO_TENSOR);
    return result(b, &dx, SM_OUT(matmul_backward_input, dx), dx_name, columns_of(b, x));
}

int sm_build_linear(sm_builder *b, const char *name, int x, int w_kind, int b_kind) {
    if (b_kind == SM_NO_PARAM) {
        return matmul(b, name, NULL, x, w_kind, 0);
    }
    const int xw = matmul(b, name, "xw", x, w_kind, 0);
    sm_op op = make(b, SM_OP_BIAS_FORWARD);
    SM_INPUTS(op, bias_forward, xw, value_of(b, b_kind));
    return result(b, &op, SM_OUT(bias_forward, y), name, columns_of(b, xw));
}

int sm_build_linear_backward(sm_builder *b, const char *dx_name, int x, int dy, int w_kind, int b_kind) {
    if (b_kind != SM_NO_PARAM) {
        sm_op db = make(b, SM_OP_BIAS_BACKWARD);
        SM_INPUTS(db, bias_backward, dy);
        SM_OUTPUTS(db, bias_backward, gradient_of(b, b_kind));
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
    SM_INPUTS(op, gelu_backward, dy, x);
    return result(b, &op, SM_OUT(gelu_backward, dx), dx_name, columns_of(b, x));
}

int sm_build_swiglu(sm_builder *b, const char *name, int gate_up) {
    sm_op op = make(b, SM_OP_SWIGLU_FORWARD);
    op.in[SM_IN(swiglu_forward, x)] = gate_up;
    return result(b, &op, SM_OUT(swiglu_forward, y), name, columns_of(b, gate_up) / 2);
}

int sm_build_swiglu_backward(sm_builder *b, const char *dx_name, int dy, int gate_up) {
    sm_op op = make(b, SM_OP_SWIGLU_BACKWARD);
    SM_INPUTS(op, swiglu_backward, dy, gate_up);
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
    SM_INPUTS(op, dropout, x, b->plan->rng_step);
    return result(b, &op, SM_OUT(dropout, y), name, b->C);
}

int sm_build_residual(sm_builder *b, const char *name, int skip, int branch) {
    sm_op op = make(b, SM_OP_RESIDUAL);
    SM_INPUTS(op, residual, skip, branch);
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
    SM_INPUTS(op, head_rmsnorm_forward, qkv, value_of(b, wq_kind), value_of(b, wk_kind));
    op.out[SM_OUT(head_rmsnorm_forward, y)] = activation(b, name, DIMS(b->B, b->T, b->QKV));
    op.out[SM_OUT(head_rmsnorm_forward, rstd)] = statistic(b, name, "rstd", DIMS(b->B, b->T, n_rstd));
    add(b, &op);
    *norm = (sm_head_norm){
        .x = qkv, .rstd = op.out[SM_OUT(head_rmsnorm_forward, rstd)], .wq_kind = wq_kind, .wk_kind = wk_kind};
    return op.out[SM_OUT(head_rmsnorm_forward, y)];
}

int sm_build_head_rmsnorm_backward(sm_builder *b, const char *dx_name, int dy, const sm_head_norm *norm) {
    sm_op op = make_with_heads(b, SM_OP_HEAD_RMSNORM_BACKWARD);
    SM_INPUTS(op, head_rmsnorm_backward, dy, norm->x, value_of(b, norm->wq_kind), value_of(b, norm->wk_kind),
              norm->rstd);
    SM_OUTPUTS(op, head_rmsnorm_backward, SM_NO_TENSOR, gradient_of(b, norm->wq_kind), gradient_of(b, norm->wk_kind));
    return result(b, &op, SM_OUT(head_rmsnorm_backward, dx), dx_name, b->QKV);
}

int sm_build_rope(sm_builder *b, const char *name, int qkv) {
    sm_op op = make_with_heads(b, SM_OP_ROPE);
    op.attr.rope_theta = b->config->rope_theta;
    op.attr.inverse = b->phase == SM_PHASE_BACKWARD;
    SM_INPUTS(op, rope, qkv, b->plan->starts);
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
    const int y = activation(b, "atty", DIMS(b->B, b->T, b->A));
    *att = activation(b, "att", DIMS(b->B, b->config->n_head, b->T, b->T));
    SM_INPUTS(op, attention_forward, qkv, b->plan->rng_step, b->plan->starts);
    SM_OUTPUTS(op, attention_forward, y, *att);
    add(b, &op);
    return y;
}

int sm_build_attention_backward(sm_builder *b, int dy, int qkv, int att) {
    sm_op op = make_attention(b, SM_OP_ATTENTION_BACKWARD);
    SM_INPUTS(op, attention_backward, dy, qkv, att, b->plan->rng_step, b->plan->starts);
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
    head->lse = statistic(b, "logits", "lse", DIMS(b->B, b->T));
    SM_INPUTS(op, crossentropy_forward, head->logits, b->plan->targets);
    SM_OUTPUTS(op, crossentropy_forward, b->plan->losses, head->lse);
    add(b, &op);
    sm_op mean = make(b, SM_OP_LOSS_MEAN);
    SM_INPUTS(mean, loss_mean, b->plan->losses, b->plan->targets);
    SM_OUTPUTS(mean, loss_mean, b->plan->loss);
    add(b, &mean);
}

int sm_build_loss_backward(sm_builder *b, const char *dx_name, const sm_head *head) {
    b->phase = SM_PHASE_BACKWARD;
    sm_op loss = make(b, SM_OP_CROSSENTROPY_BACKWARD);
    loss.attr.vocab = b->V;
    SM_INPUTS(loss, crossentropy_backward, head->logits, b->plan->targets, head->lse, b->scale);
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
    SM_INPUTS(op, loss_scale, b->plan->targets, b->plan->hyper, b->plan->scaler);
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
