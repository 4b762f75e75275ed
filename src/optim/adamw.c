// adamw.c: AdamW (Loshchilov and Hutter 2019, algorithm 2). State: m and v, one element of each for every parameter.
#include "src/optim/optimizer.h"

const sm_optimizer sm_optimizer_adamw = {
    .name = "adamw",
    .title = "AdamW",
    .defaults = SM_ADAMW_DEFAULTS,
    .update = SM_OP_ADAMW,
};
