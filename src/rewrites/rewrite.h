// rewrite.h: passes that turn the naive plan into a faster, equal one. Each has its own file, src/rewrites/NAME.c, and
// can be switched off by name (`--without NAME`).
#pragma once

#include "plan.h"

typedef enum { SM_MODE_NAIVE, SM_MODE_FUSED, SM_MODE_TUNED } sm_mode;

const char *sm_mode_name(sm_mode mode);

// "none", "light", "block", "block:4"; "auto".
const char *sm_recompute_name(sm_recompute recompute);

// The resolved value: SM_RECOMPUTE_AUTO is none, and so is every value if `without` has the rewrite "recompute".
sm_recompute sm_recompute_resolve(sm_recompute asked, unsigned without);

// "naive", "flash"; "auto".
const char *sm_attention_name(sm_attention attention);

// The resolved value: SM_ATTENTION_AUTO is flash, but naive in mode naive or if `without` has "flash_attention".
sm_attention sm_attention_resolve(sm_attention asked, sm_mode mode, unsigned without);

typedef struct {
    const char *name;
    const char *summary; // the change, one line
    sm_status (*apply)(sm_plan *plan);
} sm_rewrite;

int sm_rewrite_count(void);
const sm_rewrite *sm_rewrite_at(int index); // in the order of application
int sm_rewrite_find(const char *name);      // its index, or -1

// Applies the rewrites of a mode, except those whose bit (1 << index) is in `without`. plan->recompute and
// plan->attention take effect in every mode.
sm_status sm_plan_rewrite(sm_plan *plan, sm_mode mode, unsigned without);
