// adam.c: Adam (Kingma and Ba 2015, algorithm 1) with decay as L2 in the gradient. State: m and v, one element of each
// for every parameter.
#include "src/optim/optimizer.h"

// The defaults are PyTorch's.
const sm_optimizer sm_optimizer_adam = {
    .name = "adam",
    .title = "Adam",
    .defaults = {.lr = 1e-3,
                 .beta1 = 0.9,
                 .beta2 = 0.999,
                 .eps = 1e-8,
                 .weight_decay = 0,
                 .momentum = NAN,
                 .nesterov = NAN,
                 .grad_clip = 0},
    .update = SM_OP_ADAM,
    .fill_hyper = sm_fill_adam,
};
