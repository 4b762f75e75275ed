// sgd.c: gradient descent with momentum (Sutskever et al. 2013). State: m, one element for every parameter.
#include "src/optim/optimizer.h"

static void fill_hyper(const sm_step_settings *settings, SM_UNUSED int64_t step, double hyper[SM_HYPER_COUNT]) {
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
    .update = SM_OP_SGD,
    .fill_hyper = fill_hyper,
};
