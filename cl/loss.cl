// loss.cl: the loss: cross-entropy of the softmax over the vocabulary (Bridle 1990), its mean over the
// tokens that count (target -1: ignored), and its derivative. Columns V..Vp-1 are padding.
//
//   lse = log sum_{v<V} exp(logits[n,v]);  losses[n] = lse - logits[n,target[n]], or 0 where ignored
//   dlogits[n,v] = scale (exp(logits[n,v] - lse[n]) - [v = target[n]]), or 0 where ignored or v >= V
//   loss = sum_n losses[n] / max(1, number of targets that count)
//   scale = hyper.loss_scale / max(1, number of targets that count)
//
// logits, dlogits (N,Vp), dlogits may be logits; target, losses, lse (N); loss, scale (1).
// ROW_ITEMS work-items share a row of logits, each every ROW_ITEMS-th vec of it; they read it twice: for
// the largest logit, which keeps exp in range, and for the sum. The means are one row of N.
//
//   row n  |item 0|item 1| .. |item 0|item 1| .. |part|....padding....|
//          |<--- ROW_ITEMS -->|                       V               Vp
enum { HYPER_LOSS_SCALE = 8 }; // enum sm_hyper of include/plan.h

kernel void crossentropy_forward(ulong N, ulong V, ulong Vp, const global data *logits, ulong logits_at,
                                 const global int *target, ulong target_at, global float *losses, ulong losses_at,
                                 global float *lse, ulong lse_at) {
    ROW_SHARED(shared);
    const ulong n = MY_ROW;
    if (n >= N) {
        return;
    }
    const global data *row = logits + logits_at + row_start(n, Vp);
    vec largest_here = to_vec(-INFINITY);
    FOR_MINE(v, V, VECTOR) {
        largest_here = fmax(largest_here, load_data_part(row + v, V - v, -INFINITY));
    }
    const float largest = row_largest(largest_of(largest_here), shared);
    vec sum = to_vec(0.0f);
    FOR_MINE(v, V, VECTOR) {
        sum += vec_exp(load_data_part(row + v, V - v, -INFINITY) - largest);
    }
    const float log_sum = largest + log(row_sum(sum_of(sum), shared));
    if (MY_ITEM == 0) {
        const int t = target[target_at + n];
        lse[lse_at + n] = log_sum;
        losses[losses_at + n] = t == -1 ? 0.0f : log_sum - widen(row[t]);
    }
}

kernel void crossentropy_backward(ulong N, ulong V, ulong Vp, const global data *logits, ulong logits_at,
                                  const global int *target, ulong target_at, const global float *lse, ulong lse_at,
                                  const global float *scale, ulong scale_at, global data *dlogits, ulong dlogits_at) {
    const ulong n = MY_ROW;
    if (n >= N) {
        return;
    }
    const int t = target[target_at + n];
    const float factor = t == -1 ? 0.0f : scale[scale_at];
    const float log_sum = lse[lse_at + n];
    const global data *row = logits + logits_at + row_start(n, Vp);
    global data *drow = dlogits + dlogits_at + row_start(n, Vp);
    FOR_MINE(v, Vp, VECTOR) {
        const ulong n_real = v < V ? V - v : 0;
        vec d = to_vec(0.0f);
        if (t != -1) {
            d = factor * vec_exp(load_data_part(row + v, n_real, -INFINITY) - log_sum);
        }
        if (t != -1 && (ulong)t >= v && (ulong)t < v + VECTOR) {
            float part[VECTOR];
            store(d, part);
            part[t - v] -= factor;
            d = load(part);
        }
        store_data_part(d, drow + v, Vp - v);
    }
}

// Sum and count of one row of N, by the items of one work-group.
static inline float count_targets(ulong N, const global int *target) {
    float count = 0;
    FOR_MINE(n, N, 1) {
        count += target[n] != -1 ? 1.0f : 0.0f;
    }
    return count;
}

kernel void loss_mean(ulong N, const global float *losses, ulong losses_at, const global int *target, ulong target_at,
                      global float *loss, ulong loss_at) {
    ROW_SHARED(shared);
    if (MY_ROW > 0) {
        return;
    }
    float sum = 0;
    float lost = 0; // what rounding took from the sum (Kahan 1965)
    FOR_MINE(n, N, 1) {
        const float term = losses[losses_at + n] - lost;
        const float next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    const float total = row_sum(sum, shared);
    const float count = row_sum(count_targets(N, target + target_at), shared);
    if (MY_ITEM == 0) {
        loss[loss_at] = total / fmax(count, 1.0f);
    }
}

kernel void loss_scale(ulong N, const global int *target, ulong target_at, const global float *hyper, ulong hyper_at,
                       global float *scale, ulong scale_at) {
    ROW_SHARED(shared);
    if (MY_ROW > 0) {
        return;
    }
    const float count = row_sum(count_targets(N, target + target_at), shared);
    if (MY_ITEM == 0) {
        scale[scale_at] = hyper[hyper_at + HYPER_LOSS_SCALE] / fmax(count, 1.0f);
    }
}
