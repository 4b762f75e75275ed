// rung_softmax_global.cl: a work-item for each row finds its largest number, then the sum of exp.
#define crossentropy_forward_signature "cl 1 N Vp V logits target losses lse"
#define crossentropy_forward_items "N by 1"

kernel void crossentropy_forward(const long N, const long Vp, const long V, global const float *logits,
                                 const ulong logits_at, global const int *target, const ulong target_at,
                                 global float *losses, const ulong losses_at, global float *lse, const ulong lse_at) {
    const long n = get_global_id(0);
    if (n < N) {
        logits += logits_at + n * Vp;
        float largest = -INFINITY;
        float sum = 0;
        for (long v = 0; v < V; v++) {
            largest = fmax(largest, logits[v]);
        }
        for (long v = 0; v < V; v++) {
            sum += exp(logits[v] - largest);
        }
        const float log_sum = largest + log(sum);
        lse[lse_at + n] = log_sum;
        losses[losses_at + n] = target[target_at + n] < 0 ? 0 : log_sum - logits[target[target_at + n]];
    }
}
