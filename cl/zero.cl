// zero.cl: gradients start a step at zero.
//
//   x = 0                       x (n)
//
// A work-item writes one vec.
//
//   x  |item 0|item 1|item 2| ... |last: a part|
kernel void zero(ulong n, OUT(float, x)) {
    const ulong i = get_global_id(0) * (ulong)VECTOR;
    if (i < n) {
        store_part(to_vec(0.0f), x + x_at + i, n - i);
    }
}
