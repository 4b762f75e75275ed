// weights.h: models on disk, as Hugging Face's transformers keeps them: a folder with
//
//     config.json             hf_config.h
//     model.safetensors       the parameters, F32, named as GPT2LMHeadModel names them
//     optimizer.safetensors   AdamW's state, if saved: "m." and "v." + the parameter's name, and
//                             the number of steps taken as metadata "step"
//
// Names are read with or without the prefix "transformer." and written with it (optimizer state
// without). The buffers "h.*.attn.bias" and "h.*.attn.masked_bias" of older files are passed
// over, and so is a "lm_head.weight" of wte's shape, as the head is tied. Any other tensor that
// is unknown, missing, there twice or of the wrong shape is an error that names it.
//
// Each file is written by way of atomic_file.h. config.json comes last: a new folder without it
// is not a model yet.
#ifndef STEPMARK_WEIGHTS_H
#define STEPMARK_WEIGHTS_H

#include "gpt2.h"
#include "session.h"

sm_status sm_weights_read_config(const char *dir, sm_gpt2_config *config);

// Fills the session's parameters. `config` is what its plan was built from; the folder's must
// be the same. Nothing is written to the session unless all tensors fit.
sm_status sm_weights_load(const char *dir, const sm_gpt2_config *config, sm_session *session);

// Makes the folder if need be (its parent exists) and writes parameters and config.
sm_status sm_weights_save(const char *dir, const sm_gpt2_config *config, sm_session *session);

// Fills the optimizer state of a session whose plan has one, and *step, the steps taken so far.
// Without optimizer.safetensors *step is 0 and the session stays as it is.
sm_status sm_weights_load_optimizer(const char *dir, sm_session *session, int64_t *step);

// Writes optimizer.safetensors into an existing folder.
sm_status sm_weights_save_optimizer(const char *dir, sm_session *session, int64_t step);

// Writes a new model, drawn from `seed` (sm_gpt2_init_param), tensor by tensor; needs no device.
sm_status sm_weights_init(const char *dir, const sm_gpt2_config *config, uint64_t seed);

#endif
