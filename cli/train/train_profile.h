// train_profile.h: `train --profile`: every fourth step is timed apart, and at the end a training's phases are
// shown as `loop` shows them.
#ifndef STEPMARK_CLI_TRAIN_TRAIN_PROFILE_H
#define STEPMARK_CLI_TRAIN_TRAIN_PROFILE_H

#include "bench/loop/loop.h"
#include "cli/measure/measure.h"
#include "src/train/trainer.h"

// `settings` and their session outlive the loop.
sm_status cli_train_profile_open(const sm_train_settings *settings, sm_loop **loop);

// The recorder of the next step; NULL: it is not timed apart. The first two steps of a process are of no use.
sm_step_phases *cli_train_profile_next(sm_loop *loop, const sm_train_progress *progress);
sm_status cli_train_profile_keep(sm_loop *loop, const sm_train_progress *progress, const sm_train_step *step,
                                 const sm_step_phases *phases);

// On stdout. Too few steps are a note.
sm_status cli_train_profile_show(const cli_options *options, const cli_job *job, const sm_session *session,
                                 const sm_peaks *peaks, const sm_loop *loop);

#endif
