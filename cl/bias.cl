// bias.cl: a linear layer's bias, broadcast over rows, and its gradient.
//
//   y = x + b                   x, y (N,C), b (C); y may be x
//   db += sum_n dy              dy (N,C), db (C); without `add`, db = sum_n dy
//
// Forward: a work-item adds one vec of a row. Backward, in two kernels: the items of a group sum a strip of
// rows, each those of its lane, one vec of columns; then the strips' sums are added up, likewise. Few rows are one strip.
//
//               columns: one vec an item
//              +------+------+------+--
//   strip 0    |lane 0|lane 0|      |        partial (n_strips, C)
//   (rows)     |lane 1|lane 1|      |            |
//              |lane 0|lane 0|      |            |
//              +------+------+------+--          v  sum over strips
//   strip 1    |lane 0|lane 0|      |          db (C)
kernel void bias_forward(ulong N, ulong C, IN(data, x), IN(float, b), OUT(data, y)) {
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong n = get_global_id(1);
    if (c < C && n < N) {
        const ulong i = row_start(n, C) + c;
        const vec bias = load_part(b + b_at + c, C - c, 0.0f);
        store_data_part(load_data_part(x + x_at + i, C - c, 0.0f) + bias, y + y_at + i, C - c);
    }
}

// The sum of all lanes, to db's vec c of C.
static void put_sum(vec sum, uint add, global float *db, ulong c, ulong C) {
    if (c < C && MY_LANE == 0) {
        store_part((add ? load_part(db + c, C - c, 0.0f) : to_vec(0.0f)) + sum, db + c, C - c);
    }
}

// db += the sum of the rows of dy, or of the strips' sums.
#define SUM_KERNEL(name, element, add_rows)                                                                          \
    kernel void name(uint add, ulong N, ulong C, IN(element, dy), OUT(float, db)) {                                  \
        LANES_SHARED(shared);                                                                                        \
        const ulong c = get_global_id(0) * (ulong)VECTOR;                                                            \
        vec sum = to_vec(0.0f);                                                                                      \
        if (c < C) {                                                                                                 \
            sum = add_rows(dy + dy_at + row_start(MY_LANE, C) + c, N_LANES * C, LANE_ROWS(N), C - c);                \
        }                                                                                                            \
        put_sum(lanes_sum(sum, shared), add, db + db_at, c, C);                                                      \
    }
SUM_KERNEL(bias_backward, data, add_data_rows)

kernel void bias_backward_strips(ulong N, ulong C, ulong strip_rows, IN(data, dy), OUT(float, partial)) {
    LANES_SHARED(shared);
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong strip = get_group_id(1);
    const ulong first = min(N, strip * strip_rows);
    const ulong n_rows = LANE_ROWS(min(N - first, strip_rows));
    vec sum = to_vec(0.0f);
    if (c < C) {
        sum = add_data_rows(dy + dy_at + row_start(first + MY_LANE, C) + c, N_LANES * C, n_rows, C - c);
    }
    sum = lanes_sum(sum, shared);
    if (c < C && MY_LANE == 0) {
        store_part(sum, partial + partial_at + row_start(strip, C) + c, C - c);
    }
}

SUM_KERNEL(bias_backward_sum, float, add_rows)
