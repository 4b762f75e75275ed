// llama.c: Llama: forward top to bottom, backward bottom to top. Touvron et al. 2023, section 2.2 (pre-RMSNorm, SwiGLU,
// rotary positions, no biases); Touvron et al. 2023 (Llama 2), section 2.2 (grouped-query attention).
#include <string.h>

#include "src/models/builder.h"
#include "src/models/decoder_keys.h"

// GPT-2's sizes, for comparison: the same dimensions; d_ff is the inner width of SwiGLU.
#define SIZE(size_name, L, NH, C, F, V, P)                                                                           \
    {                                                                                                                \
        size_name, NULL, {                                                                                           \
            .model = &sm_model_llama, .n_layer = L, .n_head = NH, .d_model = C, .d_ff = F, .vocab = V, .context = P, \
            .norm_eps = 1e-5, .rope_theta = 1e4, .untied = true                                                      \
        }                                                                                                            \
    }
static const sm_model_size sizes[] = {
    SIZE("tiny", 2, 2, 32, 128, 256, 64),
    SIZE("small", 12, 12, 768, 3072, 50257, 1024),
    SIZE("medium", 24, 16, 1024, 4096, 50257, 1024),
    SIZE("large", 36, 20, 1280, 5120, 50257, 1024),
    SIZE("xl", 48, 25, 1600, 6400, 50257, 1024),
    SIZE("2.7B", 32, 32, 2560, 10240, 50257, 1024),
};
#undef SIZE

// --- parameters -----------------------------------------------------------------------------------

enum {
    EMBED_W,
    NORM1_W,
    QKV_W, // q, then k and v, in one matrix
    K_W,
    V_W,
    ATTN_PROJ_W, // a block's first half,
    NORM2_W,
    GATE_UP_W, // gate, then up, in one matrix
    UP_W,
    DOWN_W, // and its second
    NORMF_W,
    HEAD_W,
    N_PARAM_KINDS
};

#define LAYER "model.layers.%d."

static int params(const sm_model_config *config, sm_param_spec *specs) {
    const int64_t C = config->d_model;
    const int64_t F = config->d_ff;
    const int64_t A = sm_model_head_dim(config) * config->n_head;
    const int64_t KV = sm_model_head_dim(config) * sm_model_n_kv_head(config);
    const int64_t Vp = sm_model_padded_vocab(config);
    const double std = 0.02;
    const char *const qkv = LAYER "self_attn.qkv_proj.weight";
    const char *const gate_up = LAYER "mlp.gate_up_proj.weight";
    const sm_param_spec kinds[N_PARAM_KINDS] = {
        [EMBED_W] = {"model.embed_tokens.weight", Vp, C, .real_rows = config->vocab, .init_std = std},
        [NORM1_W] = {LAYER "input_layernorm.weight", 0, C, .init_value = 1},
        [QKV_W] = {LAYER "self_attn.q_proj.weight", A, C, .part_of = qkv, .init_std = std},
        [K_W] = {LAYER "self_attn.k_proj.weight", KV, C, .part_of = qkv, .init_std = std},
        [V_W] = {LAYER "self_attn.v_proj.weight", KV, C, .part_of = qkv, .init_std = std},
        [ATTN_PROJ_W] = {LAYER "self_attn.o_proj.weight", C, A, .init_std = std},
        [NORM2_W] = {LAYER "post_attention_layernorm.weight", 0, C, .init_value = 1},
        [GATE_UP_W] = {LAYER "mlp.gate_proj.weight", F, C, .part_of = gate_up, .init_std = std},
        [UP_W] = {LAYER "mlp.up_proj.weight", F, C, .part_of = gate_up, .init_std = std},
        [DOWN_W] = {LAYER "mlp.down_proj.weight", C, F, .init_std = std},
        [NORMF_W] = {"model.norm.weight", 0, C, .init_value = 1},
        [HEAD_W] = {"lm_head.weight", Vp, C, .real_rows = config->vocab, .init_std = std},
    };
    memcpy(specs, kinds, sizeof kinds);
    return config->untied ? N_PARAM_KINDS : HEAD_W;
}

// --- forward --------------------------------------------------------------------------------------

// The forward's tensors that the block's backward needs.
typedef struct {
    sm_norm norm1, norm2;
    int qkv, atty, att, gate_up, act;
} block;

static int block_forward(sm_builder *b, void *kept, int x) {
    block *s = kept;
    int norm1 = sm_build_rmsnorm(b, "norm1", x, NORM1_W, &s->norm1);             // (B,T,C)
    int qkv = sm_build_linear(b, "qkv", norm1, QKV_W, SM_NO_PARAM);              // (B,T,QKV)
    s->qkv = sm_build_rope(b, "qkv.turned", qkv);                                // (B,T,QKV)
    s->atty = sm_build_attention(b, s->qkv, &s->att);                            // (B,T,C)
    int proj = sm_build_linear(b, "attproj", s->atty, ATTN_PROJ_W, SM_NO_PARAM); // (B,T,C)
    int res = sm_build_residual(b, "res1", x, proj);                             // (B,T,C)
    int norm2 = sm_build_rmsnorm(b, "norm2", res, NORM2_W, &s->norm2);           // (B,T,C)
    s->gate_up = sm_build_linear(b, "gate_up", norm2, GATE_UP_W, SM_NO_PARAM);   // (B,T,2F)
    s->act = sm_build_swiglu(b, "act", s->gate_up);                              // (B,T,F)
    int down = sm_build_linear(b, "down", s->act, DOWN_W, SM_NO_PARAM);          // (B,T,C)
    return sm_build_residual(b, "res2", res, down);                              // (B,T,C)
}

// --- backward -------------------------------------------------------------------------------------

// The lines of block_forward from bottom to top. `d` is the gradient of the block's output.
static int block_backward(sm_builder *b, const void *kept, int d) {
    const block *s = kept;
    int dact = sm_build_linear_backward(b, "d.act", s->act, d, DOWN_W, SM_NO_PARAM);                   // (B,T,F)
    int dgate_up = sm_build_swiglu_backward(b, "d.gate_up", dact, s->gate_up);                         // (B,T,2F)
    int dnorm2 = sm_build_linear_backward(b, "d.norm2", s->norm2.y, dgate_up, GATE_UP_W, SM_NO_PARAM); // (B,T,C)
    int dres = sm_build_rmsnorm_backward(b, "d.res1.norm2", dnorm2, &s->norm2);                        // (B,T,C)
    dres = sm_build_residual(b, "d.res1", d, dres);                                                    // (B,T,C)
    int datty = sm_build_linear_backward(b, "d.atty", s->atty, dres, ATTN_PROJ_W, SM_NO_PARAM);        // (B,T,C)
    int dturned = sm_build_attention_backward(b, datty, s->qkv, s->att);                               // (B,T,QKV)
    int dqkv = sm_build_rope(b, "d.qkv.turned_back", dturned);                                         // (B,T,QKV)
    int dnorm1 = sm_build_linear_backward(b, "d.norm1", s->norm1.y, dqkv, QKV_W, SM_NO_PARAM);         // (B,T,C)
    int dx = sm_build_rmsnorm_backward(b, "d.x.norm1", dnorm1, &s->norm1);                             // (B,T,C)
    return sm_build_residual(b, "d.x", dres, dx);                                                      // (B,T,C)
}

// --- the step -------------------------------------------------------------------------------------

static void build(sm_builder *b) {
    sm_norm normf;
    sm_head head;
    int x = sm_build_embedding(b, EMBED_W, SM_NO_PARAM);  // (B,T,C)
    x = sm_build_blocks(b, x);                            // (B,T,C)
    x = sm_build_rmsnorm(b, "normf", x, NORMF_W, &normf); // (B,T,C)
    sm_build_loss(b, x, b->config->untied ? HEAD_W : EMBED_W, &head);
    if (b->options->backward) {
        int d = sm_build_loss_backward(b, "d.normf", &head); // (B,T,C)
        d = sm_build_rmsnorm_backward(b, "d.x", d, &normf);  // (B,T,C)
        d = sm_build_blocks_backward(b, d);                  // (B,T,C)
        sm_build_embedding_backward(b, d, EMBED_W, SM_NO_PARAM);
    }
}

// --- config.json, as LlamaConfig has it (decoder_keys.h) -----------------------------------------

static sm_status read_config(const char *path, const json_t *root, sm_model_config *config) {
    static const sm_config_rule rules[] = {{"sliding_window", "[null]"}, {NULL, NULL}};
    SM_TRY(sm_config_check(path, "", root, rules));
    return sm_decoder_read(path, root, config);
}

static json_t *write_config(const sm_model_config *config, double dropout_p) {
    const sm_config_field own[] = {{"mlp_bias", json_false()}};
    return sm_decoder_write(config, dropout_p, own, sizeof own / sizeof own[0]);
}

// Tensors that older versions of transformers stored with each layer.
static const char *const buffers[] = {".rotary_emb.inv_freq", NULL};

const sm_model sm_model_llama = {
    .name = "llama",
    .title = "Llama",
    .sizes = sizes,
    .n_sizes = sizeof sizes / sizeof sizes[0],
    .odd = {.model = &sm_model_llama,
            .n_layer = 2,
            .n_head = 4,
            .n_kv_head = 2,
            .d_model = 24,
            .d_ff = 50,
            .vocab = 37,
            .context = 20,
            // Large enough that verify finds a norm without eps: the mean square of the embeddings is 0.053 there. With
            // 1e-5 the norm would also multiply rounding errors by 4.3 instead of 1.7, and single bf16 gradients would
            // differ by 4.6% of the largest, verify's whole tolerance.
            .norm_eps = 0.3,
            .rope_theta = 1e4,
            .untied = true},
    .out_by_in = true,
    .fields = SM_DECODER_FIELDS,
    .check = sm_model_check_rope,
    .params = params,
    .build = build,
    .block_bytes = sizeof(block),
    .block_forward = block_forward,
    .block_backward = block_backward,
    .disk_prefix = "",
    .base_prefix = "model.",
    .tied_head = "model.embed_tokens.weight",
    .ignored_endings = buffers,
    .hf_model_type = "llama",
    .hf_architectures = {"LlamaForCausalLM", "LlamaModel"},
    .read_config = read_config,
    .write_config = write_config,
};
