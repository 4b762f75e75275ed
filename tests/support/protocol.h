// protocol.h: for tests that measure: a few warm-up steps and repetitions of the whole step, no limits.
#ifndef STEPMARK_TESTS_PROTOCOL_H
#define STEPMARK_TESTS_PROTOCOL_H

#include "bench/measure/harness.h"

static inline sm_protocol sm_protocol_default(void) {
    return (sm_protocol){
        .n_warmup = 3,
        .n_repetitions = 10,
        .n_attribution = 3,
        .min_samples = 10,
        .max_samples = 1000,
        .n_accum = 1,
        .pass = SM_PASS_STEP,
    };
}

#endif
