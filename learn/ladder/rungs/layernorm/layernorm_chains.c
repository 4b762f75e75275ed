// layernorm_chains.c: four independent sums: an addition need not wait for the one before. (A `vec` is still one
// number.)
typedef float vec;
typedef float unaligned_vec;

#include "layernorm_rows.h"

void layernorm_forward(const layernorm_forward_args *args) {
    const int64_t C = args->C;
    for (int64_t n = 0; n < args->N; n++) {
        const float *x = args->x + n * C;
        const float mean = sum_row(x, C, 0, 0) / (float)C;
        const float deviation = sqrtf(sum_row(x, C, mean, 1) / (float)C + (float)args->eps);
        for (int64_t c = 0; c < C; c++) {
            args->y[n * C + c] = (x[c] - mean) / deviation * args->w[c] + args->b[c];
        }
        args->mean[n] = mean;
        args->rstd[n] = 1 / deviation;
    }
}
