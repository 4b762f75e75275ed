// adamw8bit.c: AdamW with moments in 8 bits (Dettmers et al. 2022). State of a matrix: a code a parameter for m and for
// v, and their scales, one a block of 256. Vectors, few as they are, keep theirs in f32.
#include <math.h>

#include "dynamic_map.h"
#include "optimizer.h"

static sm_status build_matrix(sm_plan *plan, const sm_param *param, int clip) {
    const int64_t n_blocks = (param->rows * param->cols + SM_QUANT_BLOCK - 1) / SM_QUANT_BLOCK;
    sm_op op = sm_op_make(SM_OP_ADAMW8BIT, SM_PHASE_OPTIMIZER, -1);
    op.attr.decay = true;
    op.in[SM_IN(adamw8bit, g)] = param->gradient;
    op.in[SM_IN(adamw8bit, hyper)] = plan->hyper;
    op.in[SM_IN(adamw8bit, clip)] = clip;
    op.out[SM_OUT(adamw8bit, p)] = param->value;
    op.out[SM_OUT(adamw8bit, m)] = sm_param_add_state(plan, param, "m", SM_U8, 0, NULL);
    op.out[SM_OUT(adamw8bit, v)] = sm_param_add_state(plan, param, "v", SM_U8, 0, NULL);
    op.out[SM_OUT(adamw8bit, m_max)] = sm_param_add_state(plan, param, "m_max", plan->real, 1, &n_blocks);
    op.out[SM_OUT(adamw8bit, v_max)] = sm_param_add_state(plan, param, "v_max", plan->real, 1, &n_blocks);
    op.out[SM_OUT(adamw8bit, w)] = plan->tensors[param->value].working_copy;
    for (int k = SM_OUT(adamw8bit, m); k <= SM_OUT(adamw8bit, v_max); k++) {
        SM_TRY(op.out[k] == SM_NO_TENSOR ? SM_ERR_INVALID : SM_OK); // its message was set where it failed
    }
    return sm_plan_add_op(plan, &op);
}

static sm_status build(sm_plan *plan, const sm_params *params, int clip) {
    for (int i = 0; i < params->n_params; i++) {
        if (params->params[i].is_matrix) {
            SM_TRY(build_matrix(plan, &params->params[i], clip));
        }
    }
    for (int g = 0; g < params->n_groups; g++) {
        if (!params->groups[g].is_matrix) {
            SM_TRY(sm_build_group_update(plan, params, g, SM_OP_ADAMW, clip));
        }
    }
    return SM_OK;
}

const sm_optimizer sm_optimizer_adamw8bit = {
    .name = "adamw8bit",
    .title = "8-bit AdamW",
    .defaults = SM_ADAMW_DEFAULTS,
    .build = build,
    .not_sharded = "its state is in blocks of a matrix, with a scale each",
    .fill_hyper = sm_fill_adam,
};
