// run_configuration.h: the configuration of a run, as in run.json.
#ifndef STEPMARK_SRC_TRAIN_RUN_CONFIGURATION_H
#define STEPMARK_SRC_TRAIN_RUN_CONFIGURATION_H

#include "src/train/trainer.h"

// The schedule of a training of n_steps.
sm_schedule sm_train_schedule(const sm_train_settings *settings, int64_t n_steps);

// Computes the digest of a source's contents, unless it is set.
sm_status sm_train_source_digest(sm_train_source *source);

// The settings' own configuration, and {seq_len, micro_batch, global_batch, grad_accum, n_processes, optimizer {name,
// settings}, schedule {kind, warmup_steps, n_steps, final_fraction}, steps, seed, order, data {path, bytes, tokens,
// digest}, val_data (the same or null), val_every, val_batches, save_every}. Reads the data once. The caller owns
// *configuration.
sm_status sm_run_configuration(const sm_train_settings *settings, int64_t n_steps, json_t **configuration);

#endif
