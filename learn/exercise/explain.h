// explain.h: a kernel's result compared with the right one: what is wrong, and why.
#ifndef STEPMARK_LEARN_EXERCISE_EXPLAIN_H
#define STEPMARK_LEARN_EXERCISE_EXPLAIN_H

#include "learn/exercise/case.h"
#include "learn/exercise/child.h"
#include "learn/exercise/exercise.h"

// The kernel ran: fills right, n_right, n_values, wrong, where and why. SM_ERR_OOM.
sm_status sm_exercise_judge(const sm_exercise_cases *cases, sm_exercise_report *report);

// It was right, and timed: are the outputs of the timed calls, too? Else as above.
void sm_exercise_judge_timed(const sm_exercise_cases *cases, sm_exercise_report *report);

// The kernel did not end as a kernel does: fills wrong and why.
void sm_exercise_tell_end(const sm_exercise_cases *cases, const sm_child_result *result, double timeout_s,
                          sm_exercise_report *report);

#endif
