// decoder_keys.c: see decoder_keys.h.
#include "src/models/decoder_keys.h"

#include <stdio.h>
#include <string.h>

#include "src/io/input_file.h"

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
    json_t *root = sm_config_pack(fields, sizeof fields / sizeof fields[0]);
    json_auto_t *of_model = sm_config_pack(own, n_own);
    json_object_update(root, of_model);
    return root;
}
