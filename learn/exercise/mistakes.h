// mistakes.h: typical mistakes of students, such as a missing or confused step of the equation. Each is an edit of the
// reference's text, which is compiled only where a student's kernel is wrong.
#ifndef STEPMARK_LEARN_EXERCISE_MISTAKES_H
#define STEPMARK_LEARN_EXERCISE_MISTAKES_H

#include "plan.h"

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
