// adam.c: Adam (Kingma and Ba 2015, algorithm 1) with decay as L2 in the gradient. State: m and v, for every parameter.
#include "src/optim/optimizer.h"

// The defaults are PyTorch's.
const sm_optimizer sm_optimizer_adam = {
    .name = "adam",
    .title = "Adam",
    .defaults = SM_DEFAULTS(1e-3, 0.9, 0.999, 1e-8, 0, NAN, NAN),
    .update = SM_OP_ADAM,
};
