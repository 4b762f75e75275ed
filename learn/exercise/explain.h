// explain.h: compares a kernel's results with the right ones, and explains the difference. Typical mistakes of
// students, such as a missing or confused step of the equation, are edits of the reference's text, which is compiled
// only where a kernel is wrong.
#ifndef STEPMARK_LEARN_EXERCISE_EXPLAIN_H
#define STEPMARK_LEARN_EXERCISE_EXPLAIN_H

#include "learn/exercise/case.h"
#include "learn/exercise/child.h"

// After the kernel ran: fills right, n_right, n_values, wrong, where and why. `how`: to run known mistakes. SM_ERR_OOM,
// SM_ERR_INTERRUPTED.
sm_status sm_exercise_judge(const sm_exercise_cases *cases, const sm_exercise_options *how, sm_exercise_report *report);

// Whether a case's results are right, sm_case_expect.
bool sm_case_is_right(const sm_exercise_case *c);

// After it was right, and wrong in a timed call, whose results the case has.
void sm_exercise_judge_call(const sm_exercise_case *c, sm_exercise_report *report);

// After the kernel ended abnormally: fills wrong and why.
void sm_exercise_tell_end(const sm_exercise_cases *cases, const sm_child_result *result, double timeout_s,
                          sm_exercise_report *report);

// --- typical mistakes (mistakes.c) ------------------------------------------------------------------

enum { SM_MOST_EDITS = 4 };

typedef struct {
    sm_op_kind kind;
    const char *says;
    struct {
        const char *find, *replace; // everywhere
    } edits[SM_MOST_EDITS];
} sm_mistake;

// The mistakes of a kind, from 0 on; NULL: no more.
const sm_mistake *sm_mistake_at(sm_op_kind kind, int index);

// Writes a kernel of the kind, in C, that makes mistake number args->thread. SM_ERR_FORMAT names an edit whose text the
// reference lacks.
sm_status sm_mistakes_write(sm_op_kind kind, const char *path);

#endif
