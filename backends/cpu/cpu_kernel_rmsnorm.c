// cpu_kernel_rmsnorm.c: root mean square normalisation, alone and with the residual sum beside it.
//
// Rows are shared out over the threads. A row fits in the first-level cache, so the passes over it read memory once.
// The gradient of w is a sum over rows: each thread sums its own in scratch, then each adds up a range of columns.
#include <math.h>
#include <string.h>

#include "cpu_kernel.h"

// y = x rstd w; returns rstd.
static float normalise_row(const cpu_data *x, const float *w, int64_t C, double eps, cpu_data *y) {
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t c = 0; c < C; c++) {
        squares += cpu_widen(x[c]) * cpu_widen(x[c]);
    }
    const float rstd = 1.0f / sqrtf(squares / (float)C + (float)eps);
#pragma omp simd
    for (int64_t c = 0; c < C; c++) {
        y[c] = cpu_round(cpu_widen(x[c]) * rstd * w[c]);
    }
    return rstd;
}

CPU_KERNEL(rmsnorm_forward) {
    const cpu_data *x = op->in[SM_IN(rmsnorm_forward, x)];
    cpu_data *y = op->out[SM_OUT(rmsnorm_forward, y)];
    float *rstd = op->out[SM_OUT(rmsnorm_forward, rstd)];
    const int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(rmsnorm_forward, x)]);
    const cpu_range rows = cpu_my_rows(team, sm_tensor_rows(op->in_tensor[SM_IN(rmsnorm_forward, x)]));
    for (int64_t n = rows.first; n < rows.end; n++) {
        rstd[n] = normalise_row(x + n * C, op->in[SM_IN(rmsnorm_forward, w)], C, op->op->attr.eps, y + n * C);
    }
}

CPU_KERNEL(residual_rmsnorm_forward) {
    const cpu_data *a = op->in[SM_IN(residual_rmsnorm_forward, a)]; // may be r itself
    const cpu_data *b = op->in[SM_IN(residual_rmsnorm_forward, b)];
    cpu_data *r = op->out[SM_OUT(residual_rmsnorm_forward, r)];
    cpu_data *y = op->out[SM_OUT(residual_rmsnorm_forward, y)];
    float *rstd = op->out[SM_OUT(residual_rmsnorm_forward, rstd)];
    const int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(residual_rmsnorm_forward, a)]);
    const cpu_range rows = cpu_my_rows(team, sm_tensor_rows(op->in_tensor[SM_IN(residual_rmsnorm_forward, a)]));
    for (int64_t n = rows.first; n < rows.end; n++) {
#pragma omp simd
        for (int64_t i = n * C; i < (n + 1) * C; i++) {
            r[i] = cpu_round(cpu_widen(a[i]) + cpu_widen(b[i]));
        }
        rstd[n] = normalise_row(r + n * C, op->in[SM_IN(residual_rmsnorm_forward, w)], C, op->op->attr.eps, y + n * C);
    }
}

CPU_SCRATCH(rmsnorm_backward) {
    (void)n_threads;
    return (size_t)sm_tensor_cols(op->in_tensor[SM_IN(rmsnorm_backward, dy)]) * sizeof(float);
}

// One row: adds to the partial sums dw, and writes dx, to which dskip (may be NULL, may be dx itself) is added.
static void backward_row(const cpu_data *dy, const cpu_data *x, const float *w, float rstd, const cpu_data *dskip,
                         int64_t C, cpu_data *dx, float *dw) {
    float sum_gx = 0;
#pragma omp simd reduction(+ : sum_gx)
    for (int64_t c = 0; c < C; c++) {
        const float dy_xh = cpu_widen(dy[c]) * (cpu_widen(x[c]) * rstd);
        sum_gx += dy_xh * w[c];
        dw[c] += dy_xh;
    }
    const float factor = rstd * (sum_gx / (float)C);
    if (dskip == NULL) {
#pragma omp simd
        for (int64_t c = 0; c < C; c++) {
            dx[c] = cpu_round(rstd * (cpu_widen(dy[c]) * w[c] - cpu_widen(x[c]) * factor));
        }
    } else {
#pragma omp simd
        for (int64_t c = 0; c < C; c++) {
            dx[c] = cpu_round(cpu_widen(dskip[c]) + rstd * (cpu_widen(dy[c]) * w[c] - cpu_widen(x[c]) * factor));
        }
    }
}

// For both kinds: residual_rmsnorm_backward has rmsnorm_backward's operands at the same places, and dskip.
_Static_assert(SM_IN(residual_rmsnorm_backward, dskip) == SM_IN(rmsnorm_backward, n_operands) &&
                   SM_IN(residual_rmsnorm_backward, rstd) == SM_IN(rmsnorm_backward, rstd) &&
                   SM_OUT(residual_rmsnorm_backward, dw) == SM_OUT(rmsnorm_backward, dw),
               "what one function reads of both kinds");

static void rmsnorm_backward(const host_op *op, const cpu_data *dskip, const cpu_team *team) {
    const cpu_data *dy = op->in[SM_IN(rmsnorm_backward, dy)];
    const cpu_data *x = op->in[SM_IN(rmsnorm_backward, x)];
    const float *rstd = op->in[SM_IN(rmsnorm_backward, rstd)];
    cpu_data *dx = op->out[SM_OUT(rmsnorm_backward, dx)];
    const int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(rmsnorm_backward, dy)]);
    float *dw = team->scratch[team->thread];
    memset(dw, 0, (size_t)C * sizeof *dw);
    const cpu_range rows = cpu_my_rows(team, sm_tensor_rows(op->in_tensor[SM_IN(rmsnorm_backward, dy)]));
    for (int64_t n = rows.first; n < rows.end; n++) {
        backward_row(dy + n * C, x + n * C, op->in[SM_IN(rmsnorm_backward, w)], rstd[n],
                     dskip == NULL ? NULL : dskip + n * C, C, dx + n * C, dw);
    }
#pragma omp barrier
    cpu_add_partials(team, 0, C, op->out[SM_OUT(rmsnorm_backward, dw)]);
}

CPU_KERNEL(rmsnorm_backward) { rmsnorm_backward(op, NULL, team); }

CPU_KERNEL(residual_rmsnorm_backward) { rmsnorm_backward(op, op->in[SM_IN(residual_rmsnorm_backward, dskip)], team); }
