// swiglu.cl: the gated linear unit whose gate is a SiLU (Shazeer 2020, equation 6). A row of x is a gate (F), then
// up (F).
//
//   s = 1/(1 + exp(-gate));  y = gate s up
//   dgate = dy up s (1 + gate (1 - s));  dup = dy gate s
//
// x, dx (N,2F); y, dy (N,F); dx may be x. A work-item computes one vec of a row of y, or of dy.
//
//   x row n  |gate: item 0|item 1| .. |up: item 0|item 1| ..
//   y row n  |item 0|item 1| ..
static inline vec sigmoid(vec x) { return 1.0f / (1.0f + vec_exp(-x)); }

kernel void swiglu_forward(ulong N, ulong F, IN(data, x), OUT(data, y)) {
    const ulong f = get_global_id(0) * (ulong)VECTOR;
    const ulong n = get_global_id(1);
    if (f < F && n < N) {
        const global data *row = x + x_at + row_start(2 * n, F) + f;
        const vec gate = load_data_part(row, F - f, 0.0f);
        store_data_part(gate * sigmoid(gate) * load_data_part(row + F, F - f, 0.0f), y + y_at + row_start(n, F) + f, F - f);
    }
}

kernel void swiglu_backward(ulong N, ulong F, IN(data, dy), IN(data, x), OUT(data, dx)) {
    const ulong f = get_global_id(0) * (ulong)VECTOR;
    const ulong n = get_global_id(1);
    if (f < F && n < N) {
        const global data *row = x + x_at + row_start(2 * n, F) + f;
        const vec gate = load_data_part(row, F - f, 0.0f);
        const vec up = load_data_part(row + F, F - f, 0.0f);
        const vec d = load_data_part(dy + dy_at + row_start(n, F) + f, F - f, 0.0f);
        const vec s = sigmoid(gate);
        global data *to = dx + dx_at + row_start(2 * n, F) + f;
        store_data_part(d * up * (s * (1.0f + gate * (1.0f - s))), to, F - f);
        store_data_part(d * gate * s, to + F, F - f);
    }
}
