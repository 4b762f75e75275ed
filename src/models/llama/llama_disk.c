// llama_disk.c: see llama_disk.h.
#include "src/models/llama/llama_disk.h"

#include "src/models/decoder_keys.h"

sm_status llama_read_config(const char *path, const json_t *root, sm_model_config *config) {
    static const sm_config_rule rules[] = {{"sliding_window", "[null]"}, {NULL, NULL}};
    SM_TRY(sm_config_check(path, "", root, rules));
    return sm_decoder_read(path, root, config);
}

json_t *llama_write_config(const sm_model_config *config, double dropout_p) {
    const sm_config_field own[] = {{"mlp_bias", json_false()}};
    return sm_decoder_write(config, dropout_p, own, sizeof own / sizeof own[0]);
}
