// checkpoint.h: the whole state of a training after a step, in its own folder:
//
//     RUN/checkpoints/step-N/
//         config.json, model.safetensors, optimizer.safetensors    as `train --weights` reads them (weights.h)
//         checkpoint.json    the rest of the state, and the bytes and digest of each of these files
//
// The folder is written under another name, made durable and renamed as a whole, so it is always complete. Loading
// reports a file that was changed, or that belongs to another checkpoint.
#pragma once

#include "src/weights/weights.h"

enum { SM_RUN_ID_SIZE = 48 };

// The state besides weights and optimizer. Everything else follows from the step and the run's configuration.
typedef struct {
    char run_id[SM_RUN_ID_SIZE];
    int64_t step;          // steps done
    int64_t n_sequences;   // sequences read by these steps, in all processes: the position in the data's order
    int64_t n_micro_steps; // done by these steps, in all processes: the counter of dropout's masks
    int64_t log_bytes;     // size of log.jsonl after these steps
    bool is_pending;       // the training was interrupted: work due after this step, such as validation, is still to be
                           // done
    char digest[SM_FILE_DIGEST_SIZE]; // when loaded: the digest of checkpoint.json, which has those of the other files
} sm_checkpoint;

// Writes RUN/checkpoints/step-N; then, if keep > 0, removes all but the last `keep` up to N. A failure removes nothing.
sm_status sm_checkpoint_write(const char *run_dir, const sm_checkpoint *checkpoint, const sm_model_config *config,
                              const sm_weights_copy *copy, int64_t keep);

// The steps of a run's checkpoints, the last first. The caller frees *steps.
sm_status sm_checkpoint_list(const char *run_dir, int64_t **steps, int *n);

// Checks every file of the checkpoint of a step, whose folder is *dir.
sm_status sm_checkpoint_check(const char *run_dir, int64_t step, char dir[PATH_MAX]);

// Checks every file of a checkpoint of the run `run_id`, then loads it.
sm_status sm_checkpoint_load(const char *run_dir, int64_t step, const char *run_id, const sm_model_config *config,
                             sm_session *session, sm_checkpoint *checkpoint);

// Makes RUN/checkpoints, and removes unfinished files of killed processes; for the process that owns the run.
sm_status sm_checkpoint_prepare(const char *run_dir);
