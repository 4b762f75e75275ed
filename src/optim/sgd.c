// sgd.c: gradient descent with momentum (Sutskever et al. 2013). State: m, one element for every parameter.
#include <math.h>

#include "src/optim/optimizer.h"

static sm_status build(sm_plan *plan, const sm_params *params, int clip) {
    return sm_build_updates(plan, params, SM_OP_SGD, clip);
}

static void fill_hyper(const sm_step_settings *settings, int64_t step, double hyper[SM_HYPER_COUNT]) {
    (void)step;
    hyper[SM_HYPER_LR] = settings->lr;
    hyper[SM_HYPER_WEIGHT_DECAY] = settings->weight_decay;
    hyper[SM_HYPER_MOMENTUM] = settings->momentum;
    hyper[SM_HYPER_NESTEROV] = settings->nesterov;
}

// The defaults are PyTorch's, except the momentum, which is 0 there.
const sm_optimizer sm_optimizer_sgd = {
    .name = "sgd",
    .title = "SGD",
    .defaults = {.lr = 1e-3,
                 .beta1 = NAN,
                 .beta2 = NAN,
                 .eps = NAN,
                 .weight_decay = 0,
                 .momentum = 0.9,
                 .nesterov = 0,
                 .grad_clip = 0},
    .build = build,
    .fill_hyper = fill_hyper,
};
