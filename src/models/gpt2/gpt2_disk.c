// gpt2_disk.c: see gpt2_disk.h.
#include "src/models/gpt2/gpt2_disk.h"

#include <string.h>

#include "src/models/config_keys.h"

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

sm_status gpt2_read_config(const char *path, const json_t *root, sm_model_config *config) {
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
    if (sm_config_has(root, "n_inner")) {
        SM_TRY(sm_config_size(path, root, "n_inner", &config->d_ff));
    }
    return sm_config_real(path, root, "layer_norm_epsilon", 1e-5, 0, 1, &config->norm_eps);
}

// Writes every key of transformers' GPT2Config that affects the computation.
json_t *gpt2_write_config(const sm_model_config *config, double dropout_p) {
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
    return sm_config_pack(fields, sizeof fields / sizeof fields[0]);
}
