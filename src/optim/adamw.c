// adamw.c: AdamW (Loshchilov and Hutter 2019, algorithm 2). State: m and v, an element a parameter each.
#include <math.h>

#include "optimizer.h"

static sm_status build(sm_plan *plan, const sm_params *params, int clip) {
    for (int g = 0; g < params->n_groups; g++) {
        const sm_param_group *group = &params->groups[g];
        sm_op op = sm_op_make(SM_OP_ADAMW, SM_PHASE_OPTIMIZER, -1);
        op.attr.decay = group->is_matrix;
        op.in[SM_IN(adamw, g)] = group->gradient;
        op.in[SM_IN(adamw, hyper)] = plan->hyper;
        op.in[SM_IN(adamw, clip)] = clip;
        op.out[SM_OUT(adamw, p)] = group->value;
        op.out[SM_OUT(adamw, m)] = sm_params_add_state(plan, params, g, "m", plan->real);
        op.out[SM_OUT(adamw, v)] = sm_params_add_state(plan, params, g, "v", plan->real);
        op.out[SM_OUT(adamw, w)] = group->working_copy;
        if (op.out[SM_OUT(adamw, m)] == SM_NO_TENSOR || op.out[SM_OUT(adamw, v)] == SM_NO_TENSOR) {
            return SM_ERR_INVALID; // its message was set where it failed
        }
        SM_TRY(sm_plan_add_op(plan, &op));
    }
    return SM_OK;
}

static void fill_hyper(const sm_step_settings *settings, int64_t step, double hyper[SM_HYPER_COUNT]) {
    hyper[SM_HYPER_LR] = settings->lr;
    hyper[SM_HYPER_BETA1] = settings->beta1;
    hyper[SM_HYPER_BETA2] = settings->beta2;
    hyper[SM_HYPER_EPS] = settings->eps;
    hyper[SM_HYPER_WEIGHT_DECAY] = settings->weight_decay;
    // Computed here in double: in f32, 1 - 0.999^1 would lose four digits.
    hyper[SM_HYPER_BIAS_CORRECTION1] = 1.0 - pow(settings->beta1, (double)step);
    hyper[SM_HYPER_BIAS_CORRECTION2] = 1.0 - pow(settings->beta2, (double)step);
}

// The defaults are PyTorch's.
const sm_optimizer sm_optimizer_adamw = {
    .name = "adamw",
    .title = "AdamW",
    .defaults = {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01, .grad_clip = 0},
    .build = build,
    .fill_hyper = fill_hyper,
};
