// peaks.cl: what a device can compute and move, as bases of comparison.
//
// peak_flops: N_CHAINS independent chains of multiply-adds a work-item, all in registers: enough of them to
// hide the latency of one. Each chain tends to a fixed point, so that no number grows or becomes denormal.
//
//   item:  x0 = a x0 + b, x1 = a x1 + b, ..    2 N_CHAINS VECTOR flops a round
//
// peak_triad (z = x + f y) and peak_read (a sum) stream arrays of n floats, a vec at a time; on a processor
// an item streams n_vecs of them, on a card one.
#ifndef N_CHAINS
#define N_CHAINS 8
#endif

kernel void peak_flops(uint n_rounds, global float *out, float a, float b) {
    vec x[N_CHAINS];
    UNROLLED for (uint i = 0; i < N_CHAINS; i++) {
        x[i] = to_vec((float)get_global_id(0) + i);
    }
    for (uint round = 0; round < n_rounds; round++) {
        UNROLLED for (uint i = 0; i < N_CHAINS; i++) {
            x[i] = multiply_add(to_vec(a), x[i], to_vec(b));
        }
    }
    float sum = 0;
    UNROLLED for (uint i = 0; i < N_CHAINS; i++) {
        sum += sum_of(x[i]);
    }
    out[get_global_id(0)] = sum;
}

kernel void peak_triad(ulong n, ulong n_vecs, float f, const global float *x, const global float *y, global float *z) {
    const ulong first = get_global_id(0) * n_vecs * VECTOR;
    for (ulong i = first; i < min(n, first + n_vecs * VECTOR); i += VECTOR) {
        store_part(load_part(x + i, VECTOR, 0.0f) + f * load_part(y + i, VECTOR, 0.0f), z + i, VECTOR);
    }
}

// Items beyond each other by n_items vecs; out: one float an item.
kernel void peak_read(ulong n, ulong n_vecs, ulong item_step, ulong stride, const global float *x, global float *out) {
    ulong at = get_global_id(0) * item_step;
    vec sum = to_vec(0.0f);
    for (ulong i = 0; i < n_vecs && at < n; i++, at += stride) {
        sum += load_part(x + at, VECTOR, 0.0f);
    }
    out[get_global_id(0)] = sum_of(sum);
}
