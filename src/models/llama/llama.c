// llama.c: Llama's sizes and config.json; its step is in decoder.c.
#include "src/models/decoder.h"

// GPT-2's sizes, for comparison: the same dimensions; d_ff is the inner width of SwiGLU.
#define SIZE(size_name, ...)                                                                                        \
    {                                                                                                               \
        size_name, NULL, { SM_DIMENSIONS(llama, __VA_ARGS__), .norm_eps = 1e-5, .rope_theta = 1e4, .untied = true } \
    }
static const sm_model_size sizes[] = {
    SIZE("tiny", 2, 2, 32, 128, 256, 64),
    SIZE("small", 12, 12, 768, 3072, 50257, 1024),
    SIZE("medium", 24, 16, 1024, 4096, 50257, 1024),
    SIZE("large", 36, 20, 1280, 5120, 50257, 1024),
    SIZE("xl", 48, 25, 1600, 6400, 50257, 1024),
    SIZE("2.7B", 32, 32, 2560, 10240, 50257, 1024),
};
#undef SIZE

// --- config.json, as LlamaConfig has it (decoder.h) ----------------------------------------------

static sm_status read_config(const char *path, const json_t *root, sm_model_config *config) {
    static const sm_config_rule rules[] = {{"sliding_window", "[null]"}, {NULL, NULL}};
    SM_TRY(sm_config_check(path, "", root, rules));
    return sm_decoder_read(path, root, config);
}

static json_t *write_config(const sm_model_config *config, double dropout_p) {
    const sm_config_field own[] = {{"mlp_bias", json_false()}};
    return sm_decoder_write(config, dropout_p, own, SM_COUNT(own));
}

// Tensors that older versions of transformers stored with each layer.
static const char *const buffers[] = {".rotary_emb.inv_freq", NULL};

const sm_model sm_model_llama = {
    .name = "llama",
    .title = "Llama",
    .sizes = sizes,
    .n_sizes = SM_COUNT(sizes),
    .odd = {SM_DIMENSIONS(llama, 2, 4, 24, 50, 37, 20), .n_kv_head = 2,
            // Large enough that verify finds a norm without eps: the mean square of the embeddings is 0.053 there. With
            // 1e-5 the norm would also multiply rounding errors by 4.3 instead of 1.7, and single bf16 gradients would
            // differ by 4.6% of the largest, verify's whole tolerance.
            .norm_eps = 0.3, .rope_theta = 1e4, .untied = true},
    SM_DECODER,
    .ignored_endings = buffers,
    .hf_model_type = "llama",
    .hf_architectures = {"LlamaForCausalLM", "LlamaModel"},
    .read_config = read_config,
    .write_config = write_config,
};
