// fp8.c: factors of products in 8 bits (Micikevicius et al. 2022, "FP8 formats for deep learning"). Each tensor has a
// scale, a power of two that brings its numbers into the format's range; a product is divided by both factors' scales.
#include "backends/reference/ref.h"

// rows = the number of 8 bits nearest to scale x;  columns = rows^T;  amax = max(amax, max |x|), NaN left out
// x, rows (N,C), columns (C,N), scale, amax (1)
void REF(cast_fp8)(int64_t N, int64_t C, const sm_number_format *format, const real *x, const real *scale,
                   uint8_t *rows, uint8_t *columns, real *amax) {
    for (int64_t n = 0; n < N; n++) {
        for (int64_t c = 0; c < C; c++) {
            const real value = x[n * C + c];
            const float scaled = (float)(value * *scale);
            format->round(1, &scaled, &rows[n * C + c]);
            columns[c * N + n] = rows[n * C + c];
            *amax = fabs((double)value) > (double)*amax ? (real)fabs((double)value) : *amax;
        }
    }
}

// Delayed scaling: the casts of the next step use the largest amax of the last 16 steps. largest: of the format.
// history = amax of this step and of the 15 before, 0 if not finite;  scale = 2^floor(log2(largest / max history)), as
// before if history is 0, NaN if amax is not finite;  amax = 0
// amax, scale (n), history (16,n), newest first
void REF(scale_update)(int64_t n, double largest, real *amax, real *history, real *scale) {
    enum { STEPS = 16, MOST = 60 }; // the product of two scales of up to 2^60 is finite
    for (int64_t i = 0; i < n; i++) {
        double most = 0;
        for (int step = STEPS - 1; step >= 0; step--) {
            real *seen = &history[step * n + i];
            *seen = step > 0 ? seen[-n] : isfinite(amax[i]) ? amax[i] : 0;
            most = fmax(most, (double)*seen);
        }
        if (most > 0) {
            int of_largest, of_most;
            const bool is_above = frexp(most, &of_most) > frexp(largest, &of_largest);
            const int power = of_largest - of_most - is_above;
            scale[i] = (real)ldexp(1, power > MOST ? MOST : power < -MOST ? -MOST : power);
        }
        scale[i] = isfinite(amax[i]) ? scale[i] : (real)NAN; // the cast hid it; the next step must not
        amax[i] = 0;
    }
}
