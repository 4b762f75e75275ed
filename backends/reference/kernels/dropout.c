// dropout.c: elements are dropped at random, and the kept ones scaled so that the
// expectation stays (Srivastava et al. 2014, section 4, inverted form).
#include "backends/reference/ref.h"

// y[i] = keep[i] x[i] / (1 - p), keep[i] ~ Bernoulli(1 - p)
// x, y (n). Its own derivative: applied to dy with the same mask it gives dx.
void REF(dropout)(int64_t n, const ref_mask *mask, const real *x, real *y) {
    for (int64_t i = 0; i < n; i++) {
        y[i] = (real)(ref_mask_factor(mask, i) * (double)x[i]);
    }
}
