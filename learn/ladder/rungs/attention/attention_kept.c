// attention_kept.c: computes a query's scores once, and keeps them until its softmax is done: T numbers, which stay in
// the L1 cache.
#include <stdlib.h>

#include "attention_head.h"

static void attend(const flash_attention_forward_args *args, const head *a, int64_t t, float *weights) {
    float *y = a->y + t * a->to_next_y;
    float largest = -INFINITY;
    float sum = 0;
    for (int64_t s = 0; s <= t; s++) {
        float score = 0;
        for (int64_t i = 0; i < args->HS; i++) {
            score += a->q[t * a->to_next + i] * a->k[s * a->to_next + i];
        }
        weights[s] = score * a->scale;
        largest = fmaxf(largest, weights[s]);
    }
    for (int64_t s = 0; s <= t; s++) {
        weights[s] = expf(weights[s] - largest);
        sum += weights[s];
    }
    for (int64_t i = 0; i < args->HS; i++) {
        y[i] = 0;
    }
    for (int64_t s = 0; s <= t; s++) {
        const float weight = weights[s] / sum * kept(args, a, t, s);
        for (int64_t i = 0; i < args->HS; i++) {
            y[i] += weight * a->v[s * a->to_next + i];
        }
    }
    a->lse[t] = largest + logf(sum);
}

void flash_attention_forward(const flash_attention_forward_args *args) {
    float *weights = malloc((size_t)args->T * sizeof *weights);
    for (int64_t i = 0; weights != NULL && i < args->B * args->NH; i++) {
        const head a = head_at(args, i);
        for (int64_t t = 0; t < args->T; t++) {
            attend(args, &a, t, weights);
        }
    }
    free(weights);
}
