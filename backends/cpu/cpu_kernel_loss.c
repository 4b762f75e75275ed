// cpu_kernel_loss.c: cross-entropy over the V real columns, its mean and its derivative.
#include <math.h>
#include <string.h>

#include "cpu_kernel.h"
#include "cpu_math.h"

// log sum exp of a row: the largest value first, so that no exponential overflows.
static float log_sum_exp(const float *x, int64_t n) {
    const float largest = cpu_largest(x, n);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        sum += cpu_exp(x[i] - largest);
    }
    return largest + logf(sum);
}

CPU_KERNEL(crossentropy_forward) {
    const float *logits = op->in[0];
    const int32_t *target = op->in[1];
    float *losses = op->out[0];
    float *lse = op->out[1];
    int64_t Vp = sm_tensor_cols(op->in_tensor[0]);
    cpu_range rows = cpu_my_rows(team, sm_tensor_rows(op->in_tensor[0]));
    for (int64_t n = rows.first; n < rows.end; n++) {
        const float *row = logits + n * Vp;
        lse[n] = log_sum_exp(row, op->op->attr.vocab);
        losses[n] = target[n] < 0 ? 0.0f : lse[n] - row[target[n]];
    }
}

CPU_KERNEL(crossentropy_backward) {
    const float *logits = op->in[0]; // may be dlogits itself
    const int32_t *target = op->in[1];
    const float *lse = op->in[2];
    const float scale = *(const float *)op->in[3];
    float *dlogits = op->out[0];
    int64_t V = op->op->attr.vocab;
    int64_t Vp = sm_tensor_cols(op->in_tensor[0]);
    cpu_range rows = cpu_my_rows(team, sm_tensor_rows(op->in_tensor[0]));
    for (int64_t n = rows.first; n < rows.end; n++) {
        const float *x = logits + n * Vp;
        float *dx = dlogits + n * Vp;
        if (target[n] < 0) {
            memset(dx, 0, (size_t)Vp * sizeof *dx);
            continue;
        }
        float shift = lse[n];
#pragma omp simd
        for (int64_t v = 0; v < V; v++) {
            dx[v] = scale * cpu_exp(x[v] - shift);
        }
        dx[target[n]] -= scale;
        memset(dx + V, 0, (size_t)(Vp - V) * sizeof *dx);
    }
}

static int64_t count_targets(const int32_t *target, int64_t n) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        count += target[i] >= 0;
    }
    return count > 0 ? count : 1;
}

CPU_KERNEL(loss_mean) {
    const float *losses = op->in[0];
    if (team->thread != 0) {
        return;
    }
    int64_t n_rows = sm_tensor_elems(op->in_tensor[0]);
    double sum = 0;
    for (int64_t n = 0; n < n_rows; n++) {
        sum += (double)losses[n];
    }
    *(float *)op->out[0] = (float)(sum / (double)count_targets(op->in[1], n_rows));
}

CPU_KERNEL(loss_scale) {
    const float *hyper = op->in[1];
    if (team->thread != 0) {
        return;
    }
    int64_t count = count_targets(op->in[0], sm_tensor_elems(op->in_tensor[0]));
    *(float *)op->out[0] = (float)((double)hyper[SM_HYPER_LOSS_SCALE] / (double)count);
}
