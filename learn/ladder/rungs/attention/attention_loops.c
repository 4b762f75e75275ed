// attention_loops.c: for each query three loops over the keys that it attends to: the largest score, the sum of exp,
// the mean of the values. Each computes the scores again.
#include <stddef.h>

#include "attention_head.h"

static float score(const flash_attention_forward_args *args, const head *a, int64_t t, int64_t s) {
    float sum = 0;
    for (int64_t i = 0; i < args->HS; i++) {
        sum += a->q[t * a->to_next + i] * a->k[s * a->to_next + i];
    }
    return sum * a->scale;
}

static void attend(const flash_attention_forward_args *args, const head *a, int64_t t) {
    float *y = a->y + t * a->to_next_y;
    float largest = -INFINITY;
    float sum = 0;
    for (int64_t s = 0; s <= t; s++) {
        largest = fmaxf(largest, score(args, a, t, s));
    }
    for (int64_t s = 0; s <= t; s++) {
        sum += expf(score(args, a, t, s) - largest);
    }
    for (int64_t i = 0; i < args->HS; i++) {
        y[i] = 0;
    }
    for (int64_t s = 0; s <= t; s++) {
        const float weight = expf(score(args, a, t, s) - largest) / sum * kept(args, a, t, s);
        for (int64_t i = 0; i < args->HS; i++) {
            y[i] += weight * a->v[s * a->to_next + i];
        }
    }
    a->lse[t] = largest + logf(sum);
}

void flash_attention_forward(const flash_attention_forward_args *args) {
    for (int64_t i = 0; i < args->B * args->NH; i++) {
        const head a = head_at(args, i);
        for (int64_t t = 0; t < args->T; t++) {
            attend(args, &a, t);
        }
    }
}
