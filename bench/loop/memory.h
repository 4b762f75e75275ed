// memory.h: memory over a step: the tensors that hold data while each op runs, from the planner, at the measured times
// of the ops.
#ifndef STEPMARK_BENCH_LOOP_MEMORY_H
#define STEPMARK_BENCH_LOOP_MEMORY_H

#include <jansson.h>

#include "plan.h"

// Makes a row's loop.memory from n_steps steps with plan->n_ops op times each. If there are many ops, neighbours are
// joined, with the largest of their sizes. The caller owns *memory.
sm_status sm_loop_memory(const sm_plan *plan, const int64_t *op_ns, int n_steps, json_t **memory);

#endif
