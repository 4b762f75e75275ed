// step.h: the forward of a one-block model in which a ladder's op has the measured shape: how a step runs the top
// kernel.
#ifndef STEPMARK_LEARN_LADDER_STEP_H
#define STEPMARK_LEARN_LADDER_STEP_H

#include "src/session/session.h"
#include "src/verify/op_cases.h"

typedef struct {
    sm_session *session; // NULL: no model has such an op
    sm_range forward;
    int op; // in the plan: the first like the ladder's
} sm_ladder_step;

// Weights and tokens are random. `own` is the plan of the shape. The session is NULL if no model has the op, or the
// device does not run the model.
sm_status sm_ladder_step_open(sm_device *device, const sm_plan *own, const char *shape, sm_ladder_step *step);

// Value of a letter of a shape, "N=96 C=768"; 0: absent.
int64_t sm_ladder_size(const char *shape, const char *letter);

#endif
