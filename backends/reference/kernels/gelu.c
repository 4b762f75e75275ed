// gelu.c: the Gaussian error linear unit, in the tanh form that GPT-2 uses (Hendrycks and Gimpel 2016, section 2).
#include "backends/reference/ref.h"

static const double sqrt_2_over_pi = 0.79788456080286535588;

// y = x/2 (1 + tanh(u)),  u = sqrt(2/pi) (x + 0.044715 x^3)
// x, y (n)
void REF(gelu_forward)(int64_t n, const real *x, real *y) {
    for (int64_t i = 0; i < n; i++) {
        double z = (double)x[i];
        double u = sqrt_2_over_pi * (z + 0.044715 * z * z * z);
        y[i] = (real)(0.5 * z * (1 + tanh(u)));
    }
}

// dx = dy (1/2 (1 + tanh(u)) + x/2 (1 - tanh(u)^2) u'),  u' = sqrt(2/pi) (1 + 3 0.044715 x^2)
// dy, x, dx (n)
void REF(gelu_backward)(int64_t n, const real *dy, const real *x, real *dx) {
    for (int64_t i = 0; i < n; i++) {
        double z = (double)x[i];
        double th = tanh(sqrt_2_over_pi * (z + 0.044715 * z * z * z));
        double du = sqrt_2_over_pi * (1 + 3 * 0.044715 * z * z);
        dx[i] = (real)((double)dy[i] * (0.5 * (1 + th) + 0.5 * z * (1 - th * th) * du));
    }
}
