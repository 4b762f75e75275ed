// step.h: the forward of a model of one block in which a ladder's op has the shape that is measured: the place
// where a step runs the kernel at the top.
#ifndef STEPMARK_LEARN_LADDER_STEP_H
#define STEPMARK_LEARN_LADDER_STEP_H

#include "src/session/session.h"
#include "src/verify/op_cases.h"

typedef struct {
    sm_session *session; // NULL: no model has such an op
    sm_range forward;
    int op; // of the plan: the first that is like the ladder's
} sm_ladder_step;

// Weights and tokens are drawn. `like` is the op of the shape's own plan. Where no model has it, or the device does not
// run the model, the session is NULL.
sm_status sm_ladder_step_open(sm_device *device, const sm_plan *own, const char *shape, sm_ladder_step *step);

// Value of a letter of a shape, "N=96 C=768"; 0: it has none.
int64_t sm_ladder_size(const char *shape, const char *letter);

#endif
