// layernorm_rows.h: rows of layernorm, a `vec` at a time, in LANES by CHAINS independent sums. The includer defines
// vec.
#include <math.h>

#include "args_layernorm.h"

enum { LANES = sizeof(vec) / sizeof(float), CHAINS = 4, STEP = LANES * CHAINS };

// The sum of all lanes of all chains.
static inline float add_up(const vec chains[CHAINS]) {
    const float *lanes = (const float *)chains;
    float sum = 0;
    for (int i = 0; i < STEP; i++) {
        sum += lanes[i];
    }
    return sum;
}

// The sum of (x - mean), or of its squares over a row.
static inline float sum_row(const float *x, int64_t C, float mean, int squared) {
    vec chains[CHAINS];
    float rest = 0;
    int64_t c = 0;
    for (int i = 0; i < CHAINS; i++) {
        chains[i] = (vec){0};
    }
    for (; c + STEP <= C; c += STEP) {
        for (int i = 0; i < CHAINS; i++) {
            vec d = *(const unaligned_vec *)(x + c + i * LANES) - mean;
            if (squared) {
                d *= d;
            }
            chains[i] += d;
        }
    }
    for (; c < C; c++) {
        const float d = x[c] - mean;
        rest += squared ? d * d : d;
    }
    return add_up(chains) + rest;
}

static inline void normalise_row(const layernorm_forward_args *args, int64_t n) {
    const int64_t C = args->C;
    const float *x = args->x + n * C;
    float *y = args->y + n * C;
    const float mean = sum_row(x, C, 0, 0) / (float)C;
    const float rstd = 1 / sqrtf(sum_row(x, C, mean, 1) / (float)C + (float)args->eps);
    int64_t c = 0;
    for (; c + LANES <= C; c += LANES) {
        const vec d = *(const unaligned_vec *)(x + c) - mean;
        *(unaligned_vec *)(y + c) =
            d * rstd * *(const unaligned_vec *)(args->w + c) + *(const unaligned_vec *)(args->b + c);
    }
    for (; c < C; c++) {
        y[c] = (x[c] - mean) * rstd * args->w[c] + args->b[c];
    }
    args->mean[n] = mean;
    args->rstd[n] = rstd;
}
