// sgd.c: gradient descent with momentum (Sutskever et al. 2013). State: m, one element for every parameter.
#include "src/optim/optimizer.h"

// The defaults are PyTorch's, except the momentum, which is 0 there.
const sm_optimizer sm_optimizer_sgd = {
    .name = "sgd",
    .title = "SGD",
    .defaults = SM_DEFAULTS(1e-3, NAN, NAN, NAN, 0, 0.9, 0),
    .update = SM_OP_SGD,
};
