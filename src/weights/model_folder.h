// model_folder.h: a folder whose files change together, all or none: config.json, model.safetensors and, if there is
// one, optimizer.safetensors. Whatever else is in the folder stays as it is.
//
// A new folder is written under a temporary name and renamed. In a folder that is there already,
//
//     DIR/.stepmark-saved.tmp-PID-N/   the new files are written here, each made durable;
//     DIR/.stepmark-saved/             one rename, and they are the folder's state;
//     DIR/                             they move to their places: model.safetensors first.
//
// While model.safetensors is in .stepmark-saved nothing has moved yet, and the state is in that folder only. After that
// a file is read from there if it is there, and from its place otherwise. So at every moment the folder reads as the
// old state or as the new one. The next save moves the files that an interrupted save has not moved.
#ifndef STEPMARK_SRC_WEIGHTS_MODEL_FOLDER_H
#define STEPMARK_SRC_WEIGHTS_MODEL_FOLDER_H

#include <limits.h>
#include <stdbool.h>

#include "status.h"

typedef enum { SM_FILE_MODEL, SM_FILE_CONFIG, SM_FILE_OPTIMIZER, SM_MODEL_FILE_COUNT } sm_model_file;

// Where a file of the folder's state is to be read; *found says whether it is there. SM_ERR_IO: too long a path.
sm_status sm_model_folder_find(const char *dir, sm_model_file file, char path[PATH_MAX], bool *found);

// Where a file is in a folder that no save is under way in, or has been interrupted in. SM_ERR_IO: too long a path.
sm_status sm_model_file_path(const char *dir, sm_model_file file, char path[PATH_MAX]);

typedef struct sm_model_folder sm_model_folder;

// Begins a new state of `dir`, whose parent exists. SM_ERR_IO names the path and the reason.
sm_status sm_model_folder_begin(const char *dir, sm_model_folder **folder);

// The folder that the new state's files are to be written in. A file that is not written is not part of the new state.
const char *sm_model_folder_new(const sm_model_folder *folder);

// Makes the new state the folder's, durably. `folder` is gone afterwards, whatever is returned. After a failure the
// folder reads as the old state; or as the new one, if the message says so.
sm_status sm_model_folder_commit(sm_model_folder *folder);

void sm_model_folder_abandon(sm_model_folder *folder); // leaves the old state; NULL is fine

#endif
