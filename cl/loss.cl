// loss.cl: the loss: cross-entropy of the softmax over the vocabulary (Bridle 1990), its mean over the
// tokens that count (target -1: ignored), and its derivative. Columns V..Vp-1 are padding.
//
//   lse = log sum_{v<V} exp(logits[n,v]);  losses[n] = lse - logits[n,target[n]], or 0 where ignored
//   dlogits[n,v] = scale (exp(logits[n,v] - lse[n]) - [v = target[n]]), or 0 where ignored or v >= V
//   loss = sum_n losses[n] / max(1, number of targets that count)
//   scale = hyper.loss_scale / max(1, number of targets that count)
//
// logits, dlogits (N,Vp), dlogits may be logits; target, losses, lse (N); loss, scale (1).
// ROW_ITEMS work-items share a row of logits, each every ROW_ITEMS-th vec of it, some at a time. Forward reads it once:
// an item has the largest logit so far, which keeps exp in range, and the sum next to it; when the largest grows, the
// sum so far shrinks (Milakov and Gimelshein 2018, algorithm 3).
//
//   row n  |item 0|item 1| .. |item 0|item 1| .. |part|....padding....|
//          |<--- ROW_ITEMS -->|                       V               Vp
enum { HYPER_LOSS_SCALE = 8 }; // enum sm_hyper of include/plan.h
#define LOGITS_AT_ONCE (ROW_ITEMS > 128 ? 2 : 8) // vecs; of many items' rows fewer, so that another group has room
#define ITEMS_STEP ((ulong)ROW_ITEMS * VECTOR)

// e^(x - shift). On cards 2^x is an instruction; rounding (x - shift) log2(e) changes the result by 3e-8 |x - shift|.
static inline vec exp_from(vec x, vec shift) {
#if ROW_ITEMS == 1
    return vec_exp(x - shift);
#else
    return exp2((x - shift) * 1.44269504f);
#endif
}

typedef struct {
    float largest;
    vec sum;
} running_sum;

// Joins n vecs.
static inline running_sum add_logits(running_sum before, const vec *x, uint n) {
    running_sum after;
    vec most = x[0];
    UNROLLED
    for (uint k = 1; k < n; k++) {
        most = fmax(most, x[k]);
    }
    after.largest = fmax(before.largest, largest_of(most));
    after.sum = before.sum * exp_from(to_vec(before.largest), to_vec(after.largest));
    UNROLLED
    for (uint k = 0; k < n; k++) {
        after.sum += exp_from(x[k], to_vec(after.largest));
    }
    return after;
}

// lse of a row, for all of its items.
static inline float find_lse(const global data *row, ulong V, ulong Vp, local float2 *shared) {
    (void)shared; // of one item
    running_sum mine = {-FLT_MAX, to_vec(0.0f)};
    vec x[LOGITS_AT_ONCE];
    ulong v = MY_ITEM * VECTOR;
    for (; v + (LOGITS_AT_ONCE - 1) * ITEMS_STEP + VECTOR <= V; v += LOGITS_AT_ONCE * ITEMS_STEP) {
        UNROLLED
        for (uint k = 0; k < LOGITS_AT_ONCE; k++) {
            x[k] = load_data_part(row + v + k * ITEMS_STEP, VECTOR, 0.0f);
        }
        mine = add_logits(mine, x, LOGITS_AT_ONCE);
    }
    for (; v < V; v += ITEMS_STEP) {
        x[0] = keep_first(load_data_part(row + v, Vp - v, 0.0f), V - v, -INFINITY);
        mine = add_logits(mine, x, 1);
    }
    const float largest = row_largest(mine.largest, shared);
    const float sum = row_sum(sum_of(mine.sum * exp_from(to_vec(mine.largest), to_vec(largest))), shared);
    return largest + log(sum);
}

kernel void crossentropy_forward(ulong N, ulong V, ulong Vp, IN(data, logits), IN(int, target), OUT(float, losses),
                                 OUT(float, lse)) {
    ROW_SHARED(shared);
    const ulong n = MY_ROW;
    if (n >= N) {
        return;
    }
    const global data *row = logits + logits_at + row_start(n, Vp);
    const float log_sum = find_lse(row, V, Vp, shared);
    if (MY_ITEM == 0) {
        const int t = target[target_at + n];
        lse[lse_at + n] = log_sum;
        losses[losses_at + n] = t == -1 ? 0.0f : log_sum - widen(row[t]);
    }
}

// The gradient of the vec at column v of a row, whose target is t.
static inline vec logits_gradient(vec x, ulong v, ulong V, ulong t, float factor, float log_sum) {
    vec d = factor * exp_from(keep_first(x, v < V ? V - v : 0, -INFINITY), to_vec(log_sum));
    if (t >= v && t < v + VECTOR) {
        d -= vec_index == (ivec)((int)(t - v)) ? to_vec(factor) : to_vec(0.0f);
    }
    return d;
}

// This item's part of a row's gradient; drow may be row.
static inline void store_gradient(const global data *row, ulong V, ulong Vp, int t, float factor, float log_sum,
                                  global data *drow) {
    ulong v = MY_ITEM * VECTOR;
    if (t == -1) {
        for (; v < Vp; v += ITEMS_STEP) {
            store_data_part(to_vec(0.0f), drow + v, Vp - v);
        }
        return;
    }
    for (; v + (LOGITS_AT_ONCE - 1) * ITEMS_STEP + VECTOR <= Vp; v += LOGITS_AT_ONCE * ITEMS_STEP) {
        vec x[LOGITS_AT_ONCE];
        UNROLLED
        for (uint k = 0; k < LOGITS_AT_ONCE; k++) {
            x[k] = load_data_part(row + v + k * ITEMS_STEP, VECTOR, 0.0f);
        }
        UNROLLED
        for (uint k = 0; k < LOGITS_AT_ONCE; k++) {
            x[k] = logits_gradient(x[k], v + k * ITEMS_STEP, V, (ulong)t, factor, log_sum);
        }
        UNROLLED
        for (uint k = 0; k < LOGITS_AT_ONCE; k++) {
            store_data_part(x[k], drow + v + k * ITEMS_STEP, VECTOR);
        }
    }
    for (; v < Vp; v += ITEMS_STEP) {
        const vec x = load_data_part(row + v, Vp - v, 0.0f);
        store_data_part(logits_gradient(x, v, V, (ulong)t, factor, log_sum), drow + v, Vp - v);
    }
}

kernel void crossentropy_backward(ulong N, ulong V, ulong Vp, IN(data, logits), IN(int, target), IN(float, lse),
                                  IN(float, scale), OUT(data, dlogits)) {
    const ulong n = MY_ROW;
    if (n < N) {
        store_gradient(logits + logits_at + row_start(n, Vp), V, Vp, target[target_at + n], scale[scale_at],
                       lse[lse_at + n], dlogits + dlogits_at + row_start(n, Vp));
    }
}

#if ROW_ITEMS > 1 // so that a compiler knows how many registers an item may have
#define BY_ROWS __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
#else
#define BY_ROWS
#endif

// The second reading of a row finds it in a cache, if the device computes few rows at a time.
kernel BY_ROWS void crossentropy_with_gradient(ulong N, ulong V, ulong Vp, IN(data, logits), IN(int, target),
                                               IN(float, scale), OUT(data, dlogits), OUT(float, losses)) {
    ROW_SHARED(shared);
    const ulong n = MY_ROW;
    if (n >= N) {
        return;
    }
    const global data *row = logits + logits_at + row_start(n, Vp);
    const int t = target[target_at + n];
    const float at_target = t == -1 ? 0.0f : widen(row[t]); // before another item overwrites it
    const float log_sum = find_lse(row, V, Vp, shared);
    if (MY_ITEM == 0) {
        losses[losses_at + n] = t == -1 ? 0.0f : log_sum - at_target;
    }
    store_gradient(row, V, Vp, t, scale[scale_at], log_sum, dlogits + dlogits_at + row_start(n, Vp));
}

// A vec of ones where targets count; n of them are there.
static inline vec counted(const global int *target, ulong n) {
#ifdef WHOLE
    (void)n;
    const ivec t = *(const global ivec *)target;
    return t != (ivec)(-1) ? to_vec(1.0f) : to_vec(0.0f);
#else
    vec count = to_vec(0.0f);
    for (uint i = 0; i < min(n, (ulong)VECTOR); i++) {
        count += vec_index == (ivec)(target[i] != -1 ? (int)i : -1) ? to_vec(1.0f) : to_vec(0.0f);
    }
    return count;
#endif
}

// One row of N, that of one work-group's items: sums of the losses and of the targets that count. So many vecs are
// loaded at a time.
#define LOSSES_AT_ONCE 8

typedef struct {
    vec sum, lost; // lost: what rounding took from the sum (Kahan 1965)
} exact_sum;

static inline exact_sum add_losses(exact_sum before, vec losses) {
    const vec term = losses - before.lost;
    exact_sum after;
    after.sum = before.sum + term;
    after.lost = (after.sum - before.sum) - term;
    return after;
}

kernel void loss_mean(ulong N, IN(float, losses), IN(int, target), OUT(float, loss)) {
    ROW_SHARED(shared);
    if (MY_ROW > 0) {
        return;
    }
    exact_sum total = {to_vec(0.0f), to_vec(0.0f)};
    vec count = to_vec(0.0f);
    ulong n = MY_ITEM * VECTOR;
    for (; n + (LOSSES_AT_ONCE - 1) * ITEMS_STEP + VECTOR <= N; n += LOSSES_AT_ONCE * ITEMS_STEP) {
        vec x[LOSSES_AT_ONCE];
        UNROLLED
        for (uint k = 0; k < LOSSES_AT_ONCE; k++) {
            x[k] = load_part(losses + losses_at + n + k * ITEMS_STEP, VECTOR, 0.0f);
            count += counted(target + target_at + n + k * ITEMS_STEP, VECTOR);
        }
        UNROLLED
        for (uint k = 0; k < LOSSES_AT_ONCE; k++) {
            total = add_losses(total, x[k]);
        }
    }
    for (; n < N; n += ITEMS_STEP) {
        total = add_losses(total, load_part(losses + losses_at + n, N - n, 0.0f));
        count += counted(target + target_at + n, N - n);
    }
    const float2 all = row_sums((float2)(sum_of(total.sum), sum_of(count)), shared);
    if (MY_ITEM == 0) {
        loss[loss_at] = all.x / fmax(all.y, 1.0f);
    }
}

kernel void loss_scale(ulong N, IN(int, target), IN(float, hyper), OUT(float, scale)) {
    ROW_SHARED(shared);
    if (MY_ROW > 0) {
        return;
    }
    vec count = to_vec(0.0f);
    ulong n = MY_ITEM * VECTOR;
    for (; n + (LOSSES_AT_ONCE - 1) * ITEMS_STEP + VECTOR <= N; n += LOSSES_AT_ONCE * ITEMS_STEP) {
        UNROLLED
        for (uint k = 0; k < LOSSES_AT_ONCE; k++) {
            count += counted(target + target_at + n + k * ITEMS_STEP, VECTOR);
        }
    }
    for (; n < N; n += ITEMS_STEP) {
        count += counted(target + target_at + n, N - n);
    }
    const float all = row_sum(sum_of(count), shared);
    if (MY_ITEM == 0) {
        scale[scale_at] = hyper[hyper_at + HYPER_LOSS_SCALE] / fmax(all, 1.0f);
    }
}
