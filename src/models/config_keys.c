#include "src/models/config_keys.h"

bool sm_config_has(const json_t *root, const char *key) {
    const json_t *item = json_object_get(root, key);
    return item != NULL && !json_is_null(item);
}

sm_status sm_config_size(const char *path, const json_t *root, const char *key, int64_t *value) {
    const json_t *item = json_object_get(root, key);
    SM_FAIL_IF(item == NULL, SM_ERR_FORMAT, "%s: has no %s", path, key);
    SM_FAIL_IF(!json_is_integer(item), SM_ERR_FORMAT, "%s: %s is not a whole number", path, key);
    *value = json_integer_value(item);
    SM_FAIL_IF(*value < 1 || *value > INT32_MAX, SM_ERR_INVALID, "%s: %s is %lld; it must be 1 to %d", path, key,
               (long long)*value, INT32_MAX);
    return SM_OK;
}

sm_status sm_config_real(const char *path, const json_t *root, const char *key, double fallback, double least,
                         double most, double *value) {
    const json_t *item = json_object_get(root, key);
    *value = fallback;
    if (item == NULL) {
        return SM_OK;
    }
    SM_FAIL_IF(!json_is_number(item), SM_ERR_FORMAT, "%s: %s is not a number", path, key);
    *value = json_number_value(item);
    SM_FAIL_IF(!(*value >= least && *value < most), SM_ERR_INVALID, "%s: %s is %g; it must be at least %g and below %g",
               path, key, *value, least, most);
    return SM_OK;
}

sm_status sm_config_switch(const char *path, const json_t *root, const char *key, bool fallback, bool *value) {
    const json_t *item = json_object_get(root, key);
    *value = item == NULL ? fallback : json_is_true(item);
    SM_FAIL_IF(item != NULL && !json_is_boolean(item), SM_ERR_FORMAT, "%s: %s is neither true nor false", path, key);
    return SM_OK;
}

const sm_config_rule sm_config_common[] = {
    {"compression_config", "[null]"},
    {"is_causal", "[true]"},
    {"is_encoder_decoder", "[false]"},
    {"per_layer_config", "[null, {}]"},
    {"pruned_heads", "[null, {}]"},
    {"quantization_config", "[null]"},
    {"transformers_weights", "[null, \"model.safetensors\"]"},
    {NULL, NULL},
};

static bool is_computed(const json_t *value, const json_t *computed) {
    size_t i;
    const json_t *one;
    json_array_foreach(computed, i, one) {
        if (json_equal(value, one) ||
            (json_is_number(value) && json_is_number(one) && json_number_value(value) == json_number_value(one))) {
            return true;
        }
    }
    return false;
}

sm_status sm_config_check(const char *path, const char *place, const json_t *root, const sm_config_rule *rules) {
    for (; rules->key != NULL; rules++) {
        const json_t *value = json_object_get(root, rules->key);
        json_auto_t *computed = value != NULL ? json_loads(rules->computed, 0, NULL) : NULL;
        if (value != NULL && !is_computed(value, computed)) {
            enum { SHOWN = JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_COMPACT };
            SM_FREED char *given = json_dumps(value, SHOWN);
            SM_FREED char *only = json_dumps(json_array_get(computed, 0), SHOWN);
            return sm_fail(SM_ERR_UNSUPPORTED, "%s: %s%s is %.64s; only %s is supported", path, place, rules->key,
                           given, only);
        }
    }
    return SM_OK;
}

json_t *sm_config_pack(const sm_config_field *fields, size_t n_fields) {
    json_t *root = json_object();
    for (size_t i = 0; i < n_fields; i++) {
        json_object_set_new(root, fields[i].key, fields[i].value);
    }
    return root;
}
