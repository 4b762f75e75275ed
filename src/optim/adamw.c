// adamw.c: AdamW (Loshchilov and Hutter 2019, algorithm 2). State: m and v, one element of each for every parameter.
#include <math.h>

#include "src/optim/optimizer.h"

static sm_status build(sm_plan *plan, const sm_params *params, int clip) {
    return sm_build_updates(plan, params, SM_OP_ADAMW, clip);
}

const sm_optimizer sm_optimizer_adamw = {
    .name = "adamw",
    .title = "AdamW",
    .defaults = SM_ADAMW_DEFAULTS,
    .build = build,
    .fill_hyper = sm_fill_adam,
};
