// activation.c: the functions that are a pair of expressions in include/activation.h, element by element.
#include "backends/reference/ref.h"

// y = f(x);  dx = dy f'(x).  p is max(x, 0), and NaN where x is
// x, y, dy, dx (n)
#define X(CODE, name, f, slope)                                                           \
    void REF(name##_forward)(int64_t n, const real *x_of, real *y) {                      \
        for (int64_t i = 0; i < n; i++) {                                                 \
            const double x = (double)x_of[i];                                             \
            const double p = x < 0 ? 0 : x;                                               \
            y[i] = (real)(f);                                                             \
        }                                                                                 \
    }                                                                                     \
    void REF(name##_backward)(int64_t n, const real *dy, const real *x_of, real *dx) {    \
        for (int64_t i = 0; i < n; i++) {                                                 \
            const double x = (double)x_of[i];                                             \
            const double p = x < 0 ? 0 : x;                                               \
            dx[i] = (real)((double)dy[i] * (slope));                                      \
        }                                                                                 \
    }
SM_ACTIVATION_PAIRS(X)
