// run_folder.h: the folder of one run:
//
//     run.json               what the run is, and an entry for each process start
//     log.jsonl              what it did (train_log.h)
//     checkpoints/step-N/    the whole state after step N (checkpoint.h)
//     model/                 the final weights, as transformers reads them
//     training_metrics.json  made from run.json and log.jsonl
//     RUN_COMPLETE.txt       last of all: the run is complete
//
// One process owns it at a time. run.json:
//
//     {schema_version, run_id, configuration {...}, command_line,
//      starts [{time_utc, from_step, startup_ms, ...facts, end {step, reason, wall_ms, ...facts}}]}
//
// A run resumes only with the configuration with which it began.
#pragma once

#include <jansson.h>

#include "status.h"

// The treatment of a folder that holds an incomplete run. X(code, name)
#define SM_RESUME_LIST(X)     \
    X(SM_RESUME_NONE, "none") \
    X(SM_RESUME_AUTO, "auto")

typedef enum { SM_RESUME_LIST(SM_CODE) } sm_resume;

enum { SM_RUN_MOST_BYTES = 1 << 26 }; // of run.json and training_metrics.json, which may be a stranger's

typedef struct sm_run_folder sm_run_folder;

// The status that opening would return, without changing anything: for callers with long work to do before opening.
sm_status sm_run_folder_check(const char *dir, sm_resume resume);

// Makes the folder, whose parent must exist, and owns it until it is closed. *is_new: it holds no run yet. SM_ERR_USAGE
// with advice if it holds a complete run, an incomplete one without SM_RESUME_AUTO, or one of another process.
sm_status sm_run_folder_open(const char *dir, sm_resume resume, sm_run_folder **folder, bool *is_new);
void sm_run_folder_close(sm_run_folder *folder); // NULL is fine
SM_OWNABLE(sm_run_folder, sm_run_folder_close)

const char *sm_run_folder_id(const sm_run_folder *folder);     // a new id for a new folder
int64_t sm_run_folder_first_step(const sm_run_folder *folder); // steps done before the run began; only for a folder
                                                               // that is not new

// Sets a new run's configuration; a resumed run must have the same. SM_ERR_USAGE names the first field that differs,
// with both values. Properties of the machine (engine's build and kernels, threads) may differ: `note` then gets one
// line, otherwise "".
sm_status sm_run_folder_configure(sm_run_folder *folder, const json_t *configuration, char *note, size_t note_bytes);

// Adds an entry to `starts` and writes run.json. `facts` may be NULL, here and below.
sm_status sm_run_folder_begin(sm_run_folder *folder, const char *command_line, int64_t from_step, double startup_ms,
                              json_t *facts);

// Records in the last entry how this process ended: reason "complete", "signal" or "failed".
sm_status sm_run_folder_end(sm_run_folder *folder, int64_t step, const char *reason, double wall_ms, json_t *facts);
