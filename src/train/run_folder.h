// run_folder.h: the folder of one run:
//
//     run.json               what the run is, and an entry for each process start
//     log.jsonl              a line a step, validation, checkpoint and epoch (train_log.h)
//     checkpoints/step-N/    the whole state after step N (checkpoint.h)
//     model/                 the final weights, as transformers reads them
//     training_metrics.json  made from run.json and log.jsonl
//     RUN_COMPLETE.txt       last of all: the run is complete
#ifndef STEPMARK_RUN_FOLDER_H
#define STEPMARK_RUN_FOLDER_H

#include <stdbool.h>

#include "status.h"

// What to do with a folder that holds a run that is not complete.
typedef enum { SM_RESUME_NONE, SM_RESUME_AUTO } sm_resume;

#endif
