// model_folder.h: a folder whose files change together, all or none: config.json, model.safetensors and, if there is
// one, optimizer.safetensors. Other files in the folder do not change.
//
// A new folder is written under a temporary name and renamed. In an existing folder:
//
//     DIR/.stepmark-saved.tmp-PID-N/   the new files are written here, each made durable;
//     DIR/.stepmark-saved/             one rename, and they are the folder's state;
//     DIR/                             they move to their places: model.safetensors first.
//
// While model.safetensors is in .stepmark-saved, no file has moved and the state is in that folder only. Afterwards a
// file is read from there if it exists, and otherwise from its place. So at every moment the folder reads as the old
// state or the new one. The next save moves the files that an interrupted save did not move.
#pragma once

#include <limits.h>

#include "src/models/model.h"

typedef enum { SM_FILE_MODEL, SM_FILE_CONFIG, SM_FILE_OPTIMIZER, SM_MODEL_FILE_COUNT } sm_model_file;

// The path for reading a file of the folder's state; *found tells whether it exists. For SM_FILE_MODEL it may be
// model.safetensors.index.json, which lists its parts. SM_ERR_IO: too long a path; SM_ERR_INVALID: `dir` is a file.
sm_status sm_model_folder_find(const char *dir, sm_model_file file, char path[PATH_MAX], bool *found);

// The path of a file in a folder without a save in progress or interrupted. SM_ERR_IO: too long a path.
sm_status sm_model_file_path(const char *dir, sm_model_file file, char path[PATH_MAX]);

typedef struct sm_model_folder sm_model_folder;

// Starts a new state of `dir`, whose parent must exist. SM_ERR_IO names the path and the reason.
sm_status sm_model_folder_begin(const char *dir, sm_model_folder **folder);

// The folder for the new state's files. A file that is not written is not part of the new state.
const char *sm_model_folder_new(const sm_model_folder *folder);

// Makes the new state current, durably. After a failure `dir` has the old state, or the new one if the message says so.
sm_status sm_model_folder_commit(sm_model_folder *folder);

void sm_model_folder_close(sm_model_folder *folder); // without a commit, the old state stays; NULL is fine
SM_OWNABLE(sm_model_folder, sm_model_folder_close)

// Reads and writes config.json, the description of a model in Hugging Face's transformers, as
// sm_model_config. model_type names the architecture, which reads and writes the other keys, and refuses every feature
// that stepmark does not compute.

// SM_ERR_FORMAT: not JSON, or a value of the wrong type; SM_ERR_INVALID: out of range;
// SM_ERR_UNSUPPORTED: another architecture or variant. The message names path and key.
sm_status sm_hf_config_read(const char *path, sm_model_config *config);

// Writes the file that transformers' from_pretrained reads.
sm_status sm_hf_config_write(const char *path, const sm_model_config *config, double dropout_p);
