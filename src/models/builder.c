// builder.c: a plan around a model: batch, parameters, zero-grad before it and the optimizer behind it; and the
// vocabulary that models share.
#include "builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "philox.h"

// --- tensors and ops ------------------------------------------------------------------------------

// Remembers a failed allocation of a tensor; passes the index through.
static int keep(sm_builder *b, int tensor) {
    if (tensor == SM_NO_TENSOR && b->status == SM_OK) {
        b->status = SM_ERR_INVALID; // its message was set where it failed
    }
    return tensor;
}

static int lasting(sm_builder *b, sm_role role, sm_dtype dtype, const char *name, int n_dims, const int64_t *dims) {
    return b->status == SM_OK ? keep(b, sm_plan_add_tensor(b->plan, role, dtype, n_dims, dims, "%s", name))
                              : SM_NO_TENSOR;
}

static int transient(sm_builder *b, sm_dtype dtype, int layer, const char *name, const char *part, int n_dims,
                     const int64_t *dims) {
    char full[SM_NAME_SIZE];
    if (b->status != SM_OK) {
        return SM_NO_TENSOR;
    }
    snprintf(full, sizeof full, "%s%s%s", name, part != NULL ? "." : "", part != NULL ? part : "");
    if (layer < 0) {
        return keep(b, sm_plan_add_tensor(b->plan, SM_ROLE_ACTIVATION, dtype, n_dims, dims, "%s", full));
    }
    return keep(b, sm_plan_add_tensor(b->plan, SM_ROLE_ACTIVATION, dtype, n_dims, dims, "h.%d.%s", layer, full));
}

int sm_build_activation(sm_builder *b, int layer, const char *name, int n_dims, const int64_t *dims) {
    return transient(b, b->plan->dtype, layer, name, NULL, n_dims, dims);
}

int sm_build_statistic(sm_builder *b, int layer, const char *name, const char *what, int n_dims, const int64_t *dims) {
    return transient(b, b->plan->real, layer, name, what, n_dims, dims);
}

void sm_build_op(sm_builder *b, const sm_op *op) {
    if (b->status == SM_OK) {
        b->status = sm_plan_add_op(b->plan, op);
    }
}

int sm_build_value(const sm_builder *b, int kind, int layer) { return sm_params_get(&b->params, kind, layer)->value; }

int sm_build_matrix(const sm_builder *b, int kind, int layer) {
    return sm_params_get(&b->params, kind, layer)->whole_operand;
}

int sm_build_gradient(const sm_builder *b, int kind, int layer) {
    return sm_params_get(&b->params, kind, layer)->whole_gradient;
}

// --- lines of a model -----------------------------------------------------------------------------

int sm_build_embedding(sm_builder *b, int wte_kind, int wpe_kind) {
    sm_op op = sm_op_make(SM_OP_EMBEDDING_FORWARD, SM_PHASE_FORWARD, -1);
    op.in[SM_IN(embedding_forward, token)] = b->plan->tokens;
    op.in[SM_IN(embedding_forward, starts)] = b->plan->starts;
    op.in[SM_IN(embedding_forward, wte)] = sm_build_value(b, wte_kind, -1);
    if (wpe_kind != SM_NO_PARAM) {
        op.in[SM_IN(embedding_forward, wpe)] = sm_build_value(b, wpe_kind, -1);
    }
    op.out[SM_OUT(embedding_forward, x)] = sm_build_activation(b, -1, "encoded", SM_DIMS(b->B, b->T, b->C));
    sm_build_op(b, &op);
    return op.out[SM_OUT(embedding_forward, x)];
}

void sm_build_embedding_backward(sm_builder *b, int dx, int wte_kind, int wpe_kind) {
    sm_op op = sm_op_make(SM_OP_EMBEDDING_BACKWARD, SM_PHASE_BACKWARD, -1);
    op.in[SM_IN(embedding_backward, token)] = b->plan->tokens;
    op.in[SM_IN(embedding_backward, starts)] = b->plan->starts;
    op.in[SM_IN(embedding_backward, dx)] = dx;
    op.out[SM_OUT(embedding_backward, dwte)] = sm_build_gradient(b, wte_kind, -1);
    if (wpe_kind != SM_NO_PARAM) {
        op.out[SM_OUT(embedding_backward, dwpe)] = sm_build_gradient(b, wpe_kind, -1);
    }
    sm_build_op(b, &op);
}

int sm_build_matmul(sm_builder *b, int layer, const char *name, const char *part, int x, int w_kind, int64_t n_cols) {
    sm_op op = sm_op_make(SM_OP_MATMUL_FORWARD, SM_PHASE_FORWARD, layer);
    op.attr.w_transposed = b->config->model->out_by_in;
    op.in[SM_IN(matmul_forward, x)] = x;
    op.in[SM_IN(matmul_forward, W)] = sm_build_matrix(b, w_kind, layer);
    op.out[SM_OUT(matmul_forward, y)] = transient(b, b->plan->dtype, layer, name, part, SM_DIMS(b->B, b->T, n_cols));
    sm_build_op(b, &op);
    return op.out[SM_OUT(matmul_forward, y)];
}

void sm_build_matmul_backward_weight(sm_builder *b, int layer, int x, int dy, int w_kind) {
    sm_op op = sm_op_make(SM_OP_MATMUL_BACKWARD_WEIGHT, SM_PHASE_BACKWARD, layer);
    op.attr.w_transposed = b->config->model->out_by_in;
    op.in[SM_IN(matmul_backward_weight, x)] = x;
    op.in[SM_IN(matmul_backward_weight, dy)] = dy;
    op.out[SM_OUT(matmul_backward_weight, dW)] = sm_build_gradient(b, w_kind, layer);
    sm_build_op(b, &op);
}

int sm_build_matmul_backward_input(sm_builder *b, int layer, const char *dx_name, int dy, int w_kind, int64_t n_cols) {
    sm_op op = sm_op_make(SM_OP_MATMUL_BACKWARD_INPUT, SM_PHASE_BACKWARD, layer);
    op.attr.w_transposed = b->config->model->out_by_in;
    op.in[SM_IN(matmul_backward_input, dy)] = dy;
    op.in[SM_IN(matmul_backward_input, W)] = sm_build_matrix(b, w_kind, layer);
    op.out[SM_OUT(matmul_backward_input, dx)] = sm_build_activation(b, layer, dx_name, SM_DIMS(b->B, b->T, n_cols));
    sm_build_op(b, &op);
    return op.out[SM_OUT(matmul_backward_input, dx)];
}

int sm_build_bias(sm_builder *b, int layer, const char *name, int x, int bias_kind, int64_t n_cols) {
    sm_op op = sm_op_make(SM_OP_BIAS_FORWARD, SM_PHASE_FORWARD, layer);
    op.in[SM_IN(bias_forward, x)] = x;
    op.in[SM_IN(bias_forward, b)] = sm_build_value(b, bias_kind, layer);
    op.out[SM_OUT(bias_forward, y)] = sm_build_activation(b, layer, name, SM_DIMS(b->B, b->T, n_cols));
    sm_build_op(b, &op);
    return op.out[SM_OUT(bias_forward, y)];
}

void sm_build_bias_backward(sm_builder *b, int layer, int dy, int bias_kind) {
    sm_op op = sm_op_make(SM_OP_BIAS_BACKWARD, SM_PHASE_BACKWARD, layer);
    op.in[SM_IN(bias_backward, dy)] = dy;
    op.out[SM_OUT(bias_backward, db)] = sm_build_gradient(b, bias_kind, layer);
    sm_build_op(b, &op);
}

// Forward and backward of one dropout draw the same mask: by its name.
static uint64_t mask_key(const sm_builder *b, int layer, const char *mask_name) {
    char full[SM_NAME_SIZE];
    snprintf(full, sizeof full, "h.%d.%s", layer, mask_name);
    return sm_philox_key(b->options->seed, layer < 0 ? mask_name : full);
}

int sm_build_dropout(sm_builder *b, sm_phase phase, int layer, const char *mask_name, const char *name, int x) {
    if (!(b->options->dropout_p > 0)) {
        return x;
    }
    sm_op op = sm_op_make(SM_OP_DROPOUT, phase, layer);
    op.attr.dropout_p = b->options->dropout_p;
    op.attr.rng_key = mask_key(b, layer, mask_name);
    op.in[SM_IN(dropout, x)] = x;
    op.in[SM_IN(dropout, rng_step)] = b->plan->rng_step;
    op.out[SM_OUT(dropout, y)] = sm_build_activation(b, layer, name, SM_DIMS(b->B, b->T, b->C));
    sm_build_op(b, &op);
    return op.out[SM_OUT(dropout, y)];
}

int sm_build_residual(sm_builder *b, sm_phase phase, int layer, const char *name, int skip, int branch) {
    sm_op op = sm_op_make(SM_OP_RESIDUAL, phase, layer);
    op.in[SM_IN(residual, a)] = skip;
    op.in[SM_IN(residual, b)] = branch;
    op.out[SM_OUT(residual, y)] = sm_build_activation(b, layer, name, SM_DIMS(b->B, b->T, b->C));
    sm_build_op(b, &op);
    return op.out[SM_OUT(residual, y)];
}

static sm_op attention_op(const sm_builder *b, sm_op_kind kind, sm_phase phase, int layer) {
    sm_op op = sm_op_make(kind, phase, layer);
    op.attr.n_head = (int)b->config->n_head;
    op.attr.n_kv_head = (int)sm_model_n_kv_head(b->config);
    if (b->options->dropout_p > 0) {
        op.attr.dropout_p = b->options->dropout_p;
        op.attr.rng_key = mask_key(b, layer, "attn.dropout");
    }
    return op;
}

int sm_build_attention(sm_builder *b, int layer, int qkv, int *att) {
    sm_op op = attention_op(b, SM_OP_ATTENTION_FORWARD, SM_PHASE_FORWARD, layer);
    op.in[SM_IN(attention_forward, qkv)] = qkv;
    op.in[SM_IN(attention_forward, rng_step)] = b->plan->rng_step;
    op.in[SM_IN(attention_forward, starts)] = b->plan->starts;
    op.out[SM_OUT(attention_forward, y)] = sm_build_activation(b, layer, "atty", SM_DIMS(b->B, b->T, b->C));
    op.out[SM_OUT(attention_forward, att)] = *att =
        sm_build_activation(b, layer, "att", SM_DIMS(b->B, b->config->n_head, b->T, b->T));
    sm_build_op(b, &op);
    return op.out[SM_OUT(attention_forward, y)];
}

int sm_build_attention_backward(sm_builder *b, int layer, int dy, int qkv, int att) {
    sm_op op = attention_op(b, SM_OP_ATTENTION_BACKWARD, SM_PHASE_BACKWARD, layer);
    op.in[SM_IN(attention_backward, dy)] = dy;
    op.in[SM_IN(attention_backward, qkv)] = qkv;
    op.in[SM_IN(attention_backward, att)] = att;
    op.in[SM_IN(attention_backward, rng_step)] = b->plan->rng_step;
    op.in[SM_IN(attention_backward, starts)] = b->plan->starts;
    op.out[SM_OUT(attention_backward, dqkv)] = sm_build_activation(b, layer, "d.qkv", SM_DIMS(b->B, b->T, b->QKV));
    sm_build_op(b, &op);
    return op.out[SM_OUT(attention_backward, dqkv)];
}

// --- the loss ---------------------------------------------------------------------------------------

static int logits_of(sm_builder *b, int x, int w_kind) {
    sm_op op = sm_op_make(SM_OP_MATMUL_FORWARD, SM_PHASE_FORWARD, -1);
    op.attr.w_transposed = true;
    op.attr.vocab = b->V;
    op.in[SM_IN(matmul_forward, x)] = x;
    op.in[SM_IN(matmul_forward, W)] = sm_build_matrix(b, w_kind, -1);
    op.out[SM_OUT(matmul_forward, y)] = sm_build_activation(b, -1, "logits", SM_DIMS(b->B, b->T, b->Vp));
    sm_build_op(b, &op);
    return op.out[SM_OUT(matmul_forward, y)];
}

void sm_build_loss(sm_builder *b, int x, int w_kind, int *logits, int *lse) {
    *logits = logits_of(b, x, w_kind);
    sm_op op = sm_op_make(SM_OP_CROSSENTROPY_FORWARD, SM_PHASE_FORWARD, -1);
    op.attr.vocab = b->V;
    op.in[SM_IN(crossentropy_forward, logits)] = *logits;
    op.in[SM_IN(crossentropy_forward, target)] = b->plan->targets;
    op.out[SM_OUT(crossentropy_forward, losses)] = b->plan->losses;
    op.out[SM_OUT(crossentropy_forward, lse)] = *lse = sm_build_statistic(b, -1, "logits", "lse", SM_DIMS(b->B, b->T));
    sm_build_op(b, &op);
    sm_op mean = sm_op_make(SM_OP_LOSS_MEAN, SM_PHASE_FORWARD, -1);
    mean.in[SM_IN(loss_mean, losses)] = b->plan->losses;
    mean.in[SM_IN(loss_mean, target)] = b->plan->targets;
    mean.out[SM_OUT(loss_mean, loss)] = b->plan->loss;
    sm_build_op(b, &mean);
}

int sm_build_loss_backward(sm_builder *b, const char *dx_name, int x, int w_kind, int logits, int lse) {
    sm_op loss = sm_op_make(SM_OP_CROSSENTROPY_BACKWARD, SM_PHASE_BACKWARD, -1);
    loss.attr.vocab = b->V;
    loss.in[SM_IN(crossentropy_backward, logits)] = logits;
    loss.in[SM_IN(crossentropy_backward, target)] = b->plan->targets;
    loss.in[SM_IN(crossentropy_backward, lse)] = lse;
    loss.in[SM_IN(crossentropy_backward, scale)] = b->scale;
    loss.out[SM_OUT(crossentropy_backward, dlogits)] =
        sm_build_activation(b, -1, "d.logits", SM_DIMS(b->B, b->T, b->Vp));
    sm_build_op(b, &loss);
    sm_op dw = sm_op_make(SM_OP_MATMUL_BACKWARD_WEIGHT, SM_PHASE_BACKWARD, -1);
    dw.attr.w_transposed = true;
    dw.attr.vocab = b->V;
    dw.in[SM_IN(matmul_backward_weight, x)] = x;
    dw.in[SM_IN(matmul_backward_weight, dy)] = loss.out[SM_OUT(crossentropy_backward, dlogits)];
    dw.out[SM_OUT(matmul_backward_weight, dW)] = sm_build_gradient(b, w_kind, -1);
    sm_build_op(b, &dw);
    sm_op dx = sm_op_make(SM_OP_MATMUL_BACKWARD_INPUT, SM_PHASE_BACKWARD, -1);
    dx.attr.w_transposed = true;
    dx.attr.vocab = b->V;
    dx.in[SM_IN(matmul_backward_input, dy)] = loss.out[SM_OUT(crossentropy_backward, dlogits)];
    dx.in[SM_IN(matmul_backward_input, W)] = sm_build_matrix(b, w_kind, -1);
    dx.out[SM_OUT(matmul_backward_input, dx)] = sm_build_activation(b, -1, dx_name, SM_DIMS(b->B, b->T, b->C));
    sm_build_op(b, &dx);
    return dx.out[SM_OUT(matmul_backward_input, dx)];
}

// --- around the model -------------------------------------------------------------------------------

static void add_params(sm_builder *b) {
    const int n_kinds = b->config->model->params(b->config, b->specs);
    b->status = sm_params_add(b->plan, b->specs, n_kinds, (int)b->config->n_layer, b->options->backward,
                              b->options->max_tensor_bytes, &b->params);
    if (b->status == SM_OK && b->options->backward && b->plan->processes.n > 1) {
        b->status = sm_params_cut(b->plan, &b->params);
    }
}

static void add_batch_and_results(sm_builder *b) {
    sm_plan *plan = b->plan;
    plan->tokens = lasting(b, SM_ROLE_BATCH, SM_I32, "tokens", SM_DIMS(b->B, b->T));
    plan->targets = lasting(b, SM_ROLE_BATCH, SM_I32, "targets", SM_DIMS(b->B, b->T));
    if (b->options->documents) {
        plan->starts = lasting(b, SM_ROLE_BATCH, SM_I32, "starts", SM_DIMS(b->B, b->T));
    }
    plan->hyper = lasting(b, SM_ROLE_BATCH, plan->real, "hyper", SM_DIMS(SM_HYPER_COUNT));
    if (b->options->dropout_p > 0) {
        plan->rng_step = lasting(b, SM_ROLE_BATCH, SM_U32, "rng_step", SM_DIMS(2));
    }
    plan->losses = lasting(b, SM_ROLE_RESULT, plan->real, "losses", SM_DIMS(b->B, b->T));
    plan->loss = lasting(b, SM_ROLE_RESULT, plan->real, "loss", SM_DIMS(1));
    if (b->options->backward && b->options->scaling.scale > 0) {
        plan->scaling = b->options->scaling;
        plan->scaler = lasting(b, SM_ROLE_OPTIMIZER, plan->real, SM_SCALER_NAME, SM_DIMS(SM_SCALER_COUNT));
        if (plan->scaler != SM_NO_TENSOR) {
            plan->tensors[plan->scaler].is_saved = true;
        }
    }
    if (b->options->optimizer != NULL) {
        plan->grad_norm = lasting(b, SM_ROLE_RESULT, plan->real, "grad_norm", SM_DIMS(1));
    }
}

static void zero_grad(sm_builder *b) {
    for (int g = 0; g < b->params.n_groups; g++) {
        sm_op op = sm_op_make(SM_OP_ZERO, SM_PHASE_ZERO_GRAD, -1);
        op.out[SM_OUT(zero, x)] = b->params.groups[g].gradient;
        sm_build_op(b, &op);
    }
}

static void loss_scale(sm_builder *b) {
    sm_op op = sm_op_make(SM_OP_LOSS_SCALE, SM_PHASE_FORWARD, -1);
    op.in[SM_IN(loss_scale, targets)] = b->plan->targets;
    op.in[SM_IN(loss_scale, hyper)] = b->plan->hyper;
    op.in[SM_IN(loss_scale, scaler)] = b->plan->scaler;
    op.out[SM_OUT(loss_scale, scale)] = b->scale = sm_build_statistic(b, -1, "loss_scale", NULL, SM_DIMS(1));
    sm_build_op(b, &op);
}

static void build_step(sm_builder *b) {
    add_params(b);
    if (b->status != SM_OK) {
        return; // nothing below could be named
    }
    add_batch_and_results(b);
    if (b->options->backward) {
        zero_grad(b);
        loss_scale(b);
    }
    b->config->model->build(b);
    if (b->options->optimizer != NULL && b->status == SM_OK) {
        b->status = sm_optimizer_build(b->options->optimizer, b->plan, &b->params);
    }
}

static sm_status check_options(const sm_model_config *config, const sm_plan_options *options) {
    SM_TRY(sm_model_check(config));
    if (options->B < 1 || options->B > INT32_MAX) {
        return sm_fail(SM_ERR_INVALID, "batch size %lld is out of range; use 1 or more", (long long)options->B);
    }
    if (options->T < 1 || options->T > config->context) {
        return sm_fail(SM_ERR_INVALID,
                       "sequence length %lld does not fit the context of %lld; use a shorter one or a larger --context",
                       (long long)options->T, (long long)config->context);
    }
    if (!(options->dropout_p >= 0 && options->dropout_p < 1)) {
        return sm_fail(SM_ERR_INVALID, "dropout %g is out of range; use 0 or more, below 1", options->dropout_p);
    }
    if (options->optimizer != NULL && !options->backward) {
        return sm_fail(SM_ERR_INTERNAL, "a plan with an optimizer needs its backward");
    }
    return SM_OK;
}

sm_status sm_model_build(const sm_model_config *config, const sm_plan_options *options, sm_plan **plan) {
    *plan = NULL;
    SM_TRY(check_options(config, options));
    sm_builder b = {
        .plan = sm_plan_new(options->dtype),
        .config = config,
        .options = options,
        .B = options->B,
        .T = options->T,
        .C = config->d_model,
        .F = config->d_ff,
        .V = config->vocab,
        .Vp = sm_model_padded_vocab(config),
        .QKV = config->d_model / config->n_head * (config->n_head + 2 * sm_model_n_kv_head(config)),
        .scale = SM_NO_TENSOR,
        .status = SM_OK,
    };
    if (b.plan == NULL) {
        b.status = sm_fail(SM_ERR_OOM, "plan: no memory");
    } else {
        b.plan->products = options->products;
        b.plan->n_params = sm_model_n_params(config);
        b.plan->B = b.B;
        b.plan->T = b.T;
        b.plan->V = b.V;
        b.plan->one_micro_batch = options->one_micro_batch;
        b.plan->recompute = options->recompute;
        b.plan->processes = options->processes;
        b.plan->attention = options->attention;
        build_step(&b);
    }
    sm_params_free(&b.params);
    if (b.status != SM_OK) {
        sm_plan_free(b.plan);
        return b.status;
    }
    *plan = b.plan;
    return SM_OK;
}
