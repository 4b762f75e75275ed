// residual.cl: the residual connection (He et al. 2016, equation 1).
//
//   y = a + b                   a, b, y (n); y may be a
//
// A work-item adds one vec.
//
//   a  |item 0|item 1|item 2| ... |last: a part|
//   b  |item 0|item 1|item 2| ... |last: a part|
kernel void residual(ulong n, IN(data, a), IN(data, b), OUT(data, y)) {
    const ulong i = get_global_id(0) * (ulong)VECTOR;
    if (i < n) {
        const vec left = load_data_part(a + a_at + i, n - i, 0.0f);
        const vec right = load_data_part(b + b_at + i, n - i, 0.0f);
        store_data_part(left + right, y + y_at + i, n - i);
    }
}
