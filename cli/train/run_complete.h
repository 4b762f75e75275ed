// run_complete.h: the last files of a training's run folder.
#ifndef STEPMARK_CLI_TRAIN_RUN_COMPLETE_H
#define STEPMARK_CLI_TRAIN_RUN_COMPLETE_H

#include "status.h"

// Writes training_metrics.json from run.json and log.jsonl, and then RUN_COMPLETE.txt: where that is, the run is whole.
// Each appears under its name only when it is complete.
sm_status cli_run_complete(const char *folder);

#endif
