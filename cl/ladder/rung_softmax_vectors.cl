// rung_softmax_vectors.cl: a work-item for each row, 16 of its numbers at once, in two loops: the largest, then the sum
// of exp. (Numbers after the last 16 follow one by one.)
#define crossentropy_forward_signature "cl 1 N Vp V logits target losses lse"
#define crossentropy_forward_items "N by 1"
#define LANES 16

kernel void crossentropy_forward(const long N, const long Vp, const long V, global const float *logits,
                                 const ulong logits_at, global const int *target, const ulong target_at,
                                 global float *losses, const ulong losses_at, global float *lse, const ulong lse_at) {
    const long n = get_global_id(0);
    const long whole = V / LANES * LANES;
    float16 lanes = -INFINITY;
    float16 sums = 0;
    float largest = -INFINITY;
    float sum = 0;
    logits += logits_at + n * Vp;
    for (long v = 0; v < whole; v += LANES) {
        lanes = fmax(lanes, vload16(0, logits + v));
    }
    for (long v = whole; v < V; v++) {
        largest = fmax(largest, logits[v]);
    }
    const float8 a = fmax(lanes.lo, lanes.hi);
    const float4 b = fmax(a.lo, a.hi);
    largest = fmax(largest, fmax(fmax(b.x, b.y), fmax(b.z, b.w)));
    for (long v = 0; v < whole; v += LANES) {
        sums += exp(vload16(0, logits + v) - largest);
    }
    for (long v = whole; v < V; v++) {
        sum += exp(logits[v] - largest);
    }
    const float8 c = sums.lo + sums.hi;
    const float4 d = c.lo + c.hi;
    const float log_sum = largest + log(sum + d.x + d.y + d.z + d.w);
    lse[lse_at + n] = log_sum;
    losses[losses_at + n] = target[target_at + n] < 0 ? 0 : log_sum - logits[target[target_at + n]];
}
