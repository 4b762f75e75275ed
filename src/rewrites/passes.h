// passes.h: the passes themselves, and their shared functions. A pass finds patterns of neighbouring ops in execution
// order, and replaces each by one op. The new plan must compute the same.
#pragma once

#include "plan.h"

sm_status sm_rewrite_flash_attention(sm_plan *plan);
sm_status sm_rewrite_matmul_epilogue(sm_plan *plan);
sm_status sm_rewrite_residual_layernorm(sm_plan *plan);
sm_status sm_rewrite_bias_gradient(sm_plan *plan);
sm_status sm_rewrite_fp8(sm_plan *plan); // for plans with SM_PRODUCTS_FP8, in every mode
sm_status sm_rewrite_loss_head(sm_plan *plan);
sm_status sm_rewrite_recompute(sm_plan *plan);
sm_status sm_rewrite_recompute_block(sm_plan *plan);
sm_status sm_rewrite_first_write(sm_plan *plan);

// Replaces each op by what `fuse` makes of it and of those after it; it returns the number of these.
sm_status sm_rewrite_fuse(sm_plan *plan, int (*fuse)(const sm_plan *plan, int i, sm_op *op));

// The ops of a plan in the making.
typedef struct {
    sm_plan *plan;
    sm_op *ops;
    int n;
} sm_op_list;

void sm_ops_append(sm_op_list *list, sm_op op); // a copy, which is checked, as sm_plan_add_op does
sm_status sm_ops_take(sm_op_list *list);        // replaces the plan's ops; returns its status

// Number of ops that read a tensor. A fused op may drop a value only if no other op reads it.
int sm_rewrite_n_readers(const sm_plan *plan, int tensor);

// Gathers the embedding's rows of all processes, so that the rest of the token table's gradient can be summed early.
sm_status sm_rewrite_gather_rows(sm_plan *plan);

// Adds the ops of communication to a plan of several processes: in every mode, after all other passes.
sm_status sm_rewrite_communication(sm_plan *plan);
