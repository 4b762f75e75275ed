// gpt2.c: GPT-2: forward top to bottom, backward bottom to top. Architecture: Radford et al. 2019, section 2.3
// (pre-LayerNorm, final LayerNorm); Radford et al. 2018, section 3.1 (learned positions, tied head).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "builder.h"
#include "gpt2_disk.h"

// Radford et al. 2019, table 2; 2.7B as published benchmarks of it have it.
#define SIZE(size_name, size_alias, L, NH, C, F, V, P)                                                              \
    {                                                                                                               \
        size_name, size_alias, {                                                                                    \
            .model = &sm_model_gpt2, .n_layer = L, .n_head = NH, .d_model = C, .d_ff = F, .vocab = V, .context = P, \
            .norm_eps = 1e-5                                                                                        \
        }                                                                                                           \
    }
static const sm_model_size sizes[] = {
    SIZE("tiny", "36K", 2, 2, 32, 128, 256, 64),
    SIZE("small", "124M", 12, 12, 768, 3072, 50257, 1024),
    SIZE("medium", "355M", 24, 16, 1024, 4096, 50257, 1024),
    SIZE("large", "774M", 36, 20, 1280, 5120, 50257, 1024),
    SIZE("xl", "1558M", 48, 25, 1600, 6400, 50257, 1024),
    SIZE("2.7B", "2649M", 32, 32, 2560, 10240, 50257, 1024),
};
#undef SIZE

// --- parameters -----------------------------------------------------------------------------------

enum {
    WTE,
    WPE,
    LN1_W,
    LN1_B,
    QKV_W,
    QKV_B,
    ATTN_PROJ_W,
    ATTN_PROJ_B, // a block's first half,
    LN2_W,
    LN2_B,
    FC_W,
    FC_B,
    MLP_PROJ_W,
    MLP_PROJ_B, // and its second
    LNF_W,
    LNF_B,
    N_PARAM_KINDS
};

// Radford et al. 2019, section 2.3: the two projections into the residual stream are scaled down, so that its variance
// does not grow with the number of layers.
static int params(const sm_model_config *config, sm_param_spec *specs) {
    const int64_t C = config->d_model;
    const int64_t F = config->d_ff;
    const double std = 0.02;
    const double stream_std = 0.02 / sqrt(2.0 * (double)config->n_layer);
    const sm_param_spec kinds[N_PARAM_KINDS] = {
        [WTE] = {"wte.weight", sm_model_padded_vocab(config), C, .real_rows = config->vocab, .init_std = std},
        [WPE] = {"wpe.weight", config->context, C, .init_std = std},
        [LN1_W] = {"h.%d.ln_1.weight", 0, C, .init_value = 1},
        [LN1_B] = {"h.%d.ln_1.bias", 0, C, .init_value = 0},
        [QKV_W] = {"h.%d.attn.c_attn.weight", C, 3 * C, .init_std = std},
        [QKV_B] = {"h.%d.attn.c_attn.bias", 0, 3 * C, .init_value = 0},
        [ATTN_PROJ_W] = {"h.%d.attn.c_proj.weight", C, C, .init_std = stream_std},
        [ATTN_PROJ_B] = {"h.%d.attn.c_proj.bias", 0, C, .init_value = 0},
        [LN2_W] = {"h.%d.ln_2.weight", 0, C, .init_value = 1},
        [LN2_B] = {"h.%d.ln_2.bias", 0, C, .init_value = 0},
        [FC_W] = {"h.%d.mlp.c_fc.weight", C, F, .init_std = std},
        [FC_B] = {"h.%d.mlp.c_fc.bias", 0, F, .init_value = 0},
        [MLP_PROJ_W] = {"h.%d.mlp.c_proj.weight", F, C, .init_std = stream_std},
        [MLP_PROJ_B] = {"h.%d.mlp.c_proj.bias", 0, C, .init_value = 0},
        [LNF_W] = {"ln_f.weight", 0, C, .init_value = 1},
        [LNF_B] = {"ln_f.bias", 0, C, .init_value = 0},
    };
    memcpy(specs, kinds, sizeof kinds);
    return N_PARAM_KINDS;
}

static sm_status check(const sm_model_config *config) {
    if ((config->n_kv_head != 0 && config->n_kv_head != config->n_head) || config->untied) {
        return sm_fail(SM_ERR_INVALID, "GPT-2 has as many heads of keys and values as of queries, and a tied head");
    }
    return SM_OK;
}

// --- forward --------------------------------------------------------------------------------------

// What a block's forward leaves for its backward: tensor indices.
typedef struct {
    int x, ln1, ln1_mean, ln1_rstd, qkv, atty, att;
    int res, ln2, ln2_mean, ln2_rstd, fc, gelu;
} block;

// y = x W + b
static int linear(sm_builder *b, int layer, const char *name, int x, int w, int bias, int64_t n_cols) {
    int xw = sm_build_matmul(b, layer, name, "xw", x, w, n_cols);
    return sm_build_bias(b, layer, name, xw, bias, n_cols);
}

static int layernorm(sm_builder *b, int layer, const char *name, int x, int w, int bias, int *mean, int *rstd) {
    sm_op op = sm_op_make(SM_OP_LAYERNORM_FORWARD, SM_PHASE_FORWARD, layer);
    op.attr.eps = b->config->norm_eps;
    op.in[SM_IN(layernorm_forward, x)] = x;
    op.in[SM_IN(layernorm_forward, w)] = sm_build_value(b, w, layer);
    op.in[SM_IN(layernorm_forward, b)] = sm_build_value(b, bias, layer);
    op.out[SM_OUT(layernorm_forward, y)] = sm_build_activation(b, layer, name, SM_DIMS(b->B, b->T, b->C));
    op.out[SM_OUT(layernorm_forward, mean)] = *mean = sm_build_statistic(b, layer, name, "mean", SM_DIMS(b->B, b->T));
    op.out[SM_OUT(layernorm_forward, rstd)] = *rstd = sm_build_statistic(b, layer, name, "rstd", SM_DIMS(b->B, b->T));
    sm_build_op(b, &op);
    return op.out[SM_OUT(layernorm_forward, y)];
}

static int gelu(sm_builder *b, int layer, int x) {
    sm_op op = sm_op_make(SM_OP_GELU_FORWARD, SM_PHASE_FORWARD, layer);
    op.in[SM_IN(gelu_forward, x)] = x;
    op.out[SM_OUT(gelu_forward, y)] = sm_build_activation(b, layer, "gelu", SM_DIMS(b->B, b->T, b->F));
    sm_build_op(b, &op);
    return op.out[SM_OUT(gelu_forward, y)];
}

static int block_forward(sm_builder *b, int layer, block *s, int x) {
    s->x = x;                                                                         // (B,T,C)
    s->ln1 = layernorm(b, layer, "ln1", x, LN1_W, LN1_B, &s->ln1_mean, &s->ln1_rstd); // (B,T,C)
    s->qkv = linear(b, layer, "qkv", s->ln1, QKV_W, QKV_B, 3 * b->C);                 // (B,T,3C)
    s->atty = sm_build_attention(b, layer, s->qkv, &s->att);                          // (B,T,C)
    int proj = linear(b, layer, "attproj", s->atty, ATTN_PROJ_W, ATTN_PROJ_B, b->C);  // (B,T,C)
    proj = sm_build_dropout(b, SM_PHASE_FORWARD, layer, "attproj.dropout", "attproj.dropped", proj);
    s->res = sm_build_residual(b, SM_PHASE_FORWARD, layer, "res1", x, proj);               // (B,T,C)
    s->ln2 = layernorm(b, layer, "ln2", s->res, LN2_W, LN2_B, &s->ln2_mean, &s->ln2_rstd); // (B,T,C)
    s->fc = linear(b, layer, "fc", s->ln2, FC_W, FC_B, b->F);                              // (B,T,F)
    s->gelu = gelu(b, layer, s->fc);                                                       // (B,T,F)
    int mlp = linear(b, layer, "mlpproj", s->gelu, MLP_PROJ_W, MLP_PROJ_B, b->C);          // (B,T,C)
    mlp = sm_build_dropout(b, SM_PHASE_FORWARD, layer, "mlpproj.dropout", "mlpproj.dropped", mlp);
    return sm_build_residual(b, SM_PHASE_FORWARD, layer, "res2", s->res, mlp); // (B,T,C)
}

static int embedding(sm_builder *b) {
    int x = sm_build_embedding(b, WTE, WPE);
    return sm_build_dropout(b, SM_PHASE_FORWARD, -1, "encoded.dropout", "encoded.dropped", x);
}

// --- backward -------------------------------------------------------------------------------------

// Gradients of y = x W + b: into W's and b's, and dx, which is returned.
static int linear_backward(sm_builder *b, int layer, const char *dx_name, int x, int dy, int w, int bias,
                           int64_t n_cols) {
    sm_build_bias_backward(b, layer, dy, bias);
    sm_build_matmul_backward_weight(b, layer, x, dy, w);
    return sm_build_matmul_backward_input(b, layer, dx_name, dy, w, n_cols);
}

static int layernorm_backward(sm_builder *b, int layer, const char *dx_name, int dy, int x, int mean, int rstd, int w,
                              int bias) {
    sm_op op = sm_op_make(SM_OP_LAYERNORM_BACKWARD, SM_PHASE_BACKWARD, layer);
    op.in[SM_IN(layernorm_backward, dy)] = dy;
    op.in[SM_IN(layernorm_backward, x)] = x;
    op.in[SM_IN(layernorm_backward, w)] = sm_build_value(b, w, layer);
    op.in[SM_IN(layernorm_backward, mean)] = mean;
    op.in[SM_IN(layernorm_backward, rstd)] = rstd;
    op.out[SM_OUT(layernorm_backward, dx)] = sm_build_activation(b, layer, dx_name, SM_DIMS(b->B, b->T, b->C));
    op.out[SM_OUT(layernorm_backward, dw)] = sm_build_gradient(b, w, layer);
    op.out[SM_OUT(layernorm_backward, db)] = sm_build_gradient(b, bias, layer);
    sm_build_op(b, &op);
    return op.out[SM_OUT(layernorm_backward, dx)];
}

static int gelu_backward(sm_builder *b, int layer, int dy, int x) {
    sm_op op = sm_op_make(SM_OP_GELU_BACKWARD, SM_PHASE_BACKWARD, layer);
    op.in[SM_IN(gelu_backward, dy)] = dy;
    op.in[SM_IN(gelu_backward, x)] = x;
    op.out[SM_OUT(gelu_backward, dx)] = sm_build_activation(b, layer, "d.fc", SM_DIMS(b->B, b->T, b->F));
    sm_build_op(b, &op);
    return op.out[SM_OUT(gelu_backward, dx)];
}

// The lines of block_forward from bottom to top. `d` is the gradient of the block's output.
static int block_backward(sm_builder *b, int layer, const block *s, int d) {
    int dmlp = sm_build_dropout(b, SM_PHASE_BACKWARD, layer, "mlpproj.dropout", "d.mlpproj", d);
    int dgelu = linear_backward(b, layer, "d.gelu", s->gelu, dmlp, MLP_PROJ_W, MLP_PROJ_B, b->F);
    int dfc = gelu_backward(b, layer, dgelu, s->fc);
    int dln2 = linear_backward(b, layer, "d.ln2", s->ln2, dfc, FC_W, FC_B, b->C);
    int dres = layernorm_backward(b, layer, "d.res1.ln2", dln2, s->res, s->ln2_mean, s->ln2_rstd, LN2_W, LN2_B);
    dres = sm_build_residual(b, SM_PHASE_BACKWARD, layer, "d.res1", d, dres);
    int dproj = sm_build_dropout(b, SM_PHASE_BACKWARD, layer, "attproj.dropout", "d.attproj", dres);
    int datty = linear_backward(b, layer, "d.atty", s->atty, dproj, ATTN_PROJ_W, ATTN_PROJ_B, b->C);
    int dqkv = sm_build_attention_backward(b, layer, datty, s->qkv, s->att);
    int dln1 = linear_backward(b, layer, "d.ln1", s->ln1, dqkv, QKV_W, QKV_B, b->C);
    int dx = layernorm_backward(b, layer, "d.x.ln1", dln1, s->x, s->ln1_mean, s->ln1_rstd, LN1_W, LN1_B);
    return sm_build_residual(b, SM_PHASE_BACKWARD, layer, "d.x", dres, dx);
}

static void embedding_backward(sm_builder *b, int d) {
    d = sm_build_dropout(b, SM_PHASE_BACKWARD, -1, "encoded.dropout", "d.encoded", d);
    sm_build_embedding_backward(b, d, WTE, WPE);
}

// --- the step -------------------------------------------------------------------------------------

static void build_with(sm_builder *b, block *blocks) {
    const int L = (int)b->config->n_layer;
    int mean, rstd, logits, lse;
    int x = embedding(b);
    for (int layer = 0; layer < L; layer++) {
        x = block_forward(b, layer, &blocks[layer], x);
    }
    int lnf = layernorm(b, -1, "lnf", x, LNF_W, LNF_B, &mean, &rstd);
    sm_build_loss(b, lnf, WTE, &logits, &lse); // the head is tied
    if (b->options->backward) {
        int d = sm_build_loss_backward(b, "d.lnf", lnf, WTE, logits, lse);
        d = layernorm_backward(b, -1, "d.x", d, x, mean, rstd, LNF_W, LNF_B);
        for (int layer = L - 1; layer >= 0; layer--) {
            d = block_backward(b, layer, &blocks[layer], d);
        }
        embedding_backward(b, d);
    }
}

static void build(sm_builder *b) {
    block *blocks = calloc((size_t)b->config->n_layer, sizeof *blocks);
    if (blocks == NULL) {
        b->status = sm_fail(SM_ERR_OOM, "plan: no memory for %lld layers", (long long)b->config->n_layer);
        return;
    }
    build_with(b, blocks);
    free(blocks);
}

// The causal masks that older versions of transformers stored with each layer.
static const char *const masks[] = {".attn.bias", ".attn.masked_bias", NULL};

const sm_model sm_model_gpt2 = {
    .name = "gpt2",
    .title = "GPT-2",
    .sizes = sizes,
    .n_sizes = sizeof sizes / sizeof sizes[0],
    .odd = {.model = &sm_model_gpt2,
            .n_layer = 2,
            .n_head = 3,
            .d_model = 15,
            .d_ff = 60,
            .vocab = 37,
            .context = 20,
            .norm_eps = 1e-5},
    .check = check,
    .params = params,
    .build = build,
    .disk_prefix = "transformer.",
    .tied_head = "wte.weight",
    .ignored_endings = masks,
    .hf_model_type = "gpt2",
    .hf_architectures = {"GPT2LMHeadModel", "GPT2Model"},
    .read_config = gpt2_read_config,
    .write_config = gpt2_write_config,
};
