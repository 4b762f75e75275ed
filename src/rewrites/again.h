// again.h: a plan written anew in which the backward executes ops of the forward again, with outputs of
// their own, which later ops then read.
#ifndef STEPMARK_SRC_REWRITES_AGAIN_H
#define STEPMARK_SRC_REWRITES_AGAIN_H

#include "plan.h"

typedef struct {
    sm_plan *plan;
    int *current; // by tensor of the plan as it was: itself, or what was computed again in its place
    int n_tensors;
    sm_op *ops; // the new ones
    int n_ops;
    size_t cap_ops;
} sm_again;

// Begins with no ops. Close it in any case.
sm_status sm_again_open(sm_plan *plan, sm_again *again);
void sm_again_close(sm_again *again);

// Is it a tensor of the plan as it was that has not been computed again?
bool sm_again_is_kept(const sm_again *again, int tensor);

// Appends an op of the plan, which reads what was computed again where there is such a thing.
sm_status sm_again_append(sm_again *again, sm_op op);

// Appends a copy of a forward op to the backward: with new outputs of that role, and no FLOPs.
sm_status sm_again_emit(sm_again *again, sm_op op, sm_role role);

// Puts the new ops in the place of the plan's.
void sm_again_finish(sm_again *again);

#endif
