// softmax_rows.h: a row, block by block: a block's largest number, then its sum of exp while it is still in the L1
// cache.
#include <math.h>

#include "args_softmax.h"
#include "vector_exp.h"

enum { LANES = sizeof(vec) / sizeof(float), BLOCK = 2048 };

static float largest_of(const float *x, int64_t n) {
    float largest = -INFINITY;
    vec lanes = (vec){0} - INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        lanes = greater(*(const unaligned_vec *)(x + i), lanes);
    }
    for (; i < n; i++) {
        largest = fmaxf(largest, x[i]);
    }
    for (int k = 0; k < LANES; k++) {
        largest = fmaxf(largest, lanes[k]);
    }
    return largest;
}

static float sum_of_exp(const float *x, int64_t n, float largest) {
    float sum = 0;
    vec lanes = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        lanes += exp_of(*(const unaligned_vec *)(x + i) - largest);
    }
    for (; i < n; i++) {
        sum += expf(x[i] - largest);
    }
    for (int k = 0; k < LANES; k++) {
        sum += lanes[k];
    }
    return sum;
}

static void lose_row(const crossentropy_forward_args *args, int64_t n) {
    const float *logits = args->logits + n * args->Vp;
    float largest = -INFINITY;
    float sum = 0;
    for (int64_t v = 0; v < args->V; v += BLOCK) {
        const int64_t length = args->V - v < BLOCK ? args->V - v : BLOCK;
        const float before = largest;
        largest = fmaxf(largest, largest_of(logits + v, length));
        sum = sum * expf(before - largest) + sum_of_exp(logits + v, length, largest);
    }
    args->lse[n] = largest + logf(sum);
    args->losses[n] = args->target[n] < 0 ? 0 : args->lse[n] - logits[args->target[n]];
}
