// muon.c: the steps of Muon except its matrix products. A tall matrix goes through them transposed.
#include <math.h>

#include "backends/cpu/common/kernel.h"

CPU_KERNEL(muon_momentum) {
    const float *g = op->in[SM_IN(muon_momentum, g)];
    const float clip = *(const float *)op->in[SM_IN(muon_momentum, clip)];
    const float *hyper = op->in[SM_IN(muon_momentum, hyper)];
    const float momentum = hyper[SM_HYPER_MOMENTUM];
    const float nesterov = hyper[SM_HYPER_NESTEROV];
    float *m = op->out[SM_OUT(muon_momentum, m)];
    float *u = op->out[SM_OUT(muon_momentum, u)];
    cpu_range mine = cpu_my_elems(team, sm_tensor_elems(op->out_tensor[SM_OUT(muon_momentum, m)]));
#pragma omp simd
    for (int64_t i = mine.first; i < mine.end; i++) {
        float grad = clip * g[i];
        float m_new = momentum * m[i] + (1.0f - momentum) * grad;
        m[i] = m_new;
        u[i] = nesterov != 0.0f ? (1.0f - momentum) * grad + momentum * m_new : m_new;
    }
}

enum { SQUARE = 16 }; // a transposed copy goes by squares that fit into the first-level cache

CPU_KERNEL(normalize) {
    const float *u = op->in[SM_IN(normalize, u)];
    cpu_data *x = op->out[SM_OUT(normalize, x)];
    const float norm = sqrtf(*(const float *)op->in[SM_IN(normalize, sqnorm)]);
    const float scale = 1.0f / (norm > 1e-7f ? norm : 1e-7f);
    const int64_t R = sm_tensor_rows(op->in_tensor[SM_IN(normalize, u)]);
    const int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(normalize, u)]);
    if (!op->op->attr.w_transposed) {
        cpu_range mine = cpu_my_elems(team, R * C);
#pragma omp simd
        for (int64_t i = mine.first; i < mine.end; i++) {
            x[i] = cpu_round(scale * u[i]);
        }
        return;
    }
    const cpu_range cols = cpu_split(C, SQUARE, team->thread, team->n_threads); // rows of x
    for (int64_t first = 0; first < R; first += SQUARE) {
        const int64_t end = cpu_min64(first + SQUARE, R);
        for (int64_t c = cols.first; c < cols.end; c++) {
            for (int64_t r = first; r < end; r++) {
                x[c * R + r] = cpu_round(scale * u[r * C + c]);
            }
        }
    }
}

CPU_KERNEL(combine) {
    const cpu_data *x = op->in[SM_IN(combine, x)]; // may be y itself
    const cpu_data *z = op->in[SM_IN(combine, z)];
    cpu_data *y = op->out[SM_OUT(combine, y)];
    const float a = (float)op->op->attr.a;
    const float b = (float)op->op->attr.b;
    cpu_range mine = cpu_my_elems(team, sm_tensor_elems(op->out_tensor[SM_OUT(combine, y)]));
#pragma omp simd
    for (int64_t i = mine.first; i < mine.end; i++) {
        y[i] = cpu_round(a * cpu_widen(x[i]) + b * cpu_widen(z[i]));
    }
}

CPU_KERNEL(muon_update) {
    const cpu_data *x = op->in[SM_IN(muon_update, x)];
    const float *hyper = op->in[SM_IN(muon_update, hyper)];
    float *p = op->out[SM_OUT(muon_update, p)];
    cpu_data *w = op->out[SM_OUT(muon_update, w)];
    const int64_t R = sm_tensor_rows(op->out_tensor[SM_OUT(muon_update, p)]);
    const int64_t C = sm_tensor_cols(op->out_tensor[SM_OUT(muon_update, p)]);
    const float lr = hyper[SM_HYPER_LR];
    const float keep = op->op->attr.decay ? 1.0f - lr * hyper[SM_HYPER_WEIGHT_DECAY] : 1.0f;
    const float step = R > C ? lr * sqrtf((float)R / (float)C) : lr;
    const bool transposed = op->op->attr.w_transposed;
    const int64_t row_step = transposed ? 1 : C; // of x
    const int64_t col_step = transposed ? R : 1;
    const cpu_range rows = cpu_split(R, SQUARE, team->thread, team->n_threads);
    for (int64_t first = 0; first < C; first += SQUARE) {
        const int64_t end = cpu_min64(first + SQUARE, C);
        for (int64_t r = rows.first; r < rows.end; r++) {
            for (int64_t c = first; c < end; c++) {
                const int64_t i = r * C + c;
                p[i] = keep * p[i] - step * cpu_widen(x[r * row_step + c * col_step]);
                if (w != NULL) {
                    w[i] = cpu_round(p[i]);
                }
            }
        }
    }
}
