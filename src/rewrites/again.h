// again.h: a new list of ops in which the backward executes forward ops again, with new outputs, which later ops read.
#ifndef STEPMARK_SRC_REWRITES_AGAIN_H
#define STEPMARK_SRC_REWRITES_AGAIN_H

#include "plan.h"

typedef struct {
    sm_plan *plan;
    int *current; // by tensor of the original plan: itself, or its recomputed copy
    int n_tensors;
    sm_op *ops; // the new list
    int n_ops;
    size_t cap_ops;
} sm_again;

// Starts an empty list. Close it in any case.
void sm_again_open(sm_plan *plan, sm_again *again);
void sm_again_close(sm_again *again);

// Whether a tensor of the original plan has not been computed again.
bool sm_again_is_kept(const sm_again *again, int tensor);

// Appends an op of the plan; it reads recomputed tensors if they exist.
sm_status sm_again_append(sm_again *again, sm_op op);

// Appends a copy of a forward op to the backward, with new outputs of that role, and no FLOPs.
sm_status sm_again_emit(sm_again *again, sm_op op, sm_role role);

// Replaces the plan's ops by the new list.
void sm_again_finish(sm_again *again);

#endif
