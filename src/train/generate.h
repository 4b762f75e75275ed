// generate.h: a model continues a text, one token at a time: the forward pass runs on the whole text so far, and the
// logits after its last token give the next one. Nothing is cached between passes.
#pragma once

#include "src/models/model.h"
#include "src/rewrites/rewrite.h"
#include "src/session/session.h"

typedef struct {
    const sm_model_config *config;
    sm_mode mode;
    sm_precision precision;
    int64_t window; // tokens that the model sees, at most its context; the last ones of a longer text
} sm_generator_settings;

typedef struct sm_generator sm_generator;

// Prepares the forward pass on a device; the caller then loads weights into its session.
sm_status sm_generator_open(sm_device *device, const sm_generator_settings *settings, sm_generator **generator);
void sm_generator_close(sm_generator *generator); // NULL is fine
SM_OWNABLE(sm_generator, sm_generator_close)
sm_session *sm_generator_session(sm_generator *generator);

// How to choose a token.
typedef struct {
    double temperature; // divides the logits before sampling; 0: take the most probable
    int64_t top_k;      // sample only from this many most probable tokens; 0: from all
    uint64_t seed;      // of the random draws
    int64_t n_ids;      // ids n_ids and above are never chosen; at most the model's vocabulary
} sm_sampling;

// The token after n ids, n at least 1. Equal ids, sampling and draw number give the same token.
sm_status sm_generator_next(sm_generator *generator, const int32_t *ids, int64_t n, const sm_sampling *sampling,
                            int32_t *id);

// The choice itself, from logits; draw number `draw`. Changes `logits`, but not their order.
int32_t sm_sample(float *logits, int64_t n, const sm_sampling *sampling, uint64_t draw);
