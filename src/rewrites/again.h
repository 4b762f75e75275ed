// again.h: a new plan in which the backward executes ops of the forward again, with outputs of their own, which later
// ops then read.
#ifndef STEPMARK_SRC_REWRITES_AGAIN_H
#define STEPMARK_SRC_REWRITES_AGAIN_H

#include "plan.h"

typedef struct {
    sm_plan *plan;
    int *current; // by tensor of the old plan: itself, or its recomputed copy
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

// Appends an op of the plan; it reads recomputed tensors where they exist.
sm_status sm_again_append(sm_again *again, sm_op op);

// Appends a copy of a forward op to the backward: with new outputs of that role, and no FLOPs.
sm_status sm_again_emit(sm_again *again, sm_op op, sm_role role);

// Replaces the plan's ops by the new ones.
void sm_again_finish(sm_again *again);

#endif
