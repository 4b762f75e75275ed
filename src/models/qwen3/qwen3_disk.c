// qwen3_disk.c: see qwen3_disk.h.
#include "src/models/qwen3/qwen3_disk.h"

#include <string.h>

#include "src/models/decoder_keys.h"

// layer_types has a word for each layer; it may be absent.
static sm_status check_layers(const char *path, const json_t *root) {
    const json_t *types = json_object_get(root, "layer_types");
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (type == NULL || strcmp(type, "full_attention") != 0) {
            return sm_fail(SM_ERR_UNSUPPORTED, "%s: layer_types has another word than 'full_attention', for layer %zu",
                           path, i);
        }
    }
    return SM_OK;
}

sm_status qwen3_read_config(const char *path, const json_t *root, sm_model_config *config) {
    static const char *const unsupported[] = {NULL};
    SM_TRY(sm_config_check_switch(path, root, "use_sliding_window", false));
    SM_TRY(check_layers(path, root));
    SM_TRY(sm_config_size(path, root, "head_dim", &config->head_dim));
    SM_TRY(sm_config_size(path, root, "num_key_value_heads", &config->n_kv_head));
    return sm_decoder_read(path, root, unsupported, config);
}

json_t *qwen3_write_config(const sm_model_config *config, double dropout_p) {
    const sm_config_field own[] = {
        {"max_window_layers", json_integer(config->n_layer)},
        {"sliding_window", json_null()},
        {"use_sliding_window", json_false()},
    };
    return sm_decoder_write(config, dropout_p, own, sizeof own / sizeof own[0]);
}
