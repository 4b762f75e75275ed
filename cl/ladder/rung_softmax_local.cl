// rung_softmax_local.cl: a work-group for each row: neighbouring items read neighbouring numbers, and join their
// results in local memory.
#define crossentropy_forward_signature "cl 1 N Vp V logits target losses lse"
#define crossentropy_forward_items "N * 128 by 128"
#define GROUP 128

// The largest of all, and their sums relative to it, of the group's items; for item 0.
static void join_all(local float *largest, local float *sum) {
    const int i = get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = GROUP / 2; step > 0; step /= 2) {
        if (i < step && largest[i + step] > -INFINITY) {
            const float both = fmax(largest[i], largest[i + step]);
            sum[i] = sum[i] * exp(largest[i] - both) + sum[i + step] * exp(largest[i + step] - both);
            largest[i] = both;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

kernel void crossentropy_forward(const long N, const long Vp, const long V, global const float *logits,
                                 const ulong logits_at, global const int *target, const ulong target_at,
                                 global float *losses, const ulong losses_at, global float *lse, const ulong lse_at) {
    local float largest[GROUP];
    local float sum[GROUP];
    const long n = get_group_id(0);
    const int i = get_local_id(0);
    logits += logits_at + n * Vp;
    largest[i] = -INFINITY;
    sum[i] = 0;
    for (long v = i; v < V; v += GROUP) {
        largest[i] = fmax(largest[i], logits[v]);
    }
    for (long v = i; v < V; v += GROUP) {
        sum[i] += exp(logits[v] - largest[i]);
    }
    join_all(largest, sum);
    if (i == 0) {
        const float log_sum = largest[0] + log(sum[0]);
        lse[lse_at + n] = log_sum;
        losses[losses_at + n] = target[target_at + n] < 0 ? 0 : log_sum - logits[target[target_at + n]];
    }
}
