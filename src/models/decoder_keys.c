// decoder_keys.c: see decoder_keys.h.
#include "src/models/decoder_keys.h"

static const double default_theta = 1e4;

static sm_status check_absent(const char *path, const json_t *root, const char *const *unsupported) {
    for (int i = 0; unsupported[i] != NULL; i++) {
        if (sm_config_has(root, unsupported[i])) {
            return sm_fail(SM_ERR_UNSUPPORTED, "%s: %s is set; only models without it are supported", path,
                           unsupported[i]);
        }
    }
    return SM_OK;
}

static sm_status check_variant(const char *path, const json_t *root, const char *const *unsupported) {
    static const char *const activations[] = {"silu", "swish", NULL}; // two names of one function
    static const char *const of_none[] = {"rope_scaling", "quantization_config", NULL};
    SM_TRY(check_absent(path, root, of_none));
    SM_TRY(check_absent(path, root, unsupported));
    if (json_object_get(root, "hidden_act") != NULL) {
        SM_TRY(sm_config_check_text(path, root, "hidden_act", activations));
    }
    SM_TRY(sm_config_check_switch(path, root, "attention_bias", false));
    return sm_config_check_switch(path, root, "mlp_bias", false);
}

// rope_theta is at the top, or, in newer versions of transformers, inside rope_parameters.
static sm_status read_theta(const char *path, const json_t *root, double *theta) {
    static const char *const types[] = {"default", NULL};
    const json_t *place = root;
    if (sm_config_has(root, "rope_parameters")) {
        place = json_object_get(root, "rope_parameters");
        if (!json_is_object(place)) {
            return sm_fail(SM_ERR_FORMAT, "%s: rope_parameters is not an object", path);
        }
        if (json_object_get(place, "rope_type") != NULL) {
            SM_TRY(sm_config_check_text(path, place, "rope_type", types));
        }
    }
    return sm_config_real(path, place, "rope_theta", default_theta, 1, 1e12, theta);
}

static sm_status read_heads(const char *path, const json_t *root, sm_model_config *config) {
    SM_TRY(sm_config_size(path, root, "num_attention_heads", &config->n_head));
    config->n_kv_head = config->n_head;
    if (sm_config_has(root, "num_key_value_heads")) {
        SM_TRY(sm_config_size(path, root, "num_key_value_heads", &config->n_kv_head));
    }
    if (config->n_head % config->n_kv_head != 0) {
        return sm_fail(SM_ERR_INVALID, "%s: num_key_value_heads %lld does not divide num_attention_heads %lld", path,
                       (long long)config->n_kv_head, (long long)config->n_head);
    }
    config->head_dim = 0;
    if (sm_config_has(root, "head_dim")) {
        SM_TRY(sm_config_size(path, root, "head_dim", &config->head_dim));
        config->head_dim = config->head_dim * config->n_head == config->d_model ? 0 : config->head_dim;
        return SM_OK;
    }
    if (config->d_model % config->n_head != 0) {
        return sm_fail(SM_ERR_INVALID,
                       "%s: num_attention_heads %lld does not divide hidden_size %lld, and no head_dim is given", path,
                       (long long)config->n_head, (long long)config->d_model);
    }
    return SM_OK;
}

sm_status sm_decoder_read(const char *path, const json_t *root, const char *const *unsupported,
                          sm_model_config *config) {
    bool tied = false;
    SM_TRY(check_variant(path, root, unsupported));
    SM_TRY(sm_config_size(path, root, "vocab_size", &config->vocab));
    SM_TRY(sm_config_size(path, root, "max_position_embeddings", &config->context));
    SM_TRY(sm_config_size(path, root, "hidden_size", &config->d_model));
    SM_TRY(sm_config_size(path, root, "intermediate_size", &config->d_ff));
    SM_TRY(sm_config_size(path, root, "num_hidden_layers", &config->n_layer));
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
    json_t *of_model = sm_config_pack(own, n_own);
    if (root == NULL || of_model == NULL || json_object_update(root, of_model) != 0) {
        json_decref(root);
        root = NULL;
    }
    json_decref(of_model);
    return root;
}
