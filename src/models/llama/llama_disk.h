// llama_disk.h: Llama's config.json, as transformers' LlamaConfig has it (decoder_keys.h).
#ifndef STEPMARK_LLAMA_DISK_H
#define STEPMARK_LLAMA_DISK_H

#include "src/models/decoder_keys.h"

sm_status llama_read_config(const char *path, const json_t *root, sm_model_config *config);

// Writes the file that LlamaForCausalLM.from_pretrained reads.
json_t *llama_write_config(const sm_model_config *config, double dropout_p);

#endif
