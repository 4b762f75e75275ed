// rung_softmax_registers.cl: an item reads eight numbers at a time into registers, takes their largest, and scales its
// sum once for them: a row is read once, and exp is computed without waiting.
#define crossentropy_forward_signature "cl 1 N Vp V logits target losses lse"
#define crossentropy_forward_items "N * 128 by 128"
#define GROUP 128
#define EACH  8

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
    local float group_largest[GROUP];
    local float group_sum[GROUP];
    const long n = get_group_id(0);
    const int i = get_local_id(0);
    float largest = -1e30f; // below all logits, and two of them differ by 0
    float sum = 0;
    logits += logits_at + n * Vp;
    for (long v = i; v < V; v += EACH * GROUP) {
        float here[EACH];
        float before = largest;
        for (int k = 0; k < EACH; k++) {
            here[k] = v + k * GROUP < V ? logits[v + k * GROUP] : -INFINITY;
            largest = fmax(largest, here[k]);
        }
        sum *= exp(before - largest);
        for (int k = 0; k < EACH; k++) {
            sum += exp(here[k] - largest);
        }
    }
    group_largest[i] = largest;
    group_sum[i] = sum;
    join_all(group_largest, group_sum);
    if (i == 0) {
        const float log_sum = group_largest[0] + log(group_sum[0]);
        lse[lse_at + n] = log_sum;
        losses[losses_at + n] = target[target_at + n] < 0 ? 0 : log_sum - logits[target[target_at + n]];
    }
}
