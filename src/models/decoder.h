// decoder.h: what Llama shares with the models that follow it in transformers: parameters, the step, and these keys of
// config.json:
//
//     key                      field       if absent
//     vocab_size               vocab       error
//     max_position_embeddings  context     error
//     hidden_size              d_model     error
//     intermediate_size        d_ff        error
//     num_hidden_layers        n_layer     error
//     num_attention_heads      n_head      error
//     num_key_value_heads      n_kv_head   num_attention_heads; null likewise
//     head_dim                 head_dim    hidden_size / num_attention_heads; null likewise
//     rms_norm_eps             norm_eps    1e-6
//     rope_theta               rope_theta  10000; in rope_scaling, else in rope_parameters, else at the top
//     tie_word_embeddings      untied      false: a head of its own
//
// Accepts only the features that stepmark computes: SwiGLU, no biases, unscaled positions.
#pragma once

#include "src/models/builder.h"
#include "src/models/config_keys.h"

// The forward's tensors that a block's backward needs.
typedef struct {
    sm_norm norm1, norm2;
    sm_head_norm head_norm; // with has_head_norms
    int qkv, atty, att, gate_up, act;
} sm_decoder_block;

sm_status sm_decoder_check(const sm_model_config *config);
int sm_decoder_params(const sm_model_config *config, sm_param_spec *specs);
void sm_decoder_build(sm_builder *b);
int sm_decoder_forward(sm_builder *b, void *kept, int x);
int sm_decoder_backward(sm_builder *b, const void *kept, int d);

// The members of sm_model.
#define SM_DECODER                                                                                           \
    .out_by_in = true, .fields = 1u << SM_MODEL_n_kv_head | 1u << SM_MODEL_head_dim | 1u << SM_MODEL_untied, \
    .check = sm_decoder_check, .params = sm_decoder_params, .build = sm_decoder_build,                       \
    .block_bytes = sizeof(sm_decoder_block), .block_forward = sm_decoder_forward,                            \
    .block_backward = sm_decoder_backward, .disk_prefix = "", .base_prefix = "model.",                       \
    .tied_head = "model.embed_tokens.weight"

sm_status sm_decoder_read(const char *path, const json_t *root, sm_model_config *config);

// Writes every key that affects the computation, and the model's `own`; dropout_p applies to attention weights.
json_t *sm_decoder_write(const sm_model_config *config, double dropout_p, const sm_config_field *own, size_t n_own);
