// bias.c: a linear layer's bias, the same for every row.
#include "backends/reference/ref.h"

// y[n,:] = x[n,:] + b
// x, y (N,C); b (C)
void REF(bias_forward)(int64_t N, int64_t C, const real *x, const real *b, real *y) {
    for (int64_t n = 0; n < N; n++) {
        for (int64_t c = 0; c < C; c++) {
            y[n * C + c] = (real)((double)x[n * C + c] + (double)b[c]);
        }
    }
}

// db += sum_n dy[n,:]
// dy (N,C), db (C)
void REF(bias_backward)(int64_t N, int64_t C, const real *dy, real *db) {
    for (int64_t c = 0; c < C; c++) {
        double sum = 0;
        for (int64_t n = 0; n < N; n++) {
            sum += (double)dy[n * C + c];
        }
        db[c] = (real)((double)db[c] + sum);
    }
}
