// bias.cl: a linear layer's bias, broadcast over rows, and its gradient.
//
//   y = x + b                   x, y (N,C), b (C); y may be x
//   db += sum_n dy              dy (N,C), db (C)
//
// Forward: a work-item adds one vec of a row. Backward, in two kernels: each work-item sums a strip of
// rows of one vec of columns; then the strips' sums are added up, in order.
//
//               columns: one vec an item
//              +------+------+------+--
//   strip 0    | sum  | sum  |      |        partial (n_strips, C)
//   (rows)     |  v   |  v   |      |            |
//              +------+------+------+--          v  sum over strips
//   strip 1    | sum  | sum  |      |          db (C)
kernel void bias_forward(ulong N, ulong C, const global data *x, ulong x_at, const global float *b, ulong b_at,
                         global data *y, ulong y_at) {
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong n = get_global_id(1);
    if (c < C && n < N) {
        const ulong i = row_start(n, C) + c;
        const vec bias = load_part(b + b_at + c, C - c, 0.0f);
        store_data_part(load_data_part(x + x_at + i, C - c, 0.0f) + bias, y + y_at + i, C - c);
    }
}

kernel void bias_backward_strips(ulong N, ulong C, ulong strip_rows, const global data *dy, ulong dy_at,
                                 global float *partial, ulong partial_at) {
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong strip = get_global_id(1);
    if (c >= C) {
        return;
    }
    const ulong end = min(N, (strip + 1) * strip_rows);
    vec sum = to_vec(0.0f);
    for (ulong n = strip * strip_rows; n < end; n++) {
        sum += load_data_part(dy + dy_at + row_start(n, C) + c, C - c, 0.0f);
    }
    store_part(sum, partial + partial_at + row_start(strip, C) + c, C - c);
}

kernel void bias_backward_sum(ulong n_strips, ulong C, const global float *partial, ulong partial_at, global float *db,
                              ulong db_at) {
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    if (c >= C) {
        return;
    }
    vec sum = to_vec(0.0f);
    for (ulong strip = 0; strip < n_strips; strip++) {
        sum += load_part(partial + partial_at + row_start(strip, C) + c, C - c, 0.0f);
    }
    store_part(load_part(db + db_at + c, C - c, 0.0f) + sum, db + db_at + c, C - c);
}
