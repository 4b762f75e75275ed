// judge.h: what a check of own kernels found, as text and as records: for `stepmark judge`, and exercises.
#ifndef STEPMARK_CLI_LEARN_JUDGE_H
#define STEPMARK_CLI_LEARN_JUDGE_H

#include "cli/flags/options.h"
#include "learn/exercise/exercise.h"

sm_exercise_options cli_judge_options(const cli_options *options);

// Prints a report; `next`: the exercise that comes after it (NULL: none). Or writes its record.
sm_status cli_judge_write(const cli_options *options, sm_op_kind kind, const char *file,
                          const sm_exercise_report *report);

#endif
