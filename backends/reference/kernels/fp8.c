// fp8.c: factors of products in 8 bits, and their scales (Micikevicius et al. 2022, "FP8 formats for deep learning").
#include "backends/reference/ref.h"

// rows = the nearest number to scale x, turned = its transpose, size = max(size, max |x|)
// x, rows (N,C), turned (C,N), scale, size (1)
void REF(cast_fp8)(int64_t N, int64_t C, const sm_number_format *format, const real *x, const real *scale,
                   uint8_t *rows, uint8_t *turned, real *size) {
    for (int64_t n = 0; n < N; n++) {
        for (int64_t c = 0; c < C; c++) {
            const real value = x[n * C + c];
            const float scaled = (float)(value * *scale);
            format->round(1, &scaled, &rows[n * C + c]);
            turned[c * N + n] = rows[n * C + c];
            *size = fabs((double)value) > (double)*size ? (real)fabs((double)value) : *size;
        }
    }
}

// A size that is not finite does not count; without any, the scale stays.
// size, scale (n), history (16,n), from the newest
void REF(scale_update)(int64_t n, double largest, real *size, real *history, real *scale) {
    enum { STEPS = 16, MOST = 60 }; // powers of two whose products with one another are finite, too
    for (int64_t i = 0; i < n; i++) {
        double most = 0;
        for (int step = STEPS - 1; step >= 0; step--) {
            real *seen = &history[step * n + i];
            *seen = step > 0 ? seen[-n] : isfinite(size[i]) ? size[i] : 0;
            most = fmax(most, (double)*seen);
        }
        if (most > 0) {
            int of_largest, of_most;
            const bool is_above = frexp(most, &of_most) > frexp(largest, &of_largest);
            const int power = of_largest - of_most - is_above;
            scale[i] = (real)ldexp(1, power > MOST ? MOST : power < -MOST ? -MOST : power);
        }
        size[i] = 0;
    }
}
