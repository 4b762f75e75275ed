// small_model.h: dimensions of a model for a test.
#ifndef STEPMARK_TESTS_SMALL_MODEL_H
#define STEPMARK_TESTS_SMALL_MODEL_H

#include "src/models/model.h"

// {MODEL(gpt2, 2, 2, 16, 32, 61, 16)}: an sm_model_config of that family, with these layers, heads, C, F, V and context.
#define MODEL(family, layers, heads, C, F, V, T)                                                          \
    .model = &sm_model_##family, .n_layer = layers, .n_head = heads, .d_model = C, .d_ff = F, .vocab = V, \
    .context = T, .norm_eps = 1e-5

#endif
