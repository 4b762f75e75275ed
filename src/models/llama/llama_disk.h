// llama_disk.h: Llama's config.json, as transformers' LlamaConfig has it. Accepted is what stepmark computes: no
// biases, positions that are not scaled, heads of hidden_size / num_attention_heads channels.
//
//     key                      field       if absent
//     vocab_size               vocab       error
//     max_position_embeddings  context     error
//     hidden_size              d_model     error
//     intermediate_size        d_ff        error
//     num_hidden_layers        n_layer     error
//     num_attention_heads      n_head      error
//     num_key_value_heads      n_kv_head   num_attention_heads; null likewise
//     rms_norm_eps             norm_eps    1e-6
//     rope_theta               rope_theta  10000; newer versions have it in rope_parameters
//     tie_word_embeddings      untied      false: a head of its own
#ifndef STEPMARK_LLAMA_DISK_H
#define STEPMARK_LLAMA_DISK_H

#include "model.h"

sm_status llama_read_config(const char *path, const json_t *root, sm_model_config *config);

// What LlamaForCausalLM.from_pretrained reads; dropout_p is of the attention's weights.
json_t *llama_write_config(const sm_model_config *config, double dropout_p);

#endif
