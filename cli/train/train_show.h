// train_show.h: what a user sees of a training: a line a step on stdout, and where it is in time on stderr.
#ifndef STEPMARK_CLI_TRAIN_TRAIN_SHOW_H
#define STEPMARK_CLI_TRAIN_TRAIN_SHOW_H

#include "src/train/trainer.h"

typedef struct {
    double step_flops;   // of all micro-batches and the update
    double peak_flops;   // FLOP/s; 0: unknown
    int form;            // of a step's line: how much is left out, so that it fits the terminal
    bool tells_progress; // on stderr, every now and then
    int64_t begin_ns;    // of what is behind the second step
    int64_t told_ns;     // of the last line on stderr
} cli_train_show;

// SM_ERR_IO where stdout cannot be written.
sm_status cli_train_show_step(cli_train_show *show, const sm_train_progress *progress, const sm_train_step *step);

#endif
