// loss.c: cross-entropy over the V real columns, its mean and its derivative.
#include "backends/cpu/common/gate.h"
#include "backends/cpu/common/kernel.h"
#include "backends/cpu/common/math.h"
#include "backends/cpu/common/row.h"

static const float LOG2_E = 1.44269504f;

// e^(x - shift) for x up to shift + 87. A power of 2 costs less than one of e, and is as exact: rounding d log2(e)
// changes e^d by 3e-8 |d|.
static inline cpu_vector exp_lanes(cpu_vector x, float shift) {
    return cpu_exp2_lanes(cpu_at_least((x - shift) * LOG2_E, -127.0f));
}

// The sum of a row's e^(x - shift). Terms are taken in turns with three others, so that none waits for the one before;
// what is left of a row's end is added to `rest`.
typedef struct {
    cpu_vector sums[CPU_ROW_SUMS];
    float rest;
    float shift;
} row_sum;

// Adds n values; returns the largest. Reads them once: memory is read ahead while exponentials are computed.
static float add_exp(const cpu_data *x, int64_t n, row_sum *sum) {
    enum { N_VECTORS = CPU_BLOCK_ELEMS / CPU_VECTOR };
    float room[CPU_BLOCK_ELEMS];
    float largest[CPU_BLOCK_ELEMS];
    for (int i = 0; i < CPU_BLOCK_ELEMS; i++) {
        largest[i] = -INFINITY;
    }
    row_sum s = *sum;
    int64_t i = 0;
    for (; i + CPU_BLOCK_ELEMS <= n; i += CPU_BLOCK_ELEMS) {
        const cpu_vector *wide = (const cpu_vector *)cpu_widened(x + i, CPU_BLOCK_ELEMS, room);
        if (sizeof *x < sizeof(float)) { // of floats the processor's own prefetching is faster
            cpu_ask_for_block(x + i + CPU_AHEAD_ELEMS);
        }
        for (int k = 0; k < N_VECTORS; k++) {
            cpu_vector *most = (cpu_vector *)largest + k;
            *most = cpu_larger(wide[k], *most);
            s.sums[k % CPU_ROW_SUMS] += exp_lanes(wide[k], s.shift);
        }
    }
    for (; i < n; i++) {
        const float wide = cpu_widen(x[i]);
        largest[0] = wide > largest[0] ? wide : largest[0];
        s.rest += cpu_exp2((wide - s.shift) * LOG2_E);
    }
    *sum = s;
    return cpu_largest(largest, CPU_BLOCK_ELEMS);
}

// Rescales the sum to a larger shift.
static void move(row_sum *sum, float shift) {
    const float factor = cpu_exp(sum->shift - shift);
    for (int k = 0; k < CPU_ROW_SUMS; k++) {
        sum->sums[k] *= factor;
    }
    sum->rest *= factor;
    sum->shift = shift;
}

// log sum exp of a row, part by part. The number subtracted from every x need not be the largest of all: it is that of
// the first part, until a part has one so much larger that its exponential would be too large for a sum; that part is
// then added again.
static float log_sum_exp(const cpu_data *x, int64_t n) {
    enum { PART_ELEMS = 2048 };
    const float most = 60; // e^60 = 1e26
    float room[CPU_BLOCK_ELEMS];
    const int64_t n_first = cpu_min64(n, CPU_BLOCK_ELEMS);
    row_sum sum = {.shift = cpu_largest(cpu_widened(x, n_first, room), n_first)};
    for (int64_t first = 0; first < n; first += PART_ELEMS) {
        const int64_t count = cpu_min64(n - first, PART_ELEMS);
        const row_sum before = sum;
        const float largest = add_exp(x + first, count, &sum);
        if (largest > sum.shift + most) {
            sum = before;
            move(&sum, largest);
            add_exp(x + first, count, &sum);
        }
    }
    return sum.shift + logf(cpu_add_up(sum.sums) + sum.rest);
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

// n elements, a block at most.
static inline void backward_block(const cpu_data *x, int n, float lse, float scale, cpu_data *dx) {
    float room[CPU_BLOCK_ELEMS];
    float *result = cpu_gathered(dx, room);
    const float *wide = cpu_widened(x, n, room);
    const int whole = n / CPU_VECTOR * CPU_VECTOR;
    for (int i = 0; i < whole; i += CPU_VECTOR) {
        *(cpu_vector *)(result + i) = scale * exp_lanes(*(const cpu_vector *)(wide + i), lse);
    }
    for (int i = whole; i < n; i++) {
        result[i] = scale * cpu_exp2((wide[i] - lse) * LOG2_E);
    }
    cpu_store_gathered(result, n, dx);
}

static void backward_row(const cpu_data *x, int64_t V, int64_t Vp, int32_t target, float lse, float scale,
                         cpu_data *dx) {
    const float at_target = scale * cpu_exp(cpu_widen(x[target]) - lse) - scale;
    int64_t v = 0;
    for (; v + CPU_BLOCK_ELEMS <= V; v += CPU_BLOCK_ELEMS) {
        cpu_ask_for_block(x + v + CPU_AHEAD_ELEMS);
        backward_block(x + v, CPU_BLOCK_ELEMS, lse, scale, dx + v);
    }
    backward_block(x + v, (int)(V - v), lse, scale, dx + v);
    dx[target] = cpu_round(at_target);
    memset(dx + V, 0, (size_t)(Vp - V) * sizeof *dx);
}

// The gradient of this thread's rows. lse is known, or found on the way to the losses: row by row, so that the second
// reading finds a row in the caches.
static void differentiate_rows(const host_op *op, const cpu_team *team, const float *lse, float scale, float *losses,
                               cpu_data *dlogits) {
    const cpu_data *logits = op->in[SM_IN(crossentropy_backward, logits)]; // may be dlogits itself
    const int32_t *target = op->in[SM_IN(crossentropy_backward, target)];
    const int64_t V = op->op->attr.vocab;
    const int64_t Vp = sm_tensor_cols(op->in_tensor[SM_IN(crossentropy_backward, logits)]);
    const cpu_range rows = cpu_my_rows(team, sm_tensor_rows(op->in_tensor[SM_IN(crossentropy_backward, logits)]));
    for (int64_t n = rows.first; n < rows.end; n++) {
        const cpu_data *row = logits + n * Vp;
        float loss = 0;
        if (target[n] < 0) {
            memset(dlogits + n * Vp, 0, (size_t)Vp * sizeof *dlogits);
        } else {
            const float row_lse = lse != NULL ? lse[n] : log_sum_exp(row, V);
            loss = row_lse - cpu_widen(row[target[n]]);
            backward_row(row, V, Vp, target[n], row_lse, scale, dlogits + n * Vp);
        }
        if (losses != NULL) {
            losses[n] = loss;
        }
    }
}

CPU_KERNEL(crossentropy_backward) {
    const float scale = *(const float *)op->in[SM_IN(crossentropy_backward, scale)];
    differentiate_rows(op, team, op->in[SM_IN(crossentropy_backward, lse)], scale, NULL,
                       op->out[SM_OUT(crossentropy_backward, dlogits)]);
}

CPU_KERNEL(crossentropy_with_gradient) {
    const float scale = *(const float *)op->in[SM_IN(crossentropy_with_gradient, scale)];
    _Static_assert(SM_IN(crossentropy_with_gradient, logits) == SM_IN(crossentropy_backward, logits) &&
                       SM_IN(crossentropy_with_gradient, target) == SM_IN(crossentropy_backward, target),
                   "operands that differentiate_rows reads");
    differentiate_rows(op, team, NULL, scale, op->out[SM_OUT(crossentropy_with_gradient, losses)],
                       op->out[SM_OUT(crossentropy_with_gradient, dlogits)]);
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
