// gpt2_disk.h: GPT-2's config.json, as transformers' GPT2Config has it. Accepts only the features that stepmark
// computes: tied embeddings and the tanh form of GELU.
//
//     key                 field         if absent
//     vocab_size          vocab         error
//     n_positions, n_ctx  context       error (n_ctx counts only where n_positions is absent)
//     n_embd              d_model       error
//     n_layer             n_layer       error
//     n_head              n_head        error
//     n_inner             d_ff          4 n_embd; null likewise
//     layer_norm_epsilon  norm_eps      1e-5
#ifndef STEPMARK_GPT2_DISK_H
#define STEPMARK_GPT2_DISK_H

#include "src/models/model.h"

sm_status gpt2_read_config(const char *path, const json_t *root, sm_model_config *config);

// Writes the file that GPT2LMHeadModel.from_pretrained reads; dropout_p goes to its three *_pdrop keys.
json_t *gpt2_write_config(const sm_model_config *config, double dropout_p);

#endif
