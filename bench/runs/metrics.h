// metrics.h: training_metrics.json, schema version 2.0: the metrics of a finished training, computed only from the run
// folder's run.json (the configuration and the machine) and log.jsonl (the events). docs/training_metrics.schema.json
// says what each field means.
//
//   timed      every optimizer step, none left out
//   untimed    start-up, validation, checkpoints, and the rest of the processes' wall time (logging, saving the model)
//   wall time  timed + untimed. Throughput is over the timed part
//
// A run that was resumed is one run: its log continues where it stopped, and each start of the processes has an entry
// in run.json, from which its part of the wall time comes. A process that was killed could not say how long it had run:
// of its time only steps, validations and checkpoints that the log has are counted.
#ifndef STEPMARK_BENCH_RUNS_METRICS_H
#define STEPMARK_BENCH_RUNS_METRICS_H

#include "backend.h"
#include "status.h"
#include "bench/tables/digest.h"

#include <jansson.h>
#include <stdbool.h>

#define SM_TRAINING_SCHEMA_VERSION "2.0"
#define SM_TRAINING_METRICS_FILE   "training_metrics.json"
#define SM_RUN_COMPLETE_FILE       "RUN_COMPLETE.txt"
#define SM_RUN_FILE                "run.json"
#define SM_RUN_LOG_FILE            "log.jsonl"

// The caller owns *metrics. SM_ERR_IO, SM_ERR_FORMAT or SM_ERR_OOM names the file and its error.
sm_status sm_training_metrics_make(const char *folder, json_t **metrics);

// The text of RUN_COMPLETE.txt for these metrics, given the digest of their file.
enum { SM_RUN_COMPLETE_SIZE = 1024 };
void sm_run_complete_text(const json_t *metrics, const char *digest, char text[SM_RUN_COMPLETE_SIZE]);

// The digest in such a text; false if there is none.
bool sm_run_complete_digest(const char *text, char digest[SM_DIGEST_SIZE]);

// Where a training ran, in the fields of training_metrics.json.

// {environment {OMP_*, ...}, host {name, os, kernel}, hardware {cpu {...}, memory_bytes, device {...}},
//  build {commit, dirty, compiler, flags}, scheduler {name, job_id, nodes, n_tasks, variables {SLURM_*}} or null}
// `device` may be NULL. The caller owns them.
json_t *sm_training_facts(int argc, char *const argv[], const sm_device_info *device);

#endif
