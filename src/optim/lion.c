// lion.c: Lion (Chen et al. 2023, algorithm 2). State: m, one element for every parameter.
#include "src/optim/optimizer.h"

// The defaults are lion-pytorch's.
const sm_optimizer sm_optimizer_lion = {
    .name = "lion",
    .title = "Lion",
    .defaults = SM_DEFAULTS(1e-4, 0.9, 0.99, NAN, 0, NAN, NAN),
    .update = SM_OP_LION,
};
