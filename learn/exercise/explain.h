// explain.h: compares a kernel's results with the right ones, and explains the difference.
#ifndef STEPMARK_LEARN_EXERCISE_EXPLAIN_H
#define STEPMARK_LEARN_EXERCISE_EXPLAIN_H

#include "learn/exercise/case.h"
#include "learn/exercise/child.h"
#include "learn/exercise/exercise.h"

// After the kernel ran: fills right, n_right, n_values, wrong, where and why. `how`: to run known mistakes. SM_ERR_OOM,
// SM_ERR_INTERRUPTED.
sm_status sm_exercise_judge(const sm_exercise_cases *cases, const sm_exercise_child_options *how,
                            sm_exercise_report *report);

// After it was right and was timed: also compares the outputs of the timed calls.
void sm_exercise_judge_timed(const sm_exercise_cases *cases, sm_exercise_report *report);

// After the kernel ended abnormally: fills wrong and why.
void sm_exercise_tell_end(const sm_exercise_cases *cases, const sm_child_result *result, double timeout_s,
                          sm_exercise_report *report);

#endif
