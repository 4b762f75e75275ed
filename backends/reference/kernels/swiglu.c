// swiglu.c: the gated linear unit whose gate is a SiLU (Shazeer 2020, equation 6). A row of x holds the gate (F),
// then what it lets through, up (F): the results of two linear layers that are computed as one.
#include "backends/reference/ref.h"

// y = silu(gate) up,  silu(gate) = gate / (1 + exp(-gate))
// x (N,2F), y (N,F)
void REF(swiglu_forward)(int64_t N, int64_t F, const real *x, real *y) {
    for (int64_t n = 0; n < N; n++) {
        for (int64_t f = 0; f < F; f++) {
            double gate = (double)x[n * 2 * F + f];
            double up = (double)x[n * 2 * F + F + f];
            y[n * F + f] = (real)(gate / (1 + exp(-gate)) * up);
        }
    }
}

// s = 1 / (1 + exp(-gate));  dgate = dy up s (1 + gate (1 - s));  dup = dy gate s
// dy (N,F); x, dx (N,2F); dx may be x
void REF(swiglu_backward)(int64_t N, int64_t F, const real *dy, const real *x, real *dx) {
    for (int64_t n = 0; n < N; n++) {
        for (int64_t f = 0; f < F; f++) {
            double gate = (double)x[n * 2 * F + f];
            double up = (double)x[n * 2 * F + F + f];
            double s = 1 / (1 + exp(-gate));
            double d = (double)dy[n * F + f];
            dx[n * 2 * F + f] = (real)(d * up * s * (1 + gate * (1 - s)));
            dx[n * 2 * F + F + f] = (real)(d * gate * s);
        }
    }
}
