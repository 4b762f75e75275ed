// activation.cl: GELU (the tanh form of Hendrycks and Gimpel 2016, section 2) and the functions of
// include/activation.h. The formulas are in prelude.cl, as matmuls apply them too.
//
//   y = f(x);   dx = dy f'(x)                x, y, dx, dy (n); dx may be dy
//
// A work-item computes one vec.
//
//   x  |item 0|item 1|item 2| ... |last: a part|
#define FORWARD(f)                                                                            \
    const ulong i = get_global_id(0) * (ulong)VECTOR;                                         \
    if (i < n) {                                                                              \
        store_data_part(f(load_data_part(x + x_at + i, n - i, 0.0f)), y + y_at + i, n - i);   \
    }

#define BACKWARD(derivative)                                                                  \
    const ulong i = get_global_id(0) * (ulong)VECTOR;                                         \
    if (i < n) {                                                                              \
        const vec slope = derivative(load_data_part(x + x_at + i, n - i, 0.0f));              \
        store_data_part(load_data_part(dy + dy_at + i, n - i, 0.0f) * slope, dx + dx_at + i, n - i); \
    }

kernel void gelu_forward(ulong n, IN(data, x), OUT(data, y)) { FORWARD(gelu) }

kernel void gelu_backward(ulong n, IN(data, dy), IN(data, x), OUT(data, dx)) {
    BACKWARD(gelu_derivative)
}

#define X(CODE, name, f, slope)                                                                                       \
    kernel void name##_forward(ulong n, const global data *x, ulong x_at, global data *y, ulong y_at) {               \
        FORWARD(name)                                                                                                 \
    }                                                                                                                 \
    kernel void name##_backward(ulong n, const global data *dy, ulong dy_at, const global data *x, ulong x_at,        \
                                global data *dx, ulong dx_at) {                                                       \
        BACKWARD(name##_derivative)                                                                                   \
    }
SM_ACTIVATION_PAIRS(X)
#undef X
