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
    const cpu_data *x = op->in[0];
    cpu_data *y = op->out[0];
    float *mean = op->out[1];
    float *rstd = op->out[2];
    int64_t C = sm_tensor_cols(op->in_tensor[0]);
    cpu_range rows = cpu_my_rows(team, sm_tensor_rows(op->in_tensor[0]));
    for (int64_t n = rows.first; n < rows.end; n++) {
        moments of = row_moments(x + n * C, C, op->op->attr.eps);
        normalise_row(x + n * C, op->in[1], op->in[2], y + n * C, C, of);
        mean[n] = of.mean;
        rstd[n] = of.rstd;
    }
}

CPU_KERNEL(residual_layernorm_forward) {
    const cpu_data *a = op->in[0]; // may be r itself
    const cpu_data *b = op->in[1];
    cpu_data *r = op->out[0];
    cpu_data *y = op->out[1];
    float *mean = op->out[2];
    float *rstd = op->out[3];
    int64_t C = sm_tensor_cols(op->in_tensor[0]);
    cpu_range rows = cpu_my_rows(team, sm_tensor_rows(op->in_tensor[0]));
    for (int64_t n = rows.first; n < rows.end; n++) {
#pragma omp simd
        for (int64_t i = n * C; i < (n + 1) * C; i++) {
            r[i] = cpu_round(cpu_widen(a[i]) + cpu_widen(b[i]));
        }
        moments of = row_moments(r + n * C, C, op->op->attr.eps);
        normalise_row(r + n * C, op->in[2], op->in[3], y + n * C, C, of);
        mean[n] = of.mean;
        rstd[n] = of.rstd;
    }
}

CPU_SCRATCH(layernorm_backward) {
    (void)n_threads;
    return 3 * (size_t)sm_tensor_cols(op->in_tensor[0]) * sizeof(float);
}

// One row: adds to the partial sums dw and db, and writes dx, to which dskip (may be NULL, may
// be dx itself) is added. g (C) keeps dy w between the passes, so that g minus its mean cancels exactly.
static void backward_row(const cpu_data *dy, const cpu_data *x, const float *w, moments of, const cpu_data *dskip,
                         int64_t C, cpu_data *dx, float *dw, float *db, float *g) {
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
            dx[c] = cpu_round(of.rstd * (g[c] - mean_g - xh * mean_gx));
        }
    } else {
#pragma omp simd
        for (int64_t c = 0; c < C; c++) {
            const float xh = (cpu_widen(x[c]) - of.mean) * of.rstd;
            dx[c] = cpu_round(cpu_widen(dskip[c]) + of.rstd * (g[c] - mean_g - xh * mean_gx));
        }
    }
}

static void layernorm_backward(const host_op *op, const cpu_data *dskip, const cpu_team *team) {
    const cpu_data *dy = op->in[0];
    const cpu_data *x = op->in[1];
    const float *mean = op->in[3];
    const float *rstd = op->in[4];
    cpu_data *dx = op->out[0];
    int64_t C = sm_tensor_cols(op->in_tensor[0]);
    float *dw = team->scratch[team->thread];
    float *db = dw + C;
    float *g = db + C;
    memset(dw, 0, 2 * (size_t)C * sizeof *dw);
    cpu_range rows = cpu_my_rows(team, sm_tensor_rows(op->in_tensor[0]));
    for (int64_t n = rows.first; n < rows.end; n++) {
        moments of = {mean[n], rstd[n]};
        backward_row(dy + n * C, x + n * C, op->in[2], of, dskip == NULL ? NULL : dskip + n * C, C, dx + n * C, dw, db,
                     g);
    }
#pragma omp barrier
    cpu_add_partials(team, 0, C, op->out[1]);
    cpu_add_partials(team, C, C, op->out[2]);
}

CPU_KERNEL(layernorm_backward) { layernorm_backward(op, NULL, team); }

CPU_KERNEL(residual_layernorm_backward) { layernorm_backward(op, op->in[5], team); }
