// head_rmsnorm.c: each head of the queries and of the keys is scaled to mean square 1, then by a w that all heads
// of its sort share: so no product of a query and a key grows without limit as a model learns. Values stay.
#include "backends/reference/ref.h"

// y = rmsnorm of each head of q (w: wq) and of k (wk); v stays.
// x, y (N,(NH+2NKV)HS); wq, wk (HS); rstd (N,NH+NKV); y may be x
void REF(head_rmsnorm_forward)(int64_t N, int64_t NH, int64_t NKV, int64_t HS, double eps, const real *x,
                               const real *wq, const real *wk, real *y, real *rstd) {
    for (int64_t n = 0; n < N; n++) {
        for (int64_t h = 0; h < NH + 2 * NKV; h++) {
            const int64_t first = (n * (NH + 2 * NKV) + h) * HS;
            if (h < NH + NKV) {
                REF(rmsnorm_forward)
                (1, HS, eps, x + first, h < NH ? wq : wk, NULL, y + first, &rstd[n * (NH + NKV) + h], NULL);
            } else {
                for (int64_t i = 0; i < HS; i++) {
                    y[first + i] = x[first + i];
                }
            }
        }
    }
}

// xh = x rstd;  dw += sum_n sum_h dy xh, over the n_heads heads from first_head on, of n_all in a row
// dy, x (N,n_all HS); rstd (N,n_rstd); dw (HS)
static void add_weight(int64_t N, int64_t n_all, int64_t first_head, int64_t n_heads, int64_t n_rstd, int64_t HS,
                       const real *dy, const real *x, const real *rstd, real *dw) {
    for (int64_t i = 0; i < HS; i++) {
        double sum = 0;
        for (int64_t n = 0; n < N; n++) {
            for (int64_t h = first_head; h < first_head + n_heads; h++) {
                const int64_t at = (n * n_all + h) * HS + i;
                sum += (double)dy[at] * (double)x[at] * (double)rstd[n * n_rstd + h];
            }
        }
        dw[i] = (real)((double)dw[i] + sum);
    }
}

// g = dy w;  dx = rstd (g - xh sum_i g xh / HS)
// dy, x, w, dx (HS): one head; dx may be dy
static void head_backward(int64_t HS, const real *dy, const real *x, const real *w, real rstd, real *dx) {
    double sum_g_xh = 0;
    for (int64_t i = 0; i < HS; i++) {
        sum_g_xh += (double)dy[i] * (double)w[i] * (double)x[i] * (double)rstd;
    }
    for (int64_t i = 0; i < HS; i++) {
        double xh = (double)x[i] * (double)rstd;
        dx[i] = (real)((double)rstd * ((double)dy[i] * (double)w[i] - xh * sum_g_xh / (double)HS));
    }
}

// The derivative: of each head of q and k rmsnorm's, of v as it is.
// dy, x, dx (N,(NH+2NKV)HS); wq, wk, dwq, dwk (HS); rstd (N,NH+NKV); dx may be dy
void REF(head_rmsnorm_backward)(int64_t N, int64_t NH, int64_t NKV, int64_t HS, const real *dy, const real *x,
                                const real *wq, const real *wk, const real *rstd, real *dx, real *dwq, real *dwk) {
    const int64_t n_all = NH + 2 * NKV;
    add_weight(N, n_all, 0, NH, NH + NKV, HS, dy, x, rstd, dwq);
    add_weight(N, n_all, NH, NKV, NH + NKV, HS, dy, x, rstd, dwk);
    for (int64_t n = 0; n < N; n++) {
        for (int64_t h = 0; h < n_all; h++) {
            const int64_t first = (n * n_all + h) * HS;
            if (h < NH + NKV) {
                head_backward(HS, dy + first, x + first, h < NH ? wq : wk, rstd[n * (NH + NKV) + h], dx + first);
            } else {
                for (int64_t i = 0; i < HS; i++) {
                    dx[first + i] = dy[first + i];
                }
            }
        }
    }
}
