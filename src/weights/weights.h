// weights.h: models on disk, as Hugging Face's transformers keeps them: a folder with
//
//     config.json             model_folder.h
//     model.safetensors       the parameters, F32, named as transformers names them; or, read only, its parts with
//                             model.safetensors.index.json
//     optimizer.safetensors   the optimizer's state, if saved: AdamW's "m." and "v." + the parameter's name; with
//                             metadata: "step", the number of steps; "model", a digest of the weights; and
//                             "optimizer", its name
//
// Names are read with or without the model's prefix ("transformer." of GPT-2, "model." of Llama) and written with it.
// Buffers in older files are ignored. If the head is tied, a "lm_head.weight" must equal the embedding, or replaces it
// where that is missing. Any other tensor that is unknown, missing, repeated or of the wrong shape is an error that names it.
//
// The files of a folder change together, all or none (model_folder.h).
#pragma once

#include "src/io/safetensors.h"
#include "src/session/session.h"
#include "src/weights/model_folder.h"

typedef struct sm_weights_copy sm_weights_copy;

sm_status sm_weights_read_config(const char *dir, sm_model_config *config);

// Opens the file of the parameters, or its parts. The caller closes it.
sm_status sm_weights_open(const char *dir, sm_safetensors **file);

// Fills the session's parameters. `config` is what its plan was built from; the folder's must be the same. The session
// is changed only if all tensors fit. With `step` (may be NULL) also the optimizer state, for a session whose plan has
// one: *step becomes the number of steps done, or 0 if there is no optimizer.safetensors. SM_ERR_FORMAT if it belongs
// to other weights.
sm_status sm_weights_load(const char *dir, const sm_model_config *config, sm_session *session, int64_t *step);

// Writes parameters, config and, if the plan has one, the optimizer state after `step` steps; makes the folder if
// missing (its parent must exist). After a failure the folder's model is unchanged. SM_NO_STATE: without that state.
#define SM_NO_STATE INT64_C(-1)
sm_status sm_weights_save(const char *dir, const sm_model_config *config, sm_session *session, int64_t step);

// The same for a copy.
sm_status sm_weights_save_copy(const char *dir, const sm_model_config *config, const sm_weights_copy *copy,
                               int64_t step);

// Writes the files of a copy of a session's state into an existing folder that no other process uses;
// digests[SM_FILE_*] receives each file's digest, "" if there is no such file. The session may run meanwhile.
sm_status sm_weights_write(const char *dir, const sm_model_config *config, const sm_weights_copy *copy, int64_t step,
                           char digests[SM_MODEL_FILE_COUNT][SM_FILE_DIGEST_SIZE]);

// Writes a new model without optimizer state, drawn from `seed` (sm_param_init), tensor by tensor; needs no device.
sm_status sm_weights_init(const char *dir, const sm_model_config *config, uint64_t seed);

// A copy of a session's parameters and optimizer state in host memory, as f32, to write while the session continues.

// Allocates a copy of everything that sm_weights_save would write for a plan; the plan must outlive it.
sm_status sm_weights_copy_open(const sm_plan *plan, sm_weights_copy **copy);
void sm_weights_copy_close(sm_weights_copy *copy); // NULL is fine
SM_OWNABLE(sm_weights_copy, sm_weights_copy_close)

// Waits for the session, whose plan must be that of the copy, and copies everything.
sm_status sm_weights_copy_take(sm_weights_copy *copy, sm_session *session);

// With a sharded optimizer state, the other processes call this while one of them takes a copy: they send their parts.
sm_status sm_weights_copy_help(sm_session *session);
