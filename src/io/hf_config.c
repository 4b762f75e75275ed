// hf_config.c: keys of config.json, read with suspicion, written in full.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "atomic_file.h"
#include "hf_config.h"
#include "input_file.h"
#include "json_text.h"

enum { MAX_CONFIG_BYTES = 1 << 20, GPT2_VOCAB = 50257 };

static const double DEFAULT_EPS = 1e-5;

// ---- reading ----

static sm_status load_json(const char *path, json_t **root) {
    int fd;
    int64_t size_bytes;
    SM_TRY(sm_input_open(path, &fd, &size_bytes));
    sm_status status = SM_OK;
    char *text = NULL;
    json_error_t error;
    if (size_bytes > MAX_CONFIG_BYTES) {
        status = sm_fail(SM_ERR_FORMAT, "%s: %lld bytes are too long for a config.json", path, (long long)size_bytes);
        goto cleanup;
    }
    text = malloc((size_t)size_bytes + 1);
    if (text == NULL) {
        status = sm_fail(SM_ERR_OOM, "%s: no memory for its %lld bytes", path, (long long)size_bytes);
        goto cleanup;
    }
    SM_TRY_GOTO(sm_input_read(fd, path, 0, text, (size_t)size_bytes));
    *root = json_loadb(text, (size_t)size_bytes, JSON_REJECT_DUPLICATES, &error);
    if (*root == NULL && error.text[0] == '\0') { // what is malformed is told; a failed allocation is not
        status = sm_fail(SM_ERR_OOM, "%s: no memory for its %lld bytes", path, (long long)size_bytes);
    } else if (*root == NULL) {
        status = sm_fail(SM_ERR_FORMAT, "%s: not JSON: %s, line %d", path,
                         sm_is_printable(error.text) ? error.text : "control character", error.line);
    } else if (!json_is_object(*root)) {
        json_decref(*root);
        status = sm_fail(SM_ERR_FORMAT, "%s: not a JSON object", path);
    }

cleanup:
    free(text);
    close(fd);
    return status;
}

static sm_status read_size(const char *path, const json_t *root, const char *key, int64_t *value) {
    const json_t *item = json_object_get(root, key);
    if (item == NULL) {
        return sm_fail(SM_ERR_FORMAT, "%s: has no %s", path, key);
    }
    if (!json_is_integer(item)) {
        return sm_fail(SM_ERR_FORMAT, "%s: %s is not a whole number", path, key);
    }
    *value = json_integer_value(item);
    if (*value < 1 || *value > INT32_MAX) {
        return sm_fail(SM_ERR_INVALID, "%s: %s is %lld; it must be 1 to %d", path, key, (long long)*value, INT32_MAX);
    }
    return SM_OK;
}

static bool is_given(const json_t *root, const char *key) {
    const json_t *item = json_object_get(root, key);
    return item != NULL && !json_is_null(item);
}

static sm_status read_sizes(const char *path, const json_t *root, sm_gpt2_config *config) {
    SM_TRY(read_size(path, root, "vocab_size", &config->vocab));
    bool only_n_ctx = !is_given(root, "n_positions") && is_given(root, "n_ctx");
    SM_TRY(read_size(path, root, only_n_ctx ? "n_ctx" : "n_positions", &config->context));
    SM_TRY(read_size(path, root, "n_embd", &config->d_model));
    SM_TRY(read_size(path, root, "n_layer", &config->n_layer));
    SM_TRY(read_size(path, root, "n_head", &config->n_head));
    if (config->d_model % config->n_head != 0) {
        return sm_fail(SM_ERR_INVALID, "%s: n_embd %lld does not divide into n_head %lld heads", path,
                       (long long)config->d_model, (long long)config->n_head);
    }
    config->d_ff = 4 * config->d_model;
    return is_given(root, "n_inner") ? read_size(path, root, "n_inner", &config->d_ff) : SM_OK;
}

static sm_status read_eps(const char *path, const json_t *root, double *eps) {
    const json_t *item = json_object_get(root, "layer_norm_epsilon");
    *eps = DEFAULT_EPS;
    if (item == NULL) {
        return SM_OK;
    }
    if (!json_is_number(item)) {
        return sm_fail(SM_ERR_FORMAT, "%s: layer_norm_epsilon is not a number", path);
    }
    *eps = json_number_value(item);
    if (!(*eps >= 0 && *eps < 1)) {
        return sm_fail(SM_ERR_INVALID, "%s: layer_norm_epsilon is %g; it must be at least 0 and below 1", path, *eps);
    }
    return SM_OK;
}

// A text that must be one of `accepted`, a list that ends with NULL.
static sm_status check_text(const char *path, const json_t *root, const char *key, const char *const *accepted) {
    const char *value = json_string_value(json_object_get(root, key));
    if (value == NULL) {
        return sm_fail(SM_ERR_FORMAT, "%s: %s is not a string", path, key);
    }
    for (int i = 0; accepted[i] != NULL; i++) {
        if (strcmp(value, accepted[i]) == 0) {
            return SM_OK;
        }
    }
    return sm_fail(SM_ERR_UNSUPPORTED, "%s: %s is '%.64s'; only '%s' is supported", path, key,
                   sm_is_printable(value) ? value : "?", accepted[0]);
}

static sm_status check_variant(const char *path, const json_t *root) {
    static const char *const model_types[] = {"gpt2", NULL};
    static const char *const activations[] = {"gelu_new", "gelu_pytorch_tanh", NULL}; // the same function
    static const struct {
        const char *key;
        bool value; // the only one supported, and what an absent key means
    } switches[] = {
        {"tie_word_embeddings", true},
        {"scale_attn_weights", true},
        {"scale_attn_by_inverse_layer_idx", false},
        {"add_cross_attention", false},
    };
    if (json_object_get(root, "model_type") == NULL) {
        return sm_fail(SM_ERR_FORMAT, "%s: has no model_type", path);
    }
    SM_TRY(check_text(path, root, "model_type", model_types));
    if (json_object_get(root, "activation_function") != NULL) {
        SM_TRY(check_text(path, root, "activation_function", activations));
    }
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        const json_t *item = json_object_get(root, switches[i].key);
        if (item != NULL && !json_is_boolean(item)) {
            return sm_fail(SM_ERR_FORMAT, "%s: %s is neither true nor false", path, switches[i].key);
        }
        if (item != NULL && json_is_true(item) != switches[i].value) {
            return sm_fail(SM_ERR_UNSUPPORTED, "%s: %s is %s; only %s is supported", path, switches[i].key,
                           switches[i].value ? "false" : "true", switches[i].value ? "true" : "false");
        }
    }
    return SM_OK;
}

sm_status sm_hf_config_read(const char *path, sm_gpt2_config *config) {
    sm_status status = SM_OK;
    json_t *root = NULL;
    sm_gpt2_config read = {0};
    SM_TRY(load_json(path, &root));
    SM_TRY_GOTO(check_variant(path, root));
    SM_TRY_GOTO(read_sizes(path, root, &read));
    SM_TRY_GOTO(read_eps(path, root, &read.layernorm_eps));
    status = sm_gpt2_check(&read);
    if (status != SM_OK) {
        status = sm_fail(status, "%s: %s", path, sm_error_message());
        goto cleanup;
    }
    *config = read;

cleanup:
    json_decref(root);
    return status;
}

// ---- writing ----

// The fewest significant digits that read back as the same number.
static int digits_of(double value) {
    char text[64];
    for (int digits = 1; digits < 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            return digits;
        }
    }
    return 17;
}

// Every key of transformers' GPT2Config that says what is computed, as a new object, or NULL.
static json_t *config_to_json(const sm_gpt2_config *config, double dropout_p) {
    bool is_gpt2_vocab = config->vocab == GPT2_VOCAB; // its last id is <|endoftext|>; others have none
    const struct {
        const char *key;
        json_t *value;
    } fields[] = {
        {"activation_function", json_string("gelu_new")},
        {"add_cross_attention", json_false()},
        {"architectures", json_pack("[s]", "GPT2LMHeadModel")},
        {"attn_pdrop", json_real(dropout_p)},
        {"bos_token_id", is_gpt2_vocab ? json_integer(GPT2_VOCAB - 1) : json_null()},
        {"embd_pdrop", json_real(dropout_p)},
        {"eos_token_id", is_gpt2_vocab ? json_integer(GPT2_VOCAB - 1) : json_null()},
        {"initializer_range", json_real(0.02)},
        {"layer_norm_epsilon", json_real(config->layernorm_eps)},
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
    json_t *root = json_object();
    bool complete = root != NULL;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        complete = json_object_set_new(root, fields[i].key, fields[i].value) == 0 && complete;
    }
    if (!complete) {
        json_decref(root);
        return NULL;
    }
    return root;
}

sm_status sm_hf_config_write(const char *path, const sm_gpt2_config *config, double dropout_p) {
    int eps_digits = digits_of(config->layernorm_eps);
    int dropout_digits = digits_of(dropout_p);
    size_t precision = (size_t)(eps_digits > dropout_digits ? eps_digits : dropout_digits);
    json_t *root = config_to_json(config, dropout_p);
    char *text = sm_json_to_text(root, JSON_INDENT(2) | JSON_REAL_PRECISION(precision)); // NULL of NULL
    json_decref(root);
    if (text == NULL) {
        return sm_fail(SM_ERR_OOM, "%s: no memory to write it", path);
    }
    sm_status status = sm_atomic_write_all(path, text, strlen(text));
    free(text);
    return status;
}
