// decoder.c: see decoder.h. Touvron et al. 2023, section 2.2 (pre-RMSNorm, SwiGLU, rotary positions, no biases);
// Touvron et al. 2023 (Llama 2), section 2.2 (grouped-query attention).
#include "src/models/decoder.h"

#include "src/io/input_file.h"

// --- parameters -----------------------------------------------------------------------------------

#define LAYER "model.layers.%d."

// q, then k and v, are one matrix, and so are gate and up. NORM1_W to ATTN_PROJ_W are a block's first half, NORM2_W to
// DOWN_W its second. Q_NORM_W and K_NORM_W are there with has_head_norms.
#define PARAMS(X)                                                                               \
    X(EMBED_W, "model.embed_tokens.weight", Vp, C, .real_rows = config->vocab, .init_std = std) \
    X(NORM1_W, LAYER "input_layernorm.weight", 0, C, .init_value = 1)                           \
    X(QKV_W, LAYER "self_attn.q_proj.weight", A, C, .part_of = qkv, .init_std = std)            \
    X(K_W, LAYER "self_attn.k_proj.weight", KV, C, .part_of = qkv, .init_std = std)             \
    X(V_W, LAYER "self_attn.v_proj.weight", KV, C, .part_of = qkv, .init_std = std)             \
    X(Q_NORM_W, LAYER "self_attn.q_norm.weight", 0, HS, .init_value = 1)                        \
    X(K_NORM_W, LAYER "self_attn.k_norm.weight", 0, HS, .init_value = 1)                        \
    X(ATTN_PROJ_W, LAYER "self_attn.o_proj.weight", C, A, .init_std = std)                      \
    X(NORM2_W, LAYER "post_attention_layernorm.weight", 0, C, .init_value = 1)                  \
    X(GATE_UP_W, LAYER "mlp.gate_proj.weight", F, C, .part_of = gate_up, .init_std = std)       \
    X(UP_W, LAYER "mlp.up_proj.weight", F, C, .part_of = gate_up, .init_std = std)              \
    X(DOWN_W, LAYER "mlp.down_proj.weight", C, F, .init_std = std)                              \
    X(NORMF_W, "model.norm.weight", 0, C, .init_value = 1)                                      \
    X(HEAD_W, "lm_head.weight", Vp, C, .real_rows = config->vocab, .init_std = std)

enum { PARAMS(SM_CODE) N_PARAM_KINDS };

// The index of a kind among those that the model has.
static int kind_of(const sm_model *model, int kind) {
    return kind > K_NORM_W && !model->has_head_norms ? kind - (ATTN_PROJ_W - Q_NORM_W) : kind;
}

sm_status sm_decoder_check(const sm_model_config *config) {
    SM_FAIL_IF(sm_model_head_dim(config) % 2 != 0, SM_ERR_INVALID,
               "heads of %lld channels have no halves to turn; choose n_head so that d_model / n_head is even",
               (long long)sm_model_head_dim(config));
    SM_FAIL_IF(!(config->rope_theta >= 1 && config->rope_theta <= 1e12), SM_ERR_INVALID,
               "rope_theta is %g; it must be 1 to 1e12", config->rope_theta);
    return SM_OK;
}

int sm_decoder_params(const sm_model_config *config, sm_param_spec *specs) {
    const int64_t C = config->d_model;
    const int64_t F = config->d_ff;
    const int64_t HS = sm_model_head_dim(config);
    const int64_t A = HS * config->n_head;
    const int64_t KV = HS * sm_model_n_kv_head(config);
    const int64_t Vp = sm_model_padded_vocab(config);
    const double std = 0.02;
    const char *const qkv = LAYER "self_attn.qkv_proj.weight";
    const char *const gate_up = LAYER "mlp.gate_up_proj.weight";
    const sm_param_spec kinds[] = {PARAMS(SM_PARAM_SPEC)};
    for (int kind = 0; kind < N_PARAM_KINDS; kind++) {
        specs[kind_of(config->model, kind)] = kinds[kind]; // a kind of the model replaces one that it lacks
    }
    return kind_of(config->model, config->untied ? N_PARAM_KINDS : HEAD_W);
}

// --- lines of the model ---------------------------------------------------------------------------

static int linear(sm_builder *b, const char *name, int x, int kind) {
    return sm_build_linear(b, name, x, kind_of(b->config->model, kind), SM_NO_PARAM);
}

static int linear_backward(sm_builder *b, const char *dx_name, int x, int dy, int kind) {
    return sm_build_linear_backward(b, dx_name, x, dy, kind_of(b->config->model, kind), SM_NO_PARAM);
}

static int rmsnorm(sm_builder *b, const char *name, int x, int kind, sm_norm *norm) {
    return sm_build_norm(b, name, x, kind_of(b->config->model, kind), SM_NO_PARAM, norm);
}

int sm_decoder_forward(sm_builder *b, void *kept, int x) {
    sm_decoder_block *s = kept;
    int norm1 = rmsnorm(b, "norm1", x, NORM1_W, &s->norm1); // (B,T,C)
    int qkv = linear(b, "qkv", norm1, QKV_W);               // (B,T,QKV)
    if (b->config->model->has_head_norms) {
        qkv = sm_build_head_rmsnorm(b, "qkv.normed", qkv, Q_NORM_W, K_NORM_W, &s->head_norm); // (B,T,QKV)
    }
    s->qkv = sm_build_rope(b, "qkv.turned", qkv);             // (B,T,QKV)
    s->atty = sm_build_attention(b, s->qkv, &s->att);         // (B,T,A)
    int proj = linear(b, "attproj", s->atty, ATTN_PROJ_W);    // (B,T,C)
    int res = sm_build_residual(b, "res1", x, proj);          // (B,T,C)
    int norm2 = rmsnorm(b, "norm2", res, NORM2_W, &s->norm2); // (B,T,C)
    s->gate_up = linear(b, "gate_up", norm2, GATE_UP_W);      // (B,T,2F)
    s->act = sm_build_swiglu(b, "act", s->gate_up);           // (B,T,F)
    int down = linear(b, "down", s->act, DOWN_W);             // (B,T,C)
    return sm_build_residual(b, "res2", res, down);           // (B,T,C)
}

// The lines of sm_decoder_forward from bottom to top. `d` is the gradient of the block's output.
int sm_decoder_backward(sm_builder *b, const void *kept, int d) {
    const sm_decoder_block *s = kept;
    int dact = linear_backward(b, "d.act", s->act, d, DOWN_W);                   // (B,T,F)
    int dgate_up = sm_build_swiglu_backward(b, "d.gate_up", dact, s->gate_up);   // (B,T,2F)
    int dnorm2 = linear_backward(b, "d.norm2", s->norm2.y, dgate_up, GATE_UP_W); // (B,T,C)
    int dres = sm_build_norm_backward(b, "d.res1.norm2", dnorm2, &s->norm2);     // (B,T,C)
    dres = sm_build_residual(b, "d.res1", d, dres);                              // (B,T,C)
    int datty = linear_backward(b, "d.atty", s->atty, dres, ATTN_PROJ_W);        // (B,T,A)
    int dturned = sm_build_attention_backward(b, datty, s->qkv, s->att);         // (B,T,QKV)
    int dqkv = sm_build_rope(b, "d.qkv.turned_back", dturned);                   // (B,T,QKV)
    if (b->config->model->has_head_norms) {
        dqkv = sm_build_head_rmsnorm_backward(b, "d.qkv.normed", dqkv, &s->head_norm); // (B,T,QKV)
    }
    int dnorm1 = linear_backward(b, "d.norm1", s->norm1.y, dqkv, QKV_W); // (B,T,C)
    int dx = sm_build_norm_backward(b, "d.x.norm1", dnorm1, &s->norm1);  // (B,T,C)
    return sm_build_residual(b, "d.x", dres, dx);                        // (B,T,C)
}

void sm_decoder_build(sm_builder *b) {
    sm_norm normf;
    sm_head head;
    int x = sm_build_embedding(b, EMBED_W, SM_NO_PARAM); // (B,T,C)
    x = sm_build_blocks(b, x);                           // (B,T,C)
    x = rmsnorm(b, "normf", x, NORMF_W, &normf);         // (B,T,C)
    sm_build_loss(b, x, b->config->untied ? kind_of(b->config->model, HEAD_W) : EMBED_W, &head);
    if (b->options->backward) {
        int d = sm_build_loss_backward(b, "d.normf", &head); // (B,T,C)
        d = sm_build_norm_backward(b, "d.x", d, &normf);     // (B,T,C)
        d = sm_build_blocks_backward(b, d);                  // (B,T,C)
        sm_build_embedding_backward(b, d, EMBED_W, SM_NO_PARAM);
    }
}

// --- config.json ----------------------------------------------------------------------------------

static const double default_theta = 1e4;

static const sm_config_rule decoder_rules[] = {
    {"attention_bias", "[false]"}, {"hidden_act", "[\"silu\", \"swish\"]"}, // two names of one function
    {"mlp_bias", "[false]"},       {"partial_rotary_factor", "[null, 1]"},  {NULL, NULL},
};

static const sm_config_rule rope_rules[] = {
    {"rope_type", "[\"default\"]"},
    {"type", "[\"default\"]"}, // its older name
    {"factor", "[1, null]"},
    {"partial_rotary_factor", "[1, null]"},
    {NULL, NULL},
};

// layer_types has a word for each layer; it may be absent.
static sm_status check_layers(const char *path, const json_t *root, int64_t n_layer) {
    const json_t *types = json_object_get(root, "layer_types");
    SM_FAIL_IF(types != NULL && !json_is_null(types) && json_array_size(types) != (size_t)n_layer, SM_ERR_FORMAT,
               "%s: layer_types does not list %lld layers", path, (long long)n_layer);
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        SM_FAIL_IF(type == NULL || strcmp(type, "full_attention") != 0, SM_ERR_UNSUPPORTED,
                   "%s: layer_types has another word than 'full_attention', for layer %zu", path, i);
    }
    return SM_OK;
}

// Refuses an object of rotary positions that are not the plain ones: by a rule, or by any other key.
static sm_status check_rope(const char *path, const json_t *root, const char *name) {
    const json_t *rope = json_object_get(root, name);
    const char *key;
    json_t *value;
    char place[32];
    snprintf(place, sizeof place, "%s.", name);
    SM_FAIL_IF(rope != NULL && !json_is_null(rope) && !json_is_object(rope), SM_ERR_FORMAT, "%s: %s is not an object",
               path, name);
    SM_TRY(sm_config_check(path, place, rope, rope_rules));
    json_object_foreach((json_t *)rope, key, value) {
        bool is_known = json_is_null(value) || strcmp(key, "rope_theta") == 0;
        for (const sm_config_rule *rule = rope_rules; rule->key != NULL; rule++) {
            is_known |= strcmp(key, rule->key) == 0;
        }
        SM_FAIL_IF(!is_known, SM_ERR_UNSUPPORTED, "%s: %s%.64s is set; only plain rotary positions are supported", path,
                   place, sm_is_printable(key) ? key : "?");
    }
    return SM_OK;
}

// rope_theta is in the first of rope_scaling and rope_parameters that is not empty, or at the top.
static sm_status read_theta(const char *path, const json_t *root, double *theta) {
    const json_t *scaling = json_object_get(root, "rope_scaling");
    const json_t *rope = json_object_size(scaling) > 0 ? scaling : json_object_get(root, "rope_parameters");
    SM_TRY(check_rope(path, root, "rope_scaling"));
    SM_TRY(check_rope(path, root, "rope_parameters"));
    return sm_config_real(path, json_object_get(rope, "rope_theta") != NULL ? rope : root, "rope_theta", default_theta,
                          1, 1e12, theta);
}

static sm_status read_heads(const char *path, const json_t *root, sm_model_config *config) {
    SM_TRY(sm_config_size(path, root, "num_attention_heads", &config->n_head));
    config->n_kv_head = config->n_head;
    if (sm_config_has(root, "num_key_value_heads")) {
        SM_TRY(sm_config_size(path, root, "num_key_value_heads", &config->n_kv_head));
    }
    SM_FAIL_IF(config->n_head % config->n_kv_head != 0, SM_ERR_INVALID,
               "%s: num_key_value_heads %lld does not divide num_attention_heads %lld", path,
               (long long)config->n_kv_head, (long long)config->n_head);
    config->head_dim = 0;
    if (sm_config_has(root, "head_dim")) {
        SM_TRY(sm_config_size(path, root, "head_dim", &config->head_dim));
        config->head_dim = config->head_dim * config->n_head == config->d_model ? 0 : config->head_dim;
        return SM_OK;
    }
    SM_FAIL_IF(config->d_model % config->n_head != 0, SM_ERR_INVALID,
               "%s: num_attention_heads %lld does not divide hidden_size %lld, and no head_dim is given", path,
               (long long)config->n_head, (long long)config->d_model);
    return SM_OK;
}

sm_status sm_decoder_read(const char *path, const json_t *root, sm_model_config *config) {
    bool tied = false;
    SM_TRY(sm_config_check(path, "", root, decoder_rules));
    SM_TRY(sm_config_size(path, root, "vocab_size", &config->vocab));
    SM_TRY(sm_config_size(path, root, "max_position_embeddings", &config->context));
    SM_TRY(sm_config_size(path, root, "hidden_size", &config->d_model));
    SM_TRY(sm_config_size(path, root, "intermediate_size", &config->d_ff));
    SM_TRY(sm_config_size(path, root, "num_hidden_layers", &config->n_layer));
    SM_TRY(check_layers(path, root, config->n_layer));
    SM_TRY(read_heads(path, root, config));
    SM_TRY(sm_config_real(path, root, "rms_norm_eps", 1e-6, 0, 1, &config->norm_eps));
    SM_TRY(read_theta(path, root, &config->rope_theta));
    SM_TRY(sm_config_switch(path, root, "tie_word_embeddings", false, &tied));
    config->untied = !tied;
    return SM_OK;
}

json_t *sm_decoder_write(const sm_model_config *config, double dropout_p, const sm_config_field *own, size_t n_own) {
    const sm_config_field fields[] = {
        {"architectures", json_pack("[s]", config->model->hf_architectures[0])},
        {"attention_bias", json_false()},
        {"attention_dropout", json_real(dropout_p)},
        {"bos_token_id", json_null()},
        {"eos_token_id", json_null()},
        {"head_dim", json_integer(sm_model_head_dim(config))},
        {"hidden_act", json_string("silu")},
        {"hidden_size", json_integer(config->d_model)},
        {"initializer_range", json_real(0.02)},
        {"intermediate_size", json_integer(config->d_ff)},
        {"max_position_embeddings", json_integer(config->context)},
        {"model_type", json_string(config->model->hf_model_type)},
        {"num_attention_heads", json_integer(config->n_head)},
        {"num_hidden_layers", json_integer(config->n_layer)},
        {"num_key_value_heads", json_integer(sm_model_n_kv_head(config))},
        {"rms_norm_eps", json_real(config->norm_eps)},
        {"rope_scaling", json_null()},
        {"rope_theta", json_real(config->rope_theta)},
        {"tie_word_embeddings", json_boolean(!config->untied)},
        {"use_cache", json_true()},
        {"vocab_size", json_integer(config->vocab)},
    };
    json_t *root = sm_config_pack(fields, SM_COUNT(fields));
    json_auto_t *of_model = sm_config_pack(own, n_own);
    json_object_update(root, of_model);
    return root;
}
