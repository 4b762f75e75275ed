// qwen3_disk.c: see qwen3_disk.h.
#include "src/models/qwen3/qwen3_disk.h"

#include "src/models/decoder_keys.h"

sm_status qwen3_read_config(const char *path, const json_t *root, sm_model_config *config) {
    static const sm_config_rule rules[] = {{"use_sliding_window", "[false]"}, {NULL, NULL}};
    SM_TRY(sm_config_check(path, "", root, rules));
    SM_TRY(sm_config_size(path, root, "head_dim", &config->head_dim));
    SM_TRY(sm_config_size(path, root, "num_key_value_heads", &config->n_kv_head));
    return sm_decoder_read(path, root, config);
}

json_t *qwen3_write_config(const sm_model_config *config, double dropout_p) {
    const sm_config_field own[] = {
        {"max_window_layers", json_integer(config->n_layer)},
        {"sliding_window", json_null()},
        {"use_sliding_window", json_false()},
    };
    return sm_decoder_write(config, dropout_p, own, sizeof own / sizeof own[0]);
}
