// generate.h: a model continues a text, a token at a time: the whole text so far goes through the forward pass, and the
// logits after its last token give the next one. Nothing is kept from one pass to the next.
#ifndef STEPMARK_GENERATE_H
#define STEPMARK_GENERATE_H

#include "backend.h"
#include "src/models/model.h"
#include "src/rewrites/rewrite.h"
#include "src/session/session.h"

typedef struct {
    const sm_model_config *config;
    sm_mode mode;
    sm_precision precision;
    int64_t window; // tokens that the model sees, at most its context; of a longer text, the last ones
} sm_generator_settings;

typedef struct sm_generator sm_generator;

// Prepares the forward pass on a device; the weights are to be put into its session.
sm_status sm_generator_open(sm_device *device, const sm_generator_settings *settings, sm_generator **generator);
void sm_generator_close(sm_generator *generator); // NULL is fine
sm_session *sm_generator_session(sm_generator *generator);

// How a token is chosen.
typedef struct {
    double temperature; // logits are divided by it, then drawn from; 0: the most probable
    int64_t top_k;      // only these most probable; 0: all
    uint64_t seed;      // of the draws
    int64_t n_ids;      // ids from n_ids on are never chosen; at most the model's vocabulary
} sm_sampling;

// The token after n ids, n at least 1. Equal ids, sampling and draw number give the same token.
sm_status sm_generator_next(sm_generator *generator, const int32_t *ids, int64_t n, const sm_sampling *sampling,
                            int32_t *id);

// The choice itself, out of logits; draw number `draw`. Reorders nothing and writes to `logits`.
int32_t sm_sample(float *logits, int64_t n, const sm_sampling *sampling, uint64_t draw);

#endif
