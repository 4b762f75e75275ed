// plans.h: for tests: a small model, and a plan in one call.
#pragma once

#include "tests/support/test.h"
#include "src/models/model.h"
#include "src/rewrites/rewrite.h"

// {MODEL(gpt2, 2, 2, 16, 32, 61, 16)}: a config with these layers, heads, C, F, V and context.
#define MODEL(...) SM_DIMENSIONS(__VA_ARGS__), .norm_eps = 1e-5

// {TRAINING(2, 16, SM_F32), .dropout_p = 0.1}: options of a plan that trains on B sequences of T tokens, by AdamW.
#define TRAINING(sequences, tokens, type) TRAINING_BY(&sm_optimizer_adamw, sequences, tokens, type)
#define TRAINING_BY(rule, sequences, tokens, type) \
    .B = sequences, .T = tokens, .dtype = type, .backward = true, .optimizer = rule

static inline const sm_model_config *gpt2_of(const char *size) {
    return &sm_model_size_find(&sm_model_gpt2, size)->config;
}

static inline sm_plan *build_plan(const sm_model_config *config, const sm_plan_options *options, sm_mode mode,
                                  unsigned without) {
    sm_plan *plan = NULL;
    ok(sm_model_build(config, options, &plan));
    ok(sm_plan_rewrite(plan, mode, without));
    return plan;
}

// Likewise, with places in memory.
static inline sm_plan *place_plan(const sm_model_config *config, const sm_plan_options *options, sm_mode mode,
                                  unsigned without) {
    sm_plan *plan = build_plan(config, options, mode, without);
    ok(sm_plan_assign_memory(plan, 0));
    return plan;
}
