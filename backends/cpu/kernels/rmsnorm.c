// rmsnorm.c: root mean square normalisation, alone and with the residual sum next to it (norm.h).
//
// The gradient of w is a sum over rows: each thread sums its own in scratch, then each adds up a range of columns.
#include "backends/cpu/kernels/norm.h"

CPU_SCRATCH(rmsnorm_forward) {
    return CPU_NORM_FORWARD_ROOMS * (size_t)sm_tensor_cols(op->in_tensor[SM_IN(rmsnorm_forward, x)]) * sizeof(float);
}

CPU_KERNEL(rmsnorm_forward) {
    const cpu_norm f = {.op = op,
                        .rows = SM_IN(rmsnorm_forward, x),
                        .x = op->in[SM_IN(rmsnorm_forward, x)],
                        .w = op->in[SM_IN(rmsnorm_forward, w)],
                        .add = op->in[SM_IN(rmsnorm_forward, add)],
                        .sum = op->out[SM_OUT(rmsnorm_forward, r)],
                        .y = op->out[SM_OUT(rmsnorm_forward, y)],
                        .rstd = op->out[SM_OUT(rmsnorm_forward, rstd)]};
    cpu_norm_forward(false, &f, team);
}

// Partial sums of dw; dx as floats; dx where it is stored past the caches.
enum { PARTIALS = 1, BACKWARD_ROOMS = PARTIALS + 2 };

CPU_SCRATCH(rmsnorm_backward) {
    return BACKWARD_ROOMS * (size_t)sm_tensor_cols(op->in_tensor[SM_IN(rmsnorm_backward, dy)]) * sizeof(float);
}

// Adds to the partial sums dw; returns the sum of dy w xh.
static float sum_row(const cpu_norm_row_in *r, int64_t C, float *dw) {
    const cpu_data *dy = r->dy;
    const cpu_data *x = r->x;
    const float *w = r->w;
    const float rstd = r->of.rstd;
    float sum_gx = 0;
#pragma omp simd reduction(+ : sum_gx)
    for (int64_t c = 0; c < C; c++) {
        const float dy_xh = cpu_widen(dy[c]) * (cpu_widen(x[c]) * rstd);
        sum_gx += dy_xh * w[c];
        dw[c] += dy_xh;
    }
    return sum_gx;
}

// n elements of dx from `at` on.
static inline void differentiate_block(const cpu_norm_row_in *r, float factor, int64_t at, int64_t n, float *dx) {
    const cpu_data *dy = r->dy + at;
    const cpu_data *x = r->x + at;
    const float *w = r->w + at;
    const float rstd = r->of.rstd;
    if (r->dskip == NULL) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            dx[i] = rstd * (cpu_widen(dy[i]) * w[i] - cpu_widen(x[i]) * factor);
        }
    } else {
        const cpu_data *dskip = r->dskip + at;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            dx[i] = cpu_widen(dskip[i]) + rstd * (cpu_widen(dy[i]) * w[i] - cpu_widen(x[i]) * factor);
        }
    }
}

static void backward_row(const cpu_norm_row_in *r, int64_t C, float *dw, SM_UNUSED float *room, float *dx) {
    const float factor = r->of.rstd * (sum_row(r, C, dw) / (float)C);
    int64_t c = 0;
    for (; c + CPU_BLOCK_ELEMS <= C; c += CPU_BLOCK_ELEMS) {
        cpu_ask_for_next_row(r, C, c);
        differentiate_block(r, factor, c, CPU_BLOCK_ELEMS, dx + c);
    }
    differentiate_block(r, factor, c, C - c, dx + c);
}

CPU_KERNEL(rmsnorm_backward) {
    const cpu_norm_gradient g = {.op = op,
                                 .rows = SM_IN(rmsnorm_backward, dy),
                                 .x = op->in[SM_IN(rmsnorm_backward, x)],
                                 .dskip = op->in[SM_IN(rmsnorm_backward, dskip)],
                                 .w = op->in[SM_IN(rmsnorm_backward, w)],
                                 .rstd = op->in[SM_IN(rmsnorm_backward, rstd)],
                                 .dx = op->out[SM_OUT(rmsnorm_backward, dx)],
                                 .n_partials = PARTIALS};
    cpu_norm_backward(&g, backward_row, team);
}

CPU_FINISH(rmsnorm_backward) {
    const int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(rmsnorm_backward, dy)]);
    cpu_add_partials(team, 0, C, op->out[SM_OUT(rmsnorm_backward, dw)]);
}
