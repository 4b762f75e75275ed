// decoder_keys.h: the keys of config.json that Llama shares with the models that follow it in transformers.
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
#ifndef STEPMARK_DECODER_KEYS_H
#define STEPMARK_DECODER_KEYS_H

#include "src/models/config_keys.h"
#include "src/models/model.h"

// The optional fields of their configs.
enum { SM_DECODER_FIELDS = 1u << SM_MODEL_n_kv_head | 1u << SM_MODEL_head_dim | 1u << SM_MODEL_untied };

sm_status sm_decoder_read(const char *path, const json_t *root, sm_model_config *config);

// Writes every key that affects the computation, and the model's `own`; dropout_p applies to attention weights.
json_t *sm_decoder_write(const sm_model_config *config, double dropout_p, const sm_config_field *own, size_t n_own);

#endif
