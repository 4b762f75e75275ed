// hf_config.h: config.json, by which Hugging Face's transformers describes a model, to and from
// sm_gpt2_config. Only what stepmark computes is accepted: GPT-2 with tied embeddings and the
// tanh form of GELU; a config that asks for anything else is refused by key.
//
//     key                 field         if absent
//     vocab_size          vocab         error
//     n_positions, n_ctx  context       error (n_ctx counts only where n_positions is absent)
//     n_embd              d_model       error
//     n_layer             n_layer       error
//     n_head              n_head        error
//     n_inner             d_ff          4 n_embd; null likewise
//     layer_norm_epsilon  layernorm_eps 1e-5
#ifndef STEPMARK_HF_CONFIG_H
#define STEPMARK_HF_CONFIG_H

#include "gpt2.h"

// SM_ERR_FORMAT: not JSON, or a value of the wrong type; SM_ERR_INVALID: out of range;
// SM_ERR_UNSUPPORTED: another architecture or variant. The message names path and key.
sm_status sm_hf_config_read(const char *path, sm_gpt2_config *config);

// Writes what GPT2LMHeadModel.from_pretrained reads; dropout_p goes to its three *_pdrop keys.
sm_status sm_hf_config_write(const char *path, const sm_gpt2_config *config, double dropout_p);

#endif
