// gelu.cl: the Gaussian error linear unit, in the tanh form (Hendrycks and Gimpel 2016, section 2).
// The formulas are in prelude.cl, as matmuls apply them too.
//
//   y = gelu(x);   dx = dy gelu'(x)          x, y, dx, dy (n); dx may be dy
//
// A work-item computes one vec.
//
//   x  |item 0|item 1|item 2| ... |last: a part|
kernel void gelu_forward(ulong n, const global data *x, ulong x_at, global data *y, ulong y_at) {
    const ulong i = get_global_id(0) * (ulong)VECTOR;
    if (i < n) {
        store_data_part(gelu(load_data_part(x + x_at + i, n - i, 0.0f)), y + y_at + i, n - i);
    }
}

kernel void gelu_backward(ulong n, const global data *dy, ulong dy_at, const global data *x, ulong x_at,
                          global data *dx, ulong dx_at) {
    const ulong i = get_global_id(0) * (ulong)VECTOR;
    if (i < n) {
        const vec slope = gelu_derivative(load_data_part(x + x_at + i, n - i, 0.0f));
        store_data_part(load_data_part(dy + dy_at + i, n - i, 0.0f) * slope, dx + dx_at + i, n - i);
    }
}
