// gpt2_build.c: the plan of GPT-2's training step: forward top to bottom, backward bottom to
// top, update. Architecture: Radford et al. 2019, section 2.3 (pre-LayerNorm, final LayerNorm);
// Radford et al. 2018, section 3.1 (learned positions, tied head).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpt2.h"
#include "gpt2_params.h"
#include "philox.h"

// What a block's forward leaves for its backward: tensor indices.
typedef struct {
    int x, ln1, ln1_mean, ln1_rstd, qkv, atty, att;
    int res, ln2, ln2_mean, ln2_rstd, fc, gelu;
} block;

typedef struct {
    sm_plan *plan;
    const sm_gpt2_config *config;
    const sm_gpt2_options *options;
    int64_t B, T, C, F, V, Vp;
    gpt2_params params;
    block *blocks;
    int clip;         // tensor: the factor on the gradients
    sm_status status; // the first failure; what comes after it does nothing
} builder;

// --- the builder's vocabulary ---------------------------------------------------------------

#define DIMS(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

// Remembers a failed allocation of a tensor; passes the index through.
static int keep(builder *b, int tensor) {
    if (tensor == SM_NO_TENSOR && b->status == SM_OK) {
        b->status = SM_ERR_INVALID; // its message was set where it failed
    }
    return tensor;
}

static int lasting(builder *b, sm_role role, sm_dtype dtype, const char *name, int n_dims, const int64_t *dims) {
    return b->status == SM_OK ? keep(b, sm_plan_add_tensor(b->plan, role, dtype, n_dims, dims, "%s", name))
                              : SM_NO_TENSOR;
}

static int transient(builder *b, sm_dtype dtype, int layer, const char *name, int n_dims, const int64_t *dims) {
    if (b->status != SM_OK) {
        return SM_NO_TENSOR;
    }
    if (layer < 0) {
        return keep(b, sm_plan_add_tensor(b->plan, SM_ROLE_ACTIVATION, dtype, n_dims, dims, "%s", name));
    }
    return keep(b, sm_plan_add_tensor(b->plan, SM_ROLE_ACTIVATION, dtype, n_dims, dims, "h.%d.%s", layer, name));
}

// An activation of a layer, or its gradient: "h.3.ln1".
static int activation(builder *b, int layer, const char *name, int n_dims, const int64_t *dims) {
    return transient(b, b->plan->dtype, layer, name, n_dims, dims);
}

// What must not be rounded to the data type: "h.3.ln1.mean".
static int statistic(builder *b, int layer, const char *name, int n_dims, const int64_t *dims) {
    return transient(b, b->plan->real, layer, name, n_dims, dims);
}

static void emit(builder *b, sm_op op) {
    if (b->status == SM_OK) {
        b->status = sm_plan_add_op(b->plan, &op);
    }
}

static int value(const builder *b, param_kind kind, int layer) {
    return gpt2_params_get(&b->params, kind, layer)->value;
}
// What a matmul reads of a matrix.
static int matrix(const builder *b, param_kind kind, int layer) {
    return gpt2_params_get(&b->params, kind, layer)->operand;
}
static int gradient(const builder *b, param_kind kind, int layer) {
    return gpt2_params_get(&b->params, kind, layer)->gradient;
}

static void add_batch_and_results(builder *b) {
    sm_plan *plan = b->plan;
    plan->tokens = lasting(b, SM_ROLE_BATCH, SM_I32, "tokens", DIMS(b->B, b->T));
    plan->targets = lasting(b, SM_ROLE_BATCH, SM_I32, "targets", DIMS(b->B, b->T));
    plan->hyper = lasting(b, SM_ROLE_BATCH, plan->real, "hyper", DIMS(SM_HYPER_COUNT));
    if (b->options->dropout_p > 0) {
        plan->rng_step = lasting(b, SM_ROLE_BATCH, SM_U32, "rng_step", DIMS(2));
    }
    plan->losses = lasting(b, SM_ROLE_RESULT, plan->real, "losses", DIMS(b->B, b->T));
    plan->loss = lasting(b, SM_ROLE_RESULT, plan->real, "loss", DIMS(1));
    if (b->options->optimizer) {
        plan->grad_norm = lasting(b, SM_ROLE_RESULT, plan->real, "grad_norm", DIMS(1));
    }
}

// --- forward ------------------------------------------------------------------------------------

// y = x W + b
static int linear(builder *b, int layer, const char *name, int x, param_kind w, param_kind bias, int64_t n_cols) {
    char product[SM_NAME_SIZE];
    snprintf(product, sizeof product, "%s.xw", name);
    sm_op matmul = sm_op_make(SM_OP_MATMUL_FORWARD, SM_PHASE_FORWARD, layer);
    matmul.in[SM_IN(matmul_forward, x)] = x;
    matmul.in[SM_IN(matmul_forward, W)] = matrix(b, w, layer);
    matmul.out[SM_OUT(matmul_forward, y)] = activation(b, layer, product, DIMS(b->B, b->T, n_cols));
    emit(b, matmul);
    sm_op add = sm_op_make(SM_OP_BIAS_FORWARD, SM_PHASE_FORWARD, layer);
    add.in[SM_IN(bias_forward, x)] = matmul.out[SM_OUT(matmul_forward, y)];
    add.in[SM_IN(bias_forward, b)] = value(b, bias, layer);
    add.out[SM_OUT(bias_forward, y)] = activation(b, layer, name, DIMS(b->B, b->T, n_cols));
    emit(b, add);
    return add.out[SM_OUT(bias_forward, y)];
}

static int layernorm(builder *b, int layer, const char *name, int x, param_kind w, param_kind bias, int *mean,
                     int *rstd) {
    char stat[SM_NAME_SIZE];
    sm_op op = sm_op_make(SM_OP_LAYERNORM_FORWARD, SM_PHASE_FORWARD, layer);
    op.attr.eps = b->config->layernorm_eps;
    op.in[SM_IN(layernorm_forward, x)] = x;
    op.in[SM_IN(layernorm_forward, w)] = value(b, w, layer);
    op.in[SM_IN(layernorm_forward, b)] = value(b, bias, layer);
    op.out[SM_OUT(layernorm_forward, y)] = activation(b, layer, name, DIMS(b->B, b->T, b->C));
    snprintf(stat, sizeof stat, "%s.mean", name);
    op.out[SM_OUT(layernorm_forward, mean)] = *mean = statistic(b, layer, stat, DIMS(b->B, b->T));
    snprintf(stat, sizeof stat, "%s.rstd", name);
    op.out[SM_OUT(layernorm_forward, rstd)] = *rstd = statistic(b, layer, stat, DIMS(b->B, b->T));
    emit(b, op);
    return op.out[SM_OUT(layernorm_forward, y)];
}

// Forward and backward of one dropout draw the same mask: by its name.
static uint64_t mask_key(const builder *b, int layer, const char *mask_name) {
    char full[SM_NAME_SIZE];
    snprintf(full, sizeof full, "h.%d.%s", layer, mask_name);
    return sm_philox_key(b->options->seed, layer < 0 ? mask_name : full);
}

// Dropout of forward's `mask_name`, on the activation or on its gradient; x itself when p is 0.
static int dropout(builder *b, sm_phase phase, int layer, const char *mask_name, const char *name, int x) {
    if (!(b->options->dropout_p > 0)) {
        return x;
    }
    sm_op op = sm_op_make(SM_OP_DROPOUT, phase, layer);
    op.attr.dropout_p = b->options->dropout_p;
    op.attr.rng_key = mask_key(b, layer, mask_name);
    op.in[SM_IN(dropout, x)] = x;
    op.in[SM_IN(dropout, rng_step)] = b->plan->rng_step;
    op.out[SM_OUT(dropout, y)] = activation(b, layer, name, DIMS(b->B, b->T, b->C));
    emit(b, op);
    return op.out[SM_OUT(dropout, y)];
}

static int residual(builder *b, sm_phase phase, int layer, const char *name, int skip, int branch) {
    sm_op op = sm_op_make(SM_OP_RESIDUAL, phase, layer);
    op.in[SM_IN(residual, a)] = skip;
    op.in[SM_IN(residual, b)] = branch;
    op.out[SM_OUT(residual, y)] = activation(b, layer, name, DIMS(b->B, b->T, b->C));
    emit(b, op);
    return op.out[SM_OUT(residual, y)];
}

static sm_op attention_op(const builder *b, sm_op_kind kind, sm_phase phase, int layer) {
    sm_op op = sm_op_make(kind, phase, layer);
    op.attr.n_head = op.attr.n_kv_head = (int)b->config->n_head;
    op.attr.dropout_p = b->options->dropout_p;
    op.attr.rng_key = mask_key(b, layer, "attn.dropout");
    return op;
}

static void attention(builder *b, int layer, block *s) {
    sm_op op = attention_op(b, SM_OP_ATTENTION_FORWARD, SM_PHASE_FORWARD, layer);
    op.in[SM_IN(attention_forward, qkv)] = s->qkv;
    op.in[SM_IN(attention_forward, rng_step)] = b->plan->rng_step;
    op.out[SM_OUT(attention_forward, y)] = s->atty = activation(b, layer, "atty", DIMS(b->B, b->T, b->C));
    op.out[SM_OUT(attention_forward, att)] = s->att =
        activation(b, layer, "att", DIMS(b->B, b->config->n_head, b->T, b->T));
    emit(b, op);
}

static int gelu(builder *b, int layer, int x) {
    sm_op op = sm_op_make(SM_OP_GELU_FORWARD, SM_PHASE_FORWARD, layer);
    op.in[SM_IN(gelu_forward, x)] = x;
    op.out[SM_OUT(gelu_forward, y)] = activation(b, layer, "gelu", DIMS(b->B, b->T, b->F));
    emit(b, op);
    return op.out[SM_OUT(gelu_forward, y)];
}

static int block_forward(builder *b, int layer, int x) {
    block *s = &b->blocks[layer];
    s->x = x;                                                                         // (B,T,C)
    s->ln1 = layernorm(b, layer, "ln1", x, LN1_W, LN1_B, &s->ln1_mean, &s->ln1_rstd); // (B,T,C)
    s->qkv = linear(b, layer, "qkv", s->ln1, QKV_W, QKV_B, 3 * b->C);                 // (B,T,3C)
    attention(b, layer, s);                                                           // (B,T,C)
    int proj = linear(b, layer, "attproj", s->atty, ATTN_PROJ_W, ATTN_PROJ_B, b->C);  // (B,T,C)
    proj = dropout(b, SM_PHASE_FORWARD, layer, "attproj.dropout", "attproj.dropped", proj);
    s->res = residual(b, SM_PHASE_FORWARD, layer, "res1", x, proj);                        // (B,T,C)
    s->ln2 = layernorm(b, layer, "ln2", s->res, LN2_W, LN2_B, &s->ln2_mean, &s->ln2_rstd); // (B,T,C)
    s->fc = linear(b, layer, "fc", s->ln2, FC_W, FC_B, b->F);                              // (B,T,F)
    s->gelu = gelu(b, layer, s->fc);                                                       // (B,T,F)
    int mlp = linear(b, layer, "mlpproj", s->gelu, MLP_PROJ_W, MLP_PROJ_B, b->C);          // (B,T,C)
    mlp = dropout(b, SM_PHASE_FORWARD, layer, "mlpproj.dropout", "mlpproj.dropped", mlp);
    return residual(b, SM_PHASE_FORWARD, layer, "res2", s->res, mlp); // (B,T,C)
}

static int embedding(builder *b) {
    sm_op op = sm_op_make(SM_OP_EMBEDDING_FORWARD, SM_PHASE_FORWARD, -1);
    op.in[SM_IN(embedding_forward, token)] = b->plan->tokens;
    op.in[SM_IN(embedding_forward, wte)] = value(b, WTE, -1);
    op.in[SM_IN(embedding_forward, wpe)] = value(b, WPE, -1);
    op.out[SM_OUT(embedding_forward, x)] = activation(b, -1, "encoded", DIMS(b->B, b->T, b->C));
    emit(b, op);
    return dropout(b, SM_PHASE_FORWARD, -1, "encoded.dropout", "encoded.dropped", op.out[SM_OUT(embedding_forward, x)]);
}

// The head is tied: logits = lnf wte^T.
static int head(builder *b, int lnf) {
    sm_op op = sm_op_make(SM_OP_MATMUL_FORWARD, SM_PHASE_FORWARD, -1);
    op.attr.w_transposed = true;
    op.attr.vocab = b->V;
    op.in[SM_IN(matmul_forward, x)] = lnf;
    op.in[SM_IN(matmul_forward, W)] = matrix(b, WTE, -1);
    op.out[SM_OUT(matmul_forward, y)] = activation(b, -1, "logits", DIMS(b->B, b->T, b->Vp));
    emit(b, op);
    return op.out[SM_OUT(matmul_forward, y)];
}

static int crossentropy(builder *b, int logits) {
    sm_op op = sm_op_make(SM_OP_CROSSENTROPY_FORWARD, SM_PHASE_FORWARD, -1);
    op.attr.vocab = b->V;
    op.in[SM_IN(crossentropy_forward, logits)] = logits;
    op.in[SM_IN(crossentropy_forward, target)] = b->plan->targets;
    op.out[SM_OUT(crossentropy_forward, losses)] = b->plan->losses;
    op.out[SM_OUT(crossentropy_forward, lse)] = statistic(b, -1, "logits.lse", DIMS(b->B, b->T));
    emit(b, op);
    sm_op mean = sm_op_make(SM_OP_LOSS_MEAN, SM_PHASE_FORWARD, -1);
    mean.in[SM_IN(loss_mean, losses)] = b->plan->losses;
    mean.in[SM_IN(loss_mean, target)] = b->plan->targets;
    mean.out[SM_OUT(loss_mean, loss)] = b->plan->loss;
    emit(b, mean);
    return op.out[SM_OUT(crossentropy_forward, lse)];
}

static int loss_scale(builder *b) {
    sm_op op = sm_op_make(SM_OP_LOSS_SCALE, SM_PHASE_FORWARD, -1);
    op.in[SM_IN(loss_scale, targets)] = b->plan->targets;
    op.in[SM_IN(loss_scale, hyper)] = b->plan->hyper;
    op.out[SM_OUT(loss_scale, scale)] = statistic(b, -1, "loss_scale", DIMS(1));
    emit(b, op);
    return op.out[SM_OUT(loss_scale, scale)];
}

// --- backward -----------------------------------------------------------------------------------

// Gradients of y = x W + b: into W's and b's, and dx, which is returned.
static int linear_backward(builder *b, int layer, const char *dx_name, int x, int dy, param_kind w, param_kind bias,
                           int64_t n_cols) {
    sm_op db = sm_op_make(SM_OP_BIAS_BACKWARD, SM_PHASE_BACKWARD, layer);
    db.in[SM_IN(bias_backward, dy)] = dy;
    db.out[SM_OUT(bias_backward, db)] = gradient(b, bias, layer);
    emit(b, db);
    sm_op dw = sm_op_make(SM_OP_MATMUL_BACKWARD_WEIGHT, SM_PHASE_BACKWARD, layer);
    dw.in[SM_IN(matmul_backward_weight, x)] = x;
    dw.in[SM_IN(matmul_backward_weight, dy)] = dy;
    dw.out[SM_OUT(matmul_backward_weight, dW)] = gradient(b, w, layer);
    emit(b, dw);
    sm_op dx = sm_op_make(SM_OP_MATMUL_BACKWARD_INPUT, SM_PHASE_BACKWARD, layer);
    dx.in[SM_IN(matmul_backward_input, dy)] = dy;
    dx.in[SM_IN(matmul_backward_input, W)] = matrix(b, w, layer);
    dx.out[SM_OUT(matmul_backward_input, dx)] = activation(b, layer, dx_name, DIMS(b->B, b->T, n_cols));
    emit(b, dx);
    return dx.out[SM_OUT(matmul_backward_input, dx)];
}

static int layernorm_backward(builder *b, int layer, const char *dx_name, int dy, int x, int mean, int rstd,
                              param_kind w, param_kind bias) {
    sm_op op = sm_op_make(SM_OP_LAYERNORM_BACKWARD, SM_PHASE_BACKWARD, layer);
    op.attr.eps = b->config->layernorm_eps;
    op.in[SM_IN(layernorm_backward, dy)] = dy;
    op.in[SM_IN(layernorm_backward, x)] = x;
    op.in[SM_IN(layernorm_backward, w)] = value(b, w, layer);
    op.in[SM_IN(layernorm_backward, mean)] = mean;
    op.in[SM_IN(layernorm_backward, rstd)] = rstd;
    op.out[SM_OUT(layernorm_backward, dx)] = activation(b, layer, dx_name, DIMS(b->B, b->T, b->C));
    op.out[SM_OUT(layernorm_backward, dw)] = gradient(b, w, layer);
    op.out[SM_OUT(layernorm_backward, db)] = gradient(b, bias, layer);
    emit(b, op);
    return op.out[SM_OUT(layernorm_backward, dx)];
}

static int gelu_backward(builder *b, int layer, int dy, int x) {
    sm_op op = sm_op_make(SM_OP_GELU_BACKWARD, SM_PHASE_BACKWARD, layer);
    op.in[SM_IN(gelu_backward, dy)] = dy;
    op.in[SM_IN(gelu_backward, x)] = x;
    op.out[SM_OUT(gelu_backward, dx)] = activation(b, layer, "d.fc", DIMS(b->B, b->T, b->F));
    emit(b, op);
    return op.out[SM_OUT(gelu_backward, dx)];
}

static int attention_backward(builder *b, int layer, int dy) {
    const block *s = &b->blocks[layer];
    sm_op op = attention_op(b, SM_OP_ATTENTION_BACKWARD, SM_PHASE_BACKWARD, layer);
    op.in[SM_IN(attention_backward, dy)] = dy;
    op.in[SM_IN(attention_backward, qkv)] = s->qkv;
    op.in[SM_IN(attention_backward, att)] = s->att;
    op.in[SM_IN(attention_backward, rng_step)] = b->plan->rng_step;
    op.out[SM_OUT(attention_backward, dqkv)] = activation(b, layer, "d.qkv", DIMS(b->B, b->T, 3 * b->C));
    emit(b, op);
    return op.out[SM_OUT(attention_backward, dqkv)];
}

// The lines of block_forward from bottom to top. `d` is the gradient of the block's output.
static int block_backward(builder *b, int layer, int d) {
    const block *s = &b->blocks[layer];
    int dmlp = dropout(b, SM_PHASE_BACKWARD, layer, "mlpproj.dropout", "d.mlpproj", d);
    int dgelu = linear_backward(b, layer, "d.gelu", s->gelu, dmlp, MLP_PROJ_W, MLP_PROJ_B, b->F);
    int dfc = gelu_backward(b, layer, dgelu, s->fc);
    int dln2 = linear_backward(b, layer, "d.ln2", s->ln2, dfc, FC_W, FC_B, b->C);
    int dres = layernorm_backward(b, layer, "d.res1.ln2", dln2, s->res, s->ln2_mean, s->ln2_rstd, LN2_W, LN2_B);
    dres = residual(b, SM_PHASE_BACKWARD, layer, "d.res1", d, dres);
    int dproj = dropout(b, SM_PHASE_BACKWARD, layer, "attproj.dropout", "d.attproj", dres);
    int datty = linear_backward(b, layer, "d.atty", s->atty, dproj, ATTN_PROJ_W, ATTN_PROJ_B, b->C);
    int dqkv = attention_backward(b, layer, datty);
    int dln1 = linear_backward(b, layer, "d.ln1", s->ln1, dqkv, QKV_W, QKV_B, b->C);
    int dx = layernorm_backward(b, layer, "d.x.ln1", dln1, s->x, s->ln1_mean, s->ln1_rstd, LN1_W, LN1_B);
    return residual(b, SM_PHASE_BACKWARD, layer, "d.x", dres, dx);
}

static int head_backward(builder *b, int lnf, int logits, int lse, int scale) {
    sm_op loss = sm_op_make(SM_OP_CROSSENTROPY_BACKWARD, SM_PHASE_BACKWARD, -1);
    loss.attr.vocab = b->V;
    loss.in[SM_IN(crossentropy_backward, logits)] = logits;
    loss.in[SM_IN(crossentropy_backward, target)] = b->plan->targets;
    loss.in[SM_IN(crossentropy_backward, lse)] = lse;
    loss.in[SM_IN(crossentropy_backward, scale)] = scale;
    loss.out[SM_OUT(crossentropy_backward, dlogits)] = activation(b, -1, "d.logits", DIMS(b->B, b->T, b->Vp));
    emit(b, loss);
    sm_op dw = sm_op_make(SM_OP_MATMUL_BACKWARD_WEIGHT, SM_PHASE_BACKWARD, -1);
    dw.attr.w_transposed = true;
    dw.attr.vocab = b->V;
    dw.in[SM_IN(matmul_backward_weight, x)] = lnf;
    dw.in[SM_IN(matmul_backward_weight, dy)] = loss.out[SM_OUT(crossentropy_backward, dlogits)];
    dw.out[SM_OUT(matmul_backward_weight, dW)] = gradient(b, WTE, -1);
    emit(b, dw);
    sm_op dx = sm_op_make(SM_OP_MATMUL_BACKWARD_INPUT, SM_PHASE_BACKWARD, -1);
    dx.attr.w_transposed = true;
    dx.attr.vocab = b->V;
    dx.in[SM_IN(matmul_backward_input, dy)] = loss.out[SM_OUT(crossentropy_backward, dlogits)];
    dx.in[SM_IN(matmul_backward_input, W)] = matrix(b, WTE, -1);
    dx.out[SM_OUT(matmul_backward_input, dx)] = activation(b, -1, "d.lnf", DIMS(b->B, b->T, b->C));
    emit(b, dx);
    return dx.out[SM_OUT(matmul_backward_input, dx)];
}

static void embedding_backward(builder *b, int d) {
    d = dropout(b, SM_PHASE_BACKWARD, -1, "encoded.dropout", "d.encoded", d);
    sm_op op = sm_op_make(SM_OP_EMBEDDING_BACKWARD, SM_PHASE_BACKWARD, -1);
    op.in[SM_IN(embedding_backward, token)] = b->plan->tokens;
    op.in[SM_IN(embedding_backward, dx)] = d;
    op.out[SM_OUT(embedding_backward, dwte)] = gradient(b, WTE, -1);
    op.out[SM_OUT(embedding_backward, dwpe)] = gradient(b, WPE, -1);
    emit(b, op);
}

// --- update ---------------------------------------------------------------------------------------

static void zero_grad(builder *b) {
    for (int g = 0; g < b->params.n_groups; g++) {
        sm_op op = sm_op_make(SM_OP_ZERO, SM_PHASE_ZERO_GRAD, -1);
        op.out[SM_OUT(zero, x)] = b->params.groups[g].gradient;
        emit(b, op);
    }
}

static void clip_gradients(builder *b) {
    int sqnorms = statistic(b, -1, "sqnorms", DIMS(b->params.n_groups));
    for (int g = 0; g < b->params.n_groups && b->status == SM_OK; g++) {
        sm_op op = sm_op_make(SM_OP_GRAD_SQNORM, SM_PHASE_OPTIMIZER, -1);
        op.in[SM_IN(grad_sqnorm, g)] = b->params.groups[g].gradient;
        op.out[SM_OUT(grad_sqnorm, sqnorm)] = keep(b, sm_plan_add_view(b->plan, sqnorms, g, DIMS(1), "sqnorms.%d", g));
        emit(b, op);
    }
    sm_op op = sm_op_make(SM_OP_GRAD_CLIP, SM_PHASE_OPTIMIZER, -1);
    op.in[SM_IN(grad_clip, sqnorm)] = sqnorms;
    op.in[SM_IN(grad_clip, hyper)] = b->plan->hyper;
    op.out[SM_OUT(grad_clip, norm)] = b->plan->grad_norm;
    op.out[SM_OUT(grad_clip, clip)] = b->clip = statistic(b, -1, "clip", DIMS(1));
    emit(b, op);
}

static void update(builder *b) {
    clip_gradients(b);
    for (int g = 0; g < b->params.n_groups; g++) {
        sm_op op = sm_op_make(SM_OP_ADAMW, SM_PHASE_OPTIMIZER, -1);
        op.attr.decay = b->params.groups[g].is_matrix;
        op.in[SM_IN(adamw, g)] = b->params.groups[g].gradient;
        op.in[SM_IN(adamw, hyper)] = b->plan->hyper;
        op.in[SM_IN(adamw, clip)] = b->clip;
        op.out[SM_OUT(adamw, p)] = b->params.groups[g].value;
        op.out[SM_OUT(adamw, m)] = b->params.groups[g].m;
        op.out[SM_OUT(adamw, v)] = b->params.groups[g].v;
        op.out[SM_OUT(adamw, w)] = b->params.groups[g].working_copy;
        emit(b, op);
    }
}

// --- the step ---------------------------------------------------------------------------------------

static void build_step(builder *b) {
    const int L = (int)b->config->n_layer;
    if (b->status == SM_OK) {
        b->status = gpt2_params_add(b->plan, b->config, b->options, &b->params);
    }
    if (b->status != SM_OK) {
        return; // nothing below could be named
    }
    add_batch_and_results(b);
    if (b->options->backward) {
        zero_grad(b);
    }
    int scale = b->options->backward ? loss_scale(b) : SM_NO_TENSOR;
    int x = embedding(b);
    for (int layer = 0; layer < L; layer++) {
        x = block_forward(b, layer, x);
    }
    int mean = SM_NO_TENSOR;
    int rstd = SM_NO_TENSOR;
    int lnf = layernorm(b, -1, "lnf", x, LNF_W, LNF_B, &mean, &rstd);
    int logits = head(b, lnf);
    int lse = crossentropy(b, logits);
    if (b->options->backward) {
        int d = head_backward(b, lnf, logits, lse, scale);
        d = layernorm_backward(b, -1, "d.x", d, x, mean, rstd, LNF_W, LNF_B);
        for (int layer = L - 1; layer >= 0; layer--) {
            d = block_backward(b, layer, d);
        }
        embedding_backward(b, d);
    }
    if (b->options->optimizer) {
        update(b);
    }
}

static sm_status check_options(const sm_gpt2_config *config, const sm_gpt2_options *options) {
    SM_TRY(sm_gpt2_check(config));
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
    if (options->optimizer && !options->backward) {
        return sm_fail(SM_ERR_INTERNAL, "a plan with an optimizer needs its backward");
    }
    return SM_OK;
}

sm_status sm_gpt2_build(const sm_gpt2_config *config, const sm_gpt2_options *options, sm_plan **plan) {
    *plan = NULL;
    SM_TRY(check_options(config, options));
    builder b = {
        .plan = sm_plan_new(options->dtype),
        .config = config,
        .options = options,
        .B = options->B,
        .T = options->T,
        .C = config->d_model,
        .F = config->d_ff,
        .V = config->vocab,
        .Vp = sm_gpt2_padded_vocab(config),
        .blocks = calloc((size_t)config->n_layer, sizeof *b.blocks),
        .status = SM_OK,
    };
    if (b.plan == NULL || b.blocks == NULL) {
        b.status = sm_fail(SM_ERR_OOM, "plan: no memory for %lld layers", (long long)config->n_layer);
    } else {
        b.plan->n_params = sm_gpt2_n_params(config);
        b.plan->B = b.B;
        b.plan->T = b.T;
        b.plan->V = b.V;
        b.plan->one_micro_batch = options->one_micro_batch;
        build_step(&b);
    }
    gpt2_params_free(&b.params);
    free(b.blocks);
    if (b.status != SM_OK) {
        sm_plan_free(b.plan);
        return b.status;
    }
    *plan = b.plan;
    return SM_OK;
}
