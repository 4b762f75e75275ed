// cpu_kernel_layernorm.c: layer normalisation, alone and with the residual sum beside it.
//
// Rows are shared out over the threads. A row fits in the first-level cache, so the three
// passes over it (mean, variance, result) read memory once. Gradients of w and b are sums over
// rows: each thread sums its own in scratch, then each adds up a range of columns.
#include <math.h>
#include <string.h>

#include "cpu_kernel.h"

typedef struct {
    float mean;
    float rstd;
} moments;

static moments row_moments(const cpu_data *x, int64_t C, double eps) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < C; c++) {
        sum += cpu_widen(x[c]);
    }
    const float mean = sum / (float)C;
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t c = 0; c < C; c++) {
        const float d = cpu_widen(x[c]) - mean;
        squares += d * d;
    }
    return (moments){mean, 1.0f / sqrtf(squares / (float)C + (float)eps)};
}

static void normalise_row(const cpu_data *x, const float *w, const float *b, cpu_data *y, int64_t C, moments of) {
#pragma omp simd
    for (int64_t c = 0; c < C; c++) {
        y[c] = cpu_round((cpu_widen(x[c]) - of.mean) * of.rstd * w[c] + b[c]);
    }
}

CPU_KERNEL(layernorm_forward) {
    const cpu_data *x = op->in[SM_IN(layernorm_forward, x)];
    cpu_data *y = op->out[SM_OUT(layernorm_forward, y)];
    float *mean = op->out[SM_OUT(layernorm_forward, mean)];
    float *rstd = op->out[SM_OUT(layernorm_forward, rstd)];
    int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(layernorm_forward, x)]);
    cpu_range rows = cpu_my_rows(team, sm_tensor_rows(op->in_tensor[SM_IN(layernorm_forward, x)]));
    for (int64_t n = rows.first; n < rows.end; n++) {
        moments of = row_moments(x + n * C, C, op->op->attr.eps);
        normalise_row(x + n * C, op->in[SM_IN(layernorm_forward, w)], op->in[SM_IN(layernorm_forward, b)], y + n * C, C,
                      of);
        mean[n] = of.mean;
        rstd[n] = of.rstd;
    }
}

CPU_KERNEL(residual_layernorm_forward) {
    const cpu_data *a = op->in[SM_IN(residual_layernorm_forward, a)]; // may be r itself
    const cpu_data *b = op->in[SM_IN(residual_layernorm_forward, b)];
    cpu_data *r = op->out[SM_OUT(residual_layernorm_forward, r)];
    cpu_data *y = op->out[SM_OUT(residual_layernorm_forward, y)];
    float *mean = op->out[SM_OUT(residual_layernorm_forward, mean)];
    float *rstd = op->out[SM_OUT(residual_layernorm_forward, rstd)];
    int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(residual_layernorm_forward, a)]);
    cpu_range rows = cpu_my_rows(team, sm_tensor_rows(op->in_tensor[SM_IN(residual_layernorm_forward, a)]));
    for (int64_t n = rows.first; n < rows.end; n++) {
#pragma omp simd
        for (int64_t i = n * C; i < (n + 1) * C; i++) {
            r[i] = cpu_round(cpu_widen(a[i]) + cpu_widen(b[i]));
        }
        moments of = row_moments(r + n * C, C, op->op->attr.eps);
        normalise_row(r + n * C, op->in[SM_IN(residual_layernorm_forward, w)],
                      op->in[SM_IN(residual_layernorm_forward, beta)], y + n * C, C, of);
        mean[n] = of.mean;
        rstd[n] = of.rstd;
    }
}

CPU_SCRATCH(layernorm_backward) {
    (void)n_threads;
    return 4 * (size_t)sm_tensor_cols(op->in_tensor[SM_IN(layernorm_backward, dy)]) * sizeof(float);
}

// One row: adds to the partial sums dw, db and dbias, and writes dx, to which dskip (may be NULL, may
// be dx itself) is added. g (C) keeps dy w between the passes, so that g minus its mean cancels exactly.
static void backward_row(const cpu_data *dy, const cpu_data *x, const float *w, moments of, const cpu_data *dskip,
                         int64_t C, cpu_data *dx, float *dw, float *db, float *dbias, float *g) {
    float sum_g = 0;
    float sum_gx = 0;
#pragma omp simd reduction(+ : sum_g, sum_gx)
    for (int64_t c = 0; c < C; c++) {
        const float xh = (cpu_widen(x[c]) - of.mean) * of.rstd;
        const float dy_c = cpu_widen(dy[c]);
        g[c] = dy_c * w[c];
        sum_g += g[c];
        sum_gx += g[c] * xh;
        dw[c] += dy_c * xh;
        db[c] += dy_c;
    }
    const float mean_g = sum_g / (float)C;
    const float mean_gx = sum_gx / (float)C;
    if (dskip == NULL) {
#pragma omp simd
        for (int64_t c = 0; c < C; c++) {
            const float xh = (cpu_widen(x[c]) - of.mean) * of.rstd;
            const float d = of.rstd * (g[c] - mean_g - xh * mean_gx);
            dbias[c] += d;
            dx[c] = cpu_round(d);
        }
    } else {
#pragma omp simd
        for (int64_t c = 0; c < C; c++) {
            const float xh = (cpu_widen(x[c]) - of.mean) * of.rstd;
            const float d = cpu_widen(dskip[c]) + of.rstd * (g[c] - mean_g - xh * mean_gx);
            dbias[c] += d;
            dx[c] = cpu_round(d);
        }
    }
}

// For both kinds: residual_layernorm_backward has layernorm_backward's operands at the same places, and dskip.
_Static_assert(SM_IN(residual_layernorm_backward, dskip) == SM_IN(layernorm_backward, n_operands) &&
                   SM_IN(residual_layernorm_backward, rstd) == SM_IN(layernorm_backward, rstd) &&
                   SM_OUT(residual_layernorm_backward, dbeta) == SM_OUT(layernorm_backward, db) &&
                   SM_OUT(residual_layernorm_backward, dbias) == SM_OUT(layernorm_backward, dbias),
               "what one function reads of both kinds");

static void layernorm_backward(const host_op *op, const cpu_data *dskip, const cpu_team *team) {
    const cpu_data *dy = op->in[SM_IN(layernorm_backward, dy)];
    const cpu_data *x = op->in[SM_IN(layernorm_backward, x)];
    const float *mean = op->in[SM_IN(layernorm_backward, mean)];
    const float *rstd = op->in[SM_IN(layernorm_backward, rstd)];
    cpu_data *dx = op->out[SM_OUT(layernorm_backward, dx)];
    int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(layernorm_backward, dy)]);
    float *dw = team->scratch[team->thread];
    float *db = dw + C;
    float *dbias = db + C;
    float *g = dbias + C;
    memset(dw, 0, 3 * (size_t)C * sizeof *dw);
    cpu_range rows = cpu_my_rows(team, sm_tensor_rows(op->in_tensor[SM_IN(layernorm_backward, dy)]));
    for (int64_t n = rows.first; n < rows.end; n++) {
        moments of = {mean[n], rstd[n]};
        backward_row(dy + n * C, x + n * C, op->in[SM_IN(layernorm_backward, w)], of,
                     dskip == NULL ? NULL : dskip + n * C, C, dx + n * C, dw, db, dbias, g);
    }
#pragma omp barrier
    cpu_add_partials(team, 0, C, op->out[SM_OUT(layernorm_backward, dw)]);
    cpu_add_partials(team, C, C, op->out[SM_OUT(layernorm_backward, db)]);
    if (op->out[SM_OUT(layernorm_backward, dbias)] != NULL) {
        cpu_add_partials(team, 2 * C, C, op->out[SM_OUT(layernorm_backward, dbias)]);
    }
}

CPU_KERNEL(layernorm_backward) { layernorm_backward(op, NULL, team); }

CPU_KERNEL(residual_layernorm_backward) {
    layernorm_backward(op, op->in[SM_IN(residual_layernorm_backward, dskip)], team);
}
