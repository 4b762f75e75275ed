// hf_config.h: reads and writes config.json, the description of a model in Hugging Face's transformers, as
// sm_model_config. model_type names the architecture, which reads and writes the other keys, and refuses every feature
// that stepmark does not compute.
#ifndef STEPMARK_SRC_WEIGHTS_HF_CONFIG_H
#define STEPMARK_SRC_WEIGHTS_HF_CONFIG_H

#include "src/models/model.h"

// SM_ERR_FORMAT: not JSON, or a value of the wrong type; SM_ERR_INVALID: out of range;
// SM_ERR_UNSUPPORTED: another architecture or variant. The message names path and key.
sm_status sm_hf_config_read(const char *path, sm_model_config *config);

// Writes the file that transformers' from_pretrained reads.
sm_status sm_hf_config_write(const char *path, const sm_model_config *config, double dropout_p);

#endif
