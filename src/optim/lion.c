// lion.c: Lion (Chen et al. 2023, algorithm 2). State: m, one element for every parameter.
#include "src/optim/optimizer.h"

static void fill_hyper(const sm_step_settings *settings, SM_UNUSED int64_t step, double hyper[SM_HYPER_COUNT]) {
    hyper[SM_HYPER_LR] = settings->lr;
    hyper[SM_HYPER_BETA1] = settings->beta1;
    hyper[SM_HYPER_BETA2] = settings->beta2;
    hyper[SM_HYPER_WEIGHT_DECAY] = settings->weight_decay;
}

// The defaults are lion-pytorch's.
const sm_optimizer sm_optimizer_lion = {
    .name = "lion",
    .title = "Lion",
    .defaults = {.lr = 1e-4,
                 .beta1 = 0.9,
                 .beta2 = 0.99,
                 .eps = NAN,
                 .weight_decay = 0,
                 .momentum = NAN,
                 .nesterov = NAN,
                 .grad_clip = 0},
    .update = SM_OP_LION,
    .fill_hyper = fill_hyper,
};
