// adamw.c: AdamW (Loshchilov and Hutter 2019, algorithm 2). State: m and v, an element a parameter each.
#include <math.h>

#include "optimizer.h"

static sm_status build(sm_plan *plan, const sm_params *params, int clip) {
    return sm_build_updates(plan, params, SM_OP_ADAMW, clip);
}

// The defaults are PyTorch's.
const sm_optimizer sm_optimizer_adamw = {
    .name = "adamw",
    .title = "AdamW",
    .defaults = {.lr = 1e-3,
                 .beta1 = 0.9,
                 .beta2 = 0.999,
                 .eps = 1e-8,
                 .weight_decay = 0.01,
                 .momentum = NAN,
                 .nesterov = NAN,
                 .grad_clip = 0},
    .build = build,
    .fill_hyper = sm_fill_adam,
};
