// layernorm_loops.c: for each row three loops: its mean, its variance, and the equation for each element.
#include <math.h>

#include "args_layernorm.h"

void layernorm_forward(const layernorm_forward_args *args) {
    const int64_t C = args->C;
    for (int64_t n = 0; n < args->N; n++) {
        const float *x = args->x + n * C;
        float sum = 0;
        float squares = 0;
        for (int64_t c = 0; c < C; c++) {
            sum += x[c];
        }
        const float mean = sum / (float)C;
        for (int64_t c = 0; c < C; c++) {
            squares += (x[c] - mean) * (x[c] - mean);
        }
        const float deviation = sqrtf(squares / (float)C + (float)args->eps);
        for (int64_t c = 0; c < C; c++) {
            args->y[n * C + c] = (x[c] - mean) / deviation * args->w[c] + args->b[c];
        }
        args->mean[n] = mean;
        args->rstd[n] = 1 / deviation;
    }
}
