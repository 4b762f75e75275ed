// gpt2.c: GPT-2: forward top to bottom, backward bottom to top. Architecture: Radford et al. 2019, section 2.3
// (pre-LayerNorm, final LayerNorm); Radford et al. 2018, section 3.1 (learned positions, tied head).
#include "src/models/builder.h"
#include "src/models/config_keys.h"

// Radford et al. 2019, table 2; 2.7B as in published benchmarks.
#define SIZE(size_name, size_alias, ...)                                              \
    {                                                                                 \
        size_name, size_alias, { SM_DIMENSIONS(gpt2, __VA_ARGS__), .norm_eps = 1e-5 } \
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

// Radford et al. 2019, section 2.3: the two projections into the residual stream are scaled down, so that its variance
// does not grow with the number of layers. LN1_W to ATTN_PROJ_B are a block's first half, LN2_W to MLP_PROJ_B its second.
#define PARAMS(X)                                                                                       \
    X(WTE, "wte.weight", sm_model_padded_vocab(config), C, .real_rows = config->vocab, .init_std = std) \
    X(WPE, "wpe.weight", config->context, C, .init_std = std)                                           \
    X(LN1_W, "h.%d.ln_1.weight", 0, C, .init_value = 1)                                                 \
    X(LN1_B, "h.%d.ln_1.bias", 0, C, .init_value = 0)                                                   \
    X(QKV_W, "h.%d.attn.c_attn.weight", C, 3 * C, .init_std = std)                                      \
    X(QKV_B, "h.%d.attn.c_attn.bias", 0, 3 * C, .init_value = 0)                                        \
    X(ATTN_PROJ_W, "h.%d.attn.c_proj.weight", C, C, .init_std = stream_std)                             \
    X(ATTN_PROJ_B, "h.%d.attn.c_proj.bias", 0, C, .init_value = 0)                                      \
    X(LN2_W, "h.%d.ln_2.weight", 0, C, .init_value = 1)                                                 \
    X(LN2_B, "h.%d.ln_2.bias", 0, C, .init_value = 0)                                                   \
    X(FC_W, "h.%d.mlp.c_fc.weight", C, F, .init_std = std)                                              \
    X(FC_B, "h.%d.mlp.c_fc.bias", 0, F, .init_value = 0)                                                \
    X(MLP_PROJ_W, "h.%d.mlp.c_proj.weight", F, C, .init_std = stream_std)                               \
    X(MLP_PROJ_B, "h.%d.mlp.c_proj.bias", 0, C, .init_value = 0)                                        \
    X(LNF_W, "ln_f.weight", 0, C, .init_value = 1)                                                      \
    X(LNF_B, "ln_f.bias", 0, C, .init_value = 0)

enum { PARAMS(SM_CODE) N_PARAM_KINDS };

static int params(const sm_model_config *config, sm_param_spec *specs) {
    const int64_t C = config->d_model;
    const int64_t F = config->d_ff;
    const double std = 0.02;
    const double stream_std = 0.02 / sqrt(2.0 * (double)config->n_layer);
    const sm_param_spec kinds[] = {PARAMS(SM_PARAM_SPEC)};
    memcpy(specs, kinds, sizeof kinds);
    return N_PARAM_KINDS;
}

// --- forward --------------------------------------------------------------------------------------

// The forward's tensors that the block's backward needs.
typedef struct {
    sm_norm ln1, ln2;
    int qkv, atty, att, fc, act;
} block;

static int block_forward(sm_builder *b, void *kept, int x) {
    block *s = kept;
    int ln1 = sm_build_norm(b, "ln1", x, LN1_W, LN1_B, &s->ln1);                 // (B,T,C)
    s->qkv = sm_build_linear(b, "qkv", ln1, QKV_W, QKV_B);                       // (B,T,3C)
    s->atty = sm_build_attention(b, s->qkv, &s->att);                            // (B,T,C)
    int proj = sm_build_linear(b, "attproj", s->atty, ATTN_PROJ_W, ATTN_PROJ_B); // (B,T,C)
    proj = sm_build_dropout(b, "attproj.dropout", "attproj.dropped", proj);      // (B,T,C)
    int res = sm_build_residual(b, "res1", x, proj);                             // (B,T,C)
    int ln2 = sm_build_norm(b, "ln2", res, LN2_W, LN2_B, &s->ln2);               // (B,T,C)
    s->fc = sm_build_linear(b, "fc", ln2, FC_W, FC_B);                           // (B,T,F)
    s->act = sm_build_activation(b, s->fc);                                      // (B,T,F)
    int mlp = sm_build_linear(b, "mlpproj", s->act, MLP_PROJ_W, MLP_PROJ_B);     // (B,T,C)
    mlp = sm_build_dropout(b, "mlpproj.dropout", "mlpproj.dropped", mlp);        // (B,T,C)
    return sm_build_residual(b, "res2", res, mlp);                               // (B,T,C)
}

// --- backward -------------------------------------------------------------------------------------

// The lines of block_forward from bottom to top. `d` is the gradient of the block's output.
static int block_backward(sm_builder *b, const void *kept, int d) {
    const block *s = kept;
    char d_act[16];
    snprintf(d_act, sizeof d_act, "d.%s", sm_activation_get_info(b->config->activation)->name);
    int dmlp = sm_build_dropout(b, "mlpproj.dropout", "d.mlpproj", d);                           // (B,T,C)
    int dact = sm_build_linear_backward(b, d_act, s->act, dmlp, MLP_PROJ_W, MLP_PROJ_B);         // (B,T,F)
    int dfc = sm_build_activation_backward(b, "d.fc", dact, s->fc);                              // (B,T,F)
    int dln2 = sm_build_linear_backward(b, "d.ln2", s->ln2.y, dfc, FC_W, FC_B);                  // (B,T,C)
    int dres = sm_build_norm_backward(b, "d.res1.ln2", dln2, &s->ln2);                           // (B,T,C)
    dres = sm_build_residual(b, "d.res1", d, dres);                                              // (B,T,C)
    int dproj = sm_build_dropout(b, "attproj.dropout", "d.attproj", dres);                       // (B,T,C)
    int datty = sm_build_linear_backward(b, "d.atty", s->atty, dproj, ATTN_PROJ_W, ATTN_PROJ_B); // (B,T,C)
    int dqkv = sm_build_attention_backward(b, datty, s->qkv, s->att);                            // (B,T,3C)
    int dln1 = sm_build_linear_backward(b, "d.ln1", s->ln1.y, dqkv, QKV_W, QKV_B);               // (B,T,C)
    int dx = sm_build_norm_backward(b, "d.x.ln1", dln1, &s->ln1);                                // (B,T,C)
    return sm_build_residual(b, "d.x", dres, dx);                                                // (B,T,C)
}

static void build(sm_builder *b) {
    sm_norm lnf;
    sm_head head;
    int x = sm_build_embedding(b, WTE, WPE);                          // (B,T,C)
    x = sm_build_dropout(b, "encoded.dropout", "encoded.dropped", x); // (B,T,C)
    x = sm_build_blocks(b, x);                                        // (B,T,C)
    x = sm_build_norm(b, "lnf", x, LNF_W, LNF_B, &lnf);               // (B,T,C)
    sm_build_loss(b, x, WTE, &head);                                  // the head is tied
    if (b->options->backward) {
        int d = sm_build_loss_backward(b, "d.lnf", &head);          // (B,T,C)
        d = sm_build_norm_backward(b, "d.x", d, &lnf);              // (B,T,C)
        d = sm_build_blocks_backward(b, d);                         // (B,T,C)
        d = sm_build_dropout(b, "encoded.dropout", "d.encoded", d); // (B,T,C)
        sm_build_embedding_backward(b, d, WTE, WPE);
    }
}

// --- config.json ----------------------------------------------------------------------------------

// As transformers' GPT2Config has it. Accepts only the features that stepmark computes: tied embeddings and the tanh
// form of GELU.
//
//     key                 field         if absent
//     vocab_size          vocab         error
//     n_positions, n_ctx  context       error (n_ctx counts only where n_positions is absent)
//     n_embd              d_model       error
//     n_layer             n_layer       error
//     n_head              n_head        error
//     n_inner             d_ff          4 n_embd; null likewise
//     layer_norm_epsilon  norm_eps      1e-5
enum { GPT2_VOCAB = 50257 };

static const sm_config_rule rules[] = {
// GELU has five names
#define X(CODE, name, f, slope) ", \"" #name "\""
    {"activation_function", "[\"gelu_new\", \"gelu_pytorch_tanh\", \"gelu_python_tanh\", \"gelu_fast\", "
                            "\"gelu_accurate\"" SM_ACTIVATION_PAIRS(X) "]"},
#undef X
    {"add_cross_attention", "[false]"},
    {"scale_attn_by_inverse_layer_idx", "[false]"},
    {"scale_attn_weights", "[true]"},
    {"tie_word_embeddings", "[true]"},
    {NULL, NULL},
};

// A size has two names in transformers, of which the general one wins.
static sm_status read_size(const char *path, const json_t *root, const char *general, const char *own, int64_t *value) {
    return sm_config_size(path, root, sm_config_has(root, general) ? general : own, value);
}

static sm_status read_config(const char *path, const json_t *root, sm_model_config *config) {
    const bool only_n_ctx = !sm_config_has(root, "n_positions") && sm_config_has(root, "n_ctx");
    SM_TRY(sm_config_check(path, "", root, rules));
    SM_TRY(sm_config_size(path, root, "vocab_size", &config->vocab));
    SM_TRY(read_size(path, root, "max_position_embeddings", only_n_ctx ? "n_ctx" : "n_positions", &config->context));
    SM_TRY(read_size(path, root, "hidden_size", "n_embd", &config->d_model));
    SM_TRY(read_size(path, root, "num_hidden_layers", "n_layer", &config->n_layer));
    SM_TRY(read_size(path, root, "num_attention_heads", "n_head", &config->n_head));
    SM_FAIL_IF(config->d_model % config->n_head != 0, SM_ERR_INVALID,
               "%s: n_embd %lld does not divide into n_head %lld heads", path, (long long)config->d_model,
               (long long)config->n_head);
    const char *activation = json_string_value(json_object_get(root, "activation_function"));
    config->activation = SM_ACTIVATION_GELU;
    for (int a = 0; a < SM_ACTIVATION_COUNT && activation != NULL; a++) {
        const char *name = sm_activation_get_info((sm_activation)a)->name;
        config->activation = strcmp(activation, name) == 0 ? a : config->activation;
    }
    config->d_ff = 4 * config->d_model;
    SM_TRY(sm_config_has(root, "n_inner") ? sm_config_size(path, root, "n_inner", &config->d_ff) : SM_OK);
    return sm_config_real(path, root, "layer_norm_epsilon", 1e-5, 0, 1, &config->norm_eps);
}

// Writes every key of transformers' GPT2Config that affects the computation, for GPT2LMHeadModel.from_pretrained.
static json_t *write_config(const sm_model_config *config, double dropout_p) {
    const char *activation = sm_activation_get_info((sm_activation)config->activation)->name;
    const bool is_gpt2_vocab = config->vocab == GPT2_VOCAB; // then the last id is <|endoftext|>
    const sm_config_field fields[] = {
        {"activation_function", json_string(config->activation == SM_ACTIVATION_GELU ? "gelu_new" : activation)},
        {"add_cross_attention", json_false()},
        {"architectures", json_pack("[s]", "GPT2LMHeadModel")},
        {"attn_pdrop", json_real(dropout_p)},
        {"bos_token_id", is_gpt2_vocab ? json_integer(GPT2_VOCAB - 1) : json_null()},
        {"embd_pdrop", json_real(dropout_p)},
        {"eos_token_id", is_gpt2_vocab ? json_integer(GPT2_VOCAB - 1) : json_null()},
        {"initializer_range", json_real(0.02)},
        {"layer_norm_epsilon", json_real(config->norm_eps)},
        {"model_type", json_string("gpt2")},
        {"n_embd", json_integer(config->d_model)},
        {"n_head", json_integer(config->n_head)},
        {"n_inner", config->d_ff == 4 * config->d_model ? json_null() : json_integer(config->d_ff)},
        {"n_layer", json_integer(config->n_layer)},
        {"n_positions", json_integer(config->context)},
        {"reorder_and_upcast_attn", json_false()},
        {"resid_pdrop", json_real(dropout_p)},
        {"scale_attn_by_inverse_layer_idx", json_false()},
        {"scale_attn_weights", json_true()},
        {"tie_word_embeddings", json_true()},
        {"use_cache", json_true()},
        {"vocab_size", json_integer(config->vocab)},
    };
    return sm_config_pack(fields, SM_COUNT(fields));
}

// Causal masks that older versions of transformers stored with each layer.
static const char *const masks[] = {".attn.bias", ".attn.masked_bias", NULL};

const sm_model sm_model_gpt2 = {
    .name = "gpt2",
    .title = "GPT-2",
    .sizes = sizes,
    .n_sizes = SM_COUNT(sizes),
    .odd = {SM_DIMENSIONS(gpt2, 2, 3, 15, 60, 37, 20), .norm_eps = 1e-5},
    .params = params,
    .build = build,
    .block_bytes = sizeof(block),
    .block_forward = block_forward,
    .block_backward = block_backward,
    .disk_prefix = "transformer.",
    .base_prefix = "transformer.",
    .tied_head = "wte.weight",
    .ignored_endings = masks,
    .fields = 1u << SM_MODEL_activation,
    .hf_model_type = "gpt2",
    .hf_architectures = {"GPT2LMHeadModel", "GPT2Model"},
    .read_config = read_config,
    .write_config = write_config,
};
