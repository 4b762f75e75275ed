// hf_config.h: config.json, by which Hugging Face's transformers describes a model, to and from sm_model_config. Its
// model_type says which architecture it is; the architecture reads and writes the rest, and refuses by key every
// feature that stepmark does not compute.
#ifndef STEPMARK_SRC_WEIGHTS_HF_CONFIG_H
#define STEPMARK_SRC_WEIGHTS_HF_CONFIG_H

#include "src/models/model.h"

// SM_ERR_FORMAT: not JSON, or a value of the wrong type; SM_ERR_INVALID: out of range;
// SM_ERR_UNSUPPORTED: another architecture or variant. The message names path and key.
sm_status sm_hf_config_read(const char *path, sm_model_config *config);

// Writes the file that transformers' from_pretrained reads.
sm_status sm_hf_config_write(const char *path, const sm_model_config *config, double dropout_p);

#endif
