// muon.c: Muon (Jordan et al. 2024) without its matmuls. A tall matrix is transposed: x is (C,R), otherwise (R,C).
#include "backends/reference/ref.h"

// Index in x of element i of an (R,C) matrix.
static int64_t place(int64_t i, int64_t R, int64_t C, bool transposed) { return transposed ? i % C * R + i / C : i; }

// m, g, u (n)
void REF(muon_momentum)(int64_t n, const real *g, const real *hyper, const real *clip, real *m, real *u) {
    double momentum = (double)hyper[SM_HYPER_MOMENTUM];
    bool nesterov = (double)hyper[SM_HYPER_NESTEROV] != 0;
    for (int64_t i = 0; i < n; i++) {
        double gi = (double)*clip * (double)g[i];
        double mi = momentum * (double)m[i] + (1 - momentum) * gi;
        m[i] = (real)mi;
        u[i] = (real)(nesterov ? (1 - momentum) * gi + momentum * mi : mi);
    }
}

void REF(normalize)(int64_t R, int64_t C, bool transposed, const real *u, const real *sqnorm, real *x) {
    double norm = fmax(sqrt((double)*sqnorm), 1e-7);
    for (int64_t i = 0; i < R * C; i++) {
        x[place(i, R, C, transposed)] = (real)((double)u[i] / norm);
    }
}

// y = a x + b z; y may be x
void REF(combine)(int64_t n, double a, double b, const real *x, const real *z, real *y) {
    for (int64_t i = 0; i < n; i++) {
        y[i] = (real)(a * (double)x[i] + b * (double)z[i]);
    }
}

void REF(muon_update)(int64_t R, int64_t C, bool transposed, bool decay, const real *x, const real *hyper, real *p) {
    double lr = (double)hyper[SM_HYPER_LR];
    double keep = decay ? 1 - lr * (double)hyper[SM_HYPER_WEIGHT_DECAY] : 1;
    double step = lr * sqrt(fmax(1, (double)R / (double)C));
    for (int64_t i = 0; i < R * C; i++) {
        p[i] = (real)(keep * (double)p[i] - step * (double)x[place(i, R, C, transposed)]);
    }
}
