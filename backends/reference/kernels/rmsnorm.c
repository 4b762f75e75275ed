// rmsnorm.c: each row is scaled to mean square 1, then by a learned w (Zhang and Sennrich 2019, equation 4): a
// layernorm that neither shifts to mean 0 nor adds a bias.
#include "backends/reference/ref.h"

// rstd = 1 / sqrt(sum_c x^2 / C + eps);  y = x rstd w
// x, y (N,C); w (C); rstd (N). With add (N,C), or else NULL, r = x + add takes the place of x.
void REF(rmsnorm_forward)(int64_t N, int64_t C, double eps, const real *x, const real *w, const real *add, real *y,
                          real *rstd, real *r) {
    if (add != NULL) {
        REF(residual)(N * C, x, add, r);
        x = r;
    }
    for (int64_t n = 0; n < N; n++) {
        const real *row = x + n * C;
        double squares = 0;
        for (int64_t c = 0; c < C; c++) {
            squares += (double)row[c] * (double)row[c];
        }
        double scale = 1 / sqrt(squares / (double)C + eps);
        for (int64_t c = 0; c < C; c++) {
            y[n * C + c] = (real)((double)row[c] * scale * (double)w[c]);
        }
        rstd[n] = (real)scale;
    }
}

// xh = x rstd;  dw += sum_n dy xh
// dy, x (N,C); rstd (N); dw (C)
static void rmsnorm_backward_weight(int64_t N, int64_t C, const real *dy, const real *x, const real *rstd, real *dw) {
    for (int64_t c = 0; c < C; c++) {
        double sum = 0;
        for (int64_t n = 0; n < N; n++) {
            sum += (double)dy[n * C + c] * (double)x[n * C + c] * (double)rstd[n];
        }
        dw[c] = (real)((double)dw[c] + sum);
    }
}

// g = dy w;  dx = dskip + rstd (g - xh sum_c g xh / C)
// dy, x, dx (N,C); w (C); rstd (N). dskip (N,C), or NULL for 0, is the gradient that reaches x past the rmsnorm,
// through the residual connection; dx may overwrite it.
void REF(rmsnorm_backward)(int64_t N, int64_t C, const real *dy, const real *x, const real *w, const real *rstd,
                           const real *dskip, real *dx, real *dw) {
    rmsnorm_backward_weight(N, C, dy, x, rstd, dw);
    for (int64_t n = 0; n < N; n++) {
        double sum_g_xh = 0;
        for (int64_t c = 0; c < C; c++) {
            sum_g_xh += (double)dy[n * C + c] * (double)w[c] * (double)x[n * C + c] * (double)rstd[n];
        }
        for (int64_t c = 0; c < C; c++) {
            double g = (double)dy[n * C + c] * (double)w[c];
            double xh = (double)x[n * C + c] * (double)rstd[n];
            double d = (double)rstd[n] * (g - xh * sum_g_xh / (double)C);
            dx[n * C + c] = (real)(d + (dskip == NULL ? 0 : (double)dskip[n * C + c]));
        }
    }
}
