// qwen3.c: Qwen 3 (Yang et al. 2025, section 2): Llama (decoder.c) with an RMSNorm over each head of queries and keys,
// and a head size that is independent of d_model.
#include "src/models/decoder.h"

// GPT-2's sizes, for comparison, except for heads of keys and values and, in tiny, the head size; and the sizes of Yang
// et al. 2025, table 1, by their own names. The smaller ones have a tied head.
#define SIZE(size_name, L, NH, NKV, HS, C, F, V, P, has_head)                                            \
    {                                                                                                    \
        size_name, NULL, {                                                                               \
            SM_DIMENSIONS(qwen3, L, NH, C, F, V, P), .n_kv_head = NKV, .head_dim = HS, .norm_eps = 1e-6, \
                                                     .rope_theta = 1e6, .untied = has_head               \
        }                                                                                                \
    }
static const sm_model_size sizes[] = {
    SIZE("tiny", 2, 2, 1, 24, 32, 128, 256, 64, false),
    SIZE("small", 12, 12, 4, 0, 768, 3072, 50257, 1024, false),
    SIZE("medium", 24, 16, 8, 0, 1024, 4096, 50257, 1024, false),
    SIZE("large", 36, 20, 4, 0, 1280, 5120, 50257, 1024, false),
    SIZE("xl", 48, 25, 5, 0, 1600, 6400, 50257, 1024, false),
    SIZE("2.7B", 32, 32, 8, 0, 2560, 10240, 50257, 1024, false),
    SIZE("0.6B", 28, 16, 8, 128, 1024, 3072, 151936, 40960, false),
    SIZE("1.7B", 28, 16, 8, 128, 2048, 6144, 151936, 40960, false),
    SIZE("4B", 36, 32, 8, 128, 2560, 9728, 151936, 40960, false),
    SIZE("8B", 36, 32, 8, 128, 4096, 12288, 151936, 40960, true),
};
#undef SIZE

// --- config.json, as Qwen3Config has it (decoder.h) ----------------------------------------------

// Accepts only what stepmark computes: attention over all positions in every layer. head_dim and num_key_value_heads
// are required, since Qwen3Config's defaults for them do not follow from other keys.
static sm_status read_config(const char *path, const json_t *root, sm_model_config *config) {
    static const sm_config_rule rules[] = {{"use_sliding_window", "[false]"}, {NULL, NULL}};
    SM_TRY(sm_config_check(path, "", root, rules));
    SM_TRY(sm_config_size(path, root, "head_dim", &config->head_dim));
    SM_TRY(sm_config_size(path, root, "num_key_value_heads", &config->n_kv_head));
    return sm_decoder_read(path, root, config);
}

static json_t *write_config(const sm_model_config *config, double dropout_p) {
    const sm_config_field own[] = {
        {"max_window_layers", json_integer(config->n_layer)},
        {"sliding_window", json_null()},
        {"use_sliding_window", json_false()},
    };
    return sm_decoder_write(config, dropout_p, own, SM_COUNT(own));
}

static const char *const none[] = {NULL};

const sm_model sm_model_qwen3 = {
    .name = "qwen3",
    .title = "Qwen 3",
    .sizes = sizes,
    .n_sizes = SM_COUNT(sizes),
    .odd = {SM_DIMENSIONS(qwen3, 2, 4, 24, 50, 37, 20), .n_kv_head = 2, .head_dim = 10, .norm_eps = 0.3,
            .rope_theta = 1e4}, // eps as Llama's
    SM_DECODER,
    .has_head_norms = true,
    .ignored_endings = none,
    .hf_model_type = "qwen3",
    .hf_architectures = {"Qwen3ForCausalLM", "Qwen3Model"},
    .read_config = read_config,
    .write_config = write_config,
};
