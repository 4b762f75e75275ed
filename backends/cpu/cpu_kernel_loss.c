// cpu_kernel_loss.c: cross-entropy over the V real columns, its mean and its derivative.
#include <math.h>
#include <string.h>

#include "cpu_kernel.h"
#include "cpu_math.h"

static const float LOG2_E = 1.44269504f;

// log sum exp of a row, block by block: relative to the largest value so far, so that no exponential overflows.
// When that grows, the sum shrinks to match. A power of 2 costs less than one of e, and is as exact in a sum where
// the largest is 1: rounding x log2(e) changes e^x, x <= 0, by less than 3e-8.
static float log_sum_exp(const cpu_data *x, int64_t n) {
    enum { BLOCK_ELEMS = 2048 }; // in the first-level cache
    float room[BLOCK_ELEMS];
    float largest = -INFINITY;
    float total = 0;
    for (int64_t first = 0; first < n; first += BLOCK_ELEMS) {
        const int64_t count = n - first < BLOCK_ELEMS ? n - first : BLOCK_ELEMS;
        const float *block = cpu_widened(x + first, count, room);
        const float block_largest = cpu_largest(block, count);
        if (block_largest > largest) {
            total *= cpu_exp(largest - block_largest);
            largest = block_largest;
        }
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < count; i++) {
            sum += cpu_exp2((block[i] - largest) * LOG2_E);
        }
        total += sum;
    }
    return largest + logf(total);
}

CPU_KERNEL(crossentropy_forward) {
    const cpu_data *logits = op->in[SM_IN(crossentropy_forward, logits)];
    const int32_t *target = op->in[SM_IN(crossentropy_forward, target)];
    float *losses = op->out[SM_OUT(crossentropy_forward, losses)];
    float *lse = op->out[SM_OUT(crossentropy_forward, lse)];
    int64_t Vp = sm_tensor_cols(op->in_tensor[SM_IN(crossentropy_forward, logits)]);
    cpu_range rows = cpu_my_rows(team, sm_tensor_rows(op->in_tensor[SM_IN(crossentropy_forward, logits)]));
    for (int64_t n = rows.first; n < rows.end; n++) {
        const cpu_data *row = logits + n * Vp;
        lse[n] = log_sum_exp(row, op->op->attr.vocab);
        losses[n] = target[n] < 0 ? 0.0f : lse[n] - cpu_widen(row[target[n]]);
    }
}

CPU_KERNEL(crossentropy_backward) {
    const cpu_data *logits = op->in[SM_IN(crossentropy_backward, logits)]; // may be dlogits itself
    const int32_t *target = op->in[SM_IN(crossentropy_backward, target)];
    const float *lse = op->in[SM_IN(crossentropy_backward, lse)];
    const float scale = *(const float *)op->in[SM_IN(crossentropy_backward, scale)];
    cpu_data *dlogits = op->out[SM_OUT(crossentropy_backward, dlogits)];
    int64_t V = op->op->attr.vocab;
    int64_t Vp = sm_tensor_cols(op->in_tensor[SM_IN(crossentropy_backward, logits)]);
    cpu_range rows = cpu_my_rows(team, sm_tensor_rows(op->in_tensor[SM_IN(crossentropy_backward, logits)]));
    float room[CPU_BLOCK_ELEMS];
    for (int64_t n = rows.first; n < rows.end; n++) {
        const cpu_data *x = logits + n * Vp;
        cpu_data *dx = dlogits + n * Vp;
        if (target[n] < 0) {
            memset(dx, 0, (size_t)Vp * sizeof *dx);
            continue;
        }
        float shift = lse[n];
        const float at_target = scale * cpu_exp(cpu_widen(x[target[n]]) - shift) - scale;
        for (int64_t first = 0; first < V; first += CPU_BLOCK_ELEMS) {
            const int64_t count = cpu_min64(V - first, CPU_BLOCK_ELEMS);
            const float *wide = cpu_widened(x + first, count, room);
            float *result = cpu_gathered(dx + first, room);
            cpu_ask_for_block(x + first);
#pragma omp simd
            for (int64_t v = 0; v < count; v++) {
                result[v] = scale * cpu_exp(wide[v] - shift);
            }
            cpu_store_gathered(result, count, dx + first);
        }
        dx[target[n]] = cpu_round(at_target);
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
    const float *losses = op->in[SM_IN(loss_mean, losses)];
    if (team->thread != 0) {
        return;
    }
    int64_t n_rows = sm_tensor_elems(op->in_tensor[SM_IN(loss_mean, losses)]);
    double sum = 0;
    for (int64_t n = 0; n < n_rows; n++) {
        sum += (double)losses[n];
    }
    *(float *)op->out[SM_OUT(loss_mean, loss)] =
        (float)(sum / (double)count_targets(op->in[SM_IN(loss_mean, target)], n_rows));
}

CPU_KERNEL(loss_scale) {
    const float *hyper = op->in[SM_IN(loss_scale, hyper)];
    const float *scaler = op->in[SM_IN(loss_scale, scaler)];
    if (team->thread != 0) {
        return;
    }
    int64_t count =
        count_targets(op->in[SM_IN(loss_scale, targets)], sm_tensor_elems(op->in_tensor[SM_IN(loss_scale, targets)]));
    const double scaled = scaler == NULL ? 1 : (double)scaler[SM_SCALER_SCALE];
    *(float *)op->out[SM_OUT(loss_scale, scale)] = (float)(scaled * (double)hyper[SM_HYPER_LOSS_SCALE] / (double)count);
}
