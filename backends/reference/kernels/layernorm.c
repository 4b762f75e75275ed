// layernorm.c: each row is shifted to mean 0 and scaled to variance 1, then scaled and
// shifted by learned w and b (Ba et al. 2016, equations 3 and 4).
#include "backends/reference/ref.h"

// mean = sum_c x / C;  rstd = 1 / sqrt(sum_c (x - mean)^2 / C + eps);  y = (x - mean) rstd w + b
// x, y (N,C); w, b (C); mean, rstd (N). With add (N,C), or else NULL, r = x + add takes the place of x.
void REF(layernorm_forward)(int64_t N, int64_t C, double eps, const real *x, const real *w, const real *b,
                            const real *add, real *y, real *mean, real *rstd, real *r) {
    if (add != NULL) {
        REF(residual)(N * C, x, add, r);
        x = r;
    }
    for (int64_t n = 0; n < N; n++) {
        const real *row = x + n * C;
        double sum = 0;
        for (int64_t c = 0; c < C; c++) {
            sum += (double)row[c];
        }
        double mu = sum / (double)C;
        double squares = 0;
        for (int64_t c = 0; c < C; c++) {
            squares += ((double)row[c] - mu) * ((double)row[c] - mu);
        }
        double scale = 1 / sqrt(squares / (double)C + eps);
        for (int64_t c = 0; c < C; c++) {
            y[n * C + c] = (real)(((double)row[c] - mu) * scale * (double)w[c] + (double)b[c]);
        }
        mean[n] = (real)mu;
        rstd[n] = (real)scale;
    }
}

// xh = (x - mean) rstd;  dw += sum_n dy xh;  db += sum_n dy
// dy, x (N,C); mean, rstd (N); dw, db (C)
static void layernorm_backward_weight(int64_t N, int64_t C, const real *dy, const real *x, const real *mean,
                                      const real *rstd, real *dw, real *db) {
    for (int64_t c = 0; c < C; c++) {
        double sum_w = 0;
        double sum_b = 0;
        for (int64_t n = 0; n < N; n++) {
            double xh = ((double)x[n * C + c] - (double)mean[n]) * (double)rstd[n];
            sum_w += (double)dy[n * C + c] * xh;
            sum_b += (double)dy[n * C + c];
        }
        dw[c] = (real)((double)dw[c] + sum_w);
        db[c] = (real)((double)db[c] + sum_b);
    }
}

// g = dy w;  dx = dskip + rstd (g - sum_c g / C - xh sum_c g xh / C)
// dy, x, dx (N,C); w (C); mean, rstd (N). dskip (N,C), or NULL for 0, is the gradient that
// reaches x past the layernorm, through the residual connection; dx may overwrite it. dbias (C), or NULL, is the
// gradient of the bias last added to x: dbias += sum_n dx.
void REF(layernorm_backward)(int64_t N, int64_t C, const real *dy, const real *x, const real *w, const real *mean,
                             const real *rstd, const real *dskip, real *dx, real *dw, real *db, real *dbias) {
    layernorm_backward_weight(N, C, dy, x, mean, rstd, dw, db);
    for (int64_t n = 0; n < N; n++) {
        double sum_g = 0;
        double sum_g_xh = 0;
        for (int64_t c = 0; c < C; c++) {
            double g = (double)dy[n * C + c] * (double)w[c];
            sum_g += g;
            sum_g_xh += g * ((double)x[n * C + c] - (double)mean[n]) * (double)rstd[n];
        }
        for (int64_t c = 0; c < C; c++) {
            double g = (double)dy[n * C + c] * (double)w[c];
            double xh = ((double)x[n * C + c] - (double)mean[n]) * (double)rstd[n];
            double d = (double)rstd[n] * (g - sum_g / (double)C - xh * sum_g_xh / (double)C);
            dx[n * C + c] = (real)(d + (dskip == NULL ? 0 : (double)dskip[n * C + c]));
        }
    }
    if (dbias != NULL) {
        REF(bias_backward)(N, C, dx, dbias);
    }
}
