// layernorm.c: layer normalisation, alone and with the residual sum next to it (norm.h).
//
// Gradients of w and b are sums over rows: each thread sums its own in scratch, then each adds up a range of columns.
#include "backends/cpu/kernels/norm.h"

CPU_SCRATCH(layernorm_forward) {
    return CPU_NORM_FORWARD_ROOMS * (size_t)sm_tensor_cols(op->in_tensor[SM_IN(layernorm_forward, x)]) * sizeof(float);
}

CPU_KERNEL(layernorm_forward) {
    const cpu_norm f = {.op = op,
                        .rows = SM_IN(layernorm_forward, x),
                        .x = op->in[SM_IN(layernorm_forward, x)],
                        .w = op->in[SM_IN(layernorm_forward, w)],
                        .b = op->in[SM_IN(layernorm_forward, b)],
                        .add = op->in[SM_IN(layernorm_forward, add)],
                        .sum = op->out[SM_OUT(layernorm_forward, r)],
                        .y = op->out[SM_OUT(layernorm_forward, y)],
                        .mean = op->out[SM_OUT(layernorm_forward, mean)],
                        .rstd = op->out[SM_OUT(layernorm_forward, rstd)]};
    cpu_norm_forward(true, &f, team);
}

// Partial sums of dw, db and dbias; g, and dx as floats; dx where it is stored past the caches.
enum { PARTIALS = 3, BACKWARD_ROOMS = PARTIALS + 2 };

CPU_SCRATCH(layernorm_backward) {
    return BACKWARD_ROOMS * (size_t)sm_tensor_cols(op->in_tensor[SM_IN(layernorm_backward, dy)]) * sizeof(float);
}

// Adds to dw and db, and keeps g = dy w, so that g minus its mean cancels exactly; finds the means of g and of g xh.
static void sum_row(const cpu_norm_row_in *r, int64_t C, float *dw, float *db, float *g, float *mean_g,
                    float *mean_gx) {
    const cpu_data *dy = r->dy;
    const cpu_data *x = r->x;
    const float *w = r->w;
    const cpu_moments of = r->of;
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
    *mean_g = sum_g / (float)C;
    *mean_gx = sum_gx / (float)C;
}

// n elements of dx from `at` on, and what they add to dbias.
static inline void differentiate_block(const cpu_norm_row_in *r, const float *row_g, float mean_g, float mean_gx,
                                       int64_t at, int64_t n, float *row_dbias, float *dx) {
    const cpu_data *x = r->x + at;
    const cpu_moments of = r->of;
    const float *g = row_g + at;
    float *dbias = row_dbias + at;
    if (r->dskip == NULL) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            const float xh = (cpu_widen(x[i]) - of.mean) * of.rstd;
            dx[i] = of.rstd * (g[i] - mean_g - xh * mean_gx);
            dbias[i] += dx[i];
        }
    } else {
        const cpu_data *dskip = r->dskip + at;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            const float xh = (cpu_widen(x[i]) - of.mean) * of.rstd;
            dx[i] = cpu_widen(dskip[i]) + of.rstd * (g[i] - mean_g - xh * mean_gx);
            dbias[i] += dx[i];
        }
    }
}

static void backward_row(const cpu_norm_row_in *r, int64_t C, float *partials, float *g, float *dx) {
    float *dbias = partials + 2 * C;
    float mean_g;
    float mean_gx;
    sum_row(r, C, partials, partials + C, g, &mean_g, &mean_gx);
    int64_t c = 0;
    for (; c + CPU_BLOCK_ELEMS <= C; c += CPU_BLOCK_ELEMS) {
        cpu_ask_for_next_row(r, C, c);
        differentiate_block(r, g, mean_g, mean_gx, c, CPU_BLOCK_ELEMS, dbias, dx + c);
    }
    differentiate_block(r, g, mean_g, mean_gx, c, C - c, dbias, dx + c);
}

CPU_KERNEL(layernorm_backward) {
    const cpu_norm_gradient g = {.op = op,
                                 .rows = SM_IN(layernorm_backward, dy),
                                 .x = op->in[SM_IN(layernorm_backward, x)],
                                 .dskip = op->in[SM_IN(layernorm_backward, dskip)],
                                 .w = op->in[SM_IN(layernorm_backward, w)],
                                 .mean = op->in[SM_IN(layernorm_backward, mean)],
                                 .rstd = op->in[SM_IN(layernorm_backward, rstd)],
                                 .dx = op->out[SM_OUT(layernorm_backward, dx)],
                                 .n_partials = PARTIALS};
    cpu_norm_backward(&g, backward_row, team);
}

CPU_FINISH(layernorm_backward) {
    const int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(layernorm_backward, dy)]);
    cpu_add_partials(team, 0, C, op->out[SM_OUT(layernorm_backward, dw)]);
    cpu_add_partials(team, C, C, op->out[SM_OUT(layernorm_backward, db)]);
    if (op->out[SM_OUT(layernorm_backward, dbias)] != NULL) {
        cpu_add_partials(team, 2 * C, C, op->out[SM_OUT(layernorm_backward, dbias)]);
    }
}
