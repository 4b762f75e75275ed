// qwen3_disk.h: Qwen 3's config.json, as transformers' Qwen3Config has it (decoder_keys.h). Accepts only the feature
// that stepmark computes: attention over all positions in every layer. head_dim and num_key_value_heads are required,
// since Qwen3Config's defaults for them do not follow from other keys.
#ifndef STEPMARK_QWEN3_DISK_H
#define STEPMARK_QWEN3_DISK_H

#include "src/models/decoder_keys.h"

sm_status qwen3_read_config(const char *path, const json_t *root, sm_model_config *config);

// Writes the file that Qwen3ForCausalLM.from_pretrained reads.
json_t *qwen3_write_config(const sm_model_config *config, double dropout_p);

#endif
