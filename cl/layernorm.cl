// layernorm.cl: layer normalisation (Ba et al. 2016, equations 3 and 4), alone or with the residual
// connection beside it.
//
//   mean = sum_c x / C;  rstd = 1/sqrt(sum_c (x - mean)^2 / C + eps);  y = (x - mean) rstd w + b
//   xh = (x - mean) rstd;  g = dy w;  dx = rstd (g - sum_c g / C - xh sum_c g xh / C) + dskip
//   dw += sum_n dy xh;  db += sum_n dy
//
// x, y, dx, dy, dskip (N,C); w, b, dw, db (C); mean, rstd (N). Forward and dx: ROW_ITEMS work-items share
// a row, each every ROW_ITEMS-th vec of it. dw and db, in two kernels: a work-item sums a strip of rows
// of one vec of columns; then the strips' sums are added up, in order.
//
//   dx: row n  |item 0|item 1| .. |item 0|item 1| ..    dw: strip 0 |item|item|item|   partial (n_strips, 2, C)
//              |<--- ROW_ITEMS -->|                         strip 1 |item|item|item|       -> dw, db


// Zero where a vec reaches beyond the row, so that sums of squares are right.
static inline vec deviation(const global data *x, float mean, ulong n) { return load_data_part(x, n, mean) - mean; }

// With `residual`, r = a + b takes the place of x; without, x is a, and b and r are not looked at.
kernel void layernorm_forward(uint residual, ulong N, ulong C, float eps, const global data *a, ulong a_at, const global data *b,
                              ulong b_at, const global float *w, ulong w_at, const global float *beta, ulong beta_at,
                              global data *r, ulong r_at, global data *y, ulong y_at, global float *mean,
                              ulong mean_at, global float *rstd, ulong rstd_at) {
    ROW_SHARED(shared);
    const ulong n = MY_ROW;
    if (n >= N) {
        return;
    }
    const ulong row = row_start(n, C);
    const global data *x = a + a_at + row;
    vec sum = to_vec(0.0f);
    FOR_MINE(c, C, VECTOR) {
        vec here = load_data_part(x + c, C - c, 0.0f);
        if (residual) {
            here += load_data_part(b + b_at + row + c, C - c, 0.0f);
            store_data_part(here, r + r_at + row + c, C - c);
        }
        sum += here;
    }
    x = residual ? r + r_at + row : x;
    const float average = row_sum(sum_of(sum), shared) / C;
    vec squares = to_vec(0.0f);
    FOR_MINE(c, C, VECTOR) {
        const vec d = deviation(x + c, average, C - c);
        squares += d * d;
    }
    const float inverse = 1.0f / sqrt(row_sum(sum_of(squares), shared) / C + eps);
    FOR_MINE(c, C, VECTOR) {
        const vec xh = deviation(x + c, average, C - c) * inverse;
        const vec scaled = xh * load_part(w + w_at + c, C - c, 0.0f) + load_part(beta + beta_at + c, C - c, 0.0f);
        store_data_part(scaled, y + y_at + row + c, C - c);
    }
    if (MY_ITEM == 0) {
        mean[mean_at + n] = average;
        rstd[rstd_at + n] = inverse;
    }
}

// With `residual`, dskip joins; without, it is not looked at.
kernel void layernorm_backward_input(uint residual, ulong N, ulong C, const global data *dy, ulong dy_at, const global data *x,
                                     ulong x_at, const global float *w, ulong w_at, const global float *mean,
                                     ulong mean_at, const global float *rstd, ulong rstd_at, const global data *dskip,
                                     ulong dskip_at, global data *dx, ulong dx_at) {
    ROW_SHARED(shared);
    const ulong n = MY_ROW;
    if (n >= N) {
        return;
    }
    const ulong row = row_start(n, C);
    const float average = mean[mean_at + n];
    const float inverse = rstd[rstd_at + n];
    vec sum_g = to_vec(0.0f);
    vec sum_g_xh = to_vec(0.0f);
    FOR_MINE(c, C, VECTOR) {
        const vec g = load_data_part(dy + dy_at + row + c, C - c, 0.0f) * load_part(w + w_at + c, C - c, 0.0f);
        sum_g += g;
        sum_g_xh += g * (deviation(x + x_at + row + c, average, C - c) * inverse);
    }
    const float mean_g = row_sum(sum_of(sum_g), shared) / C;
    const float mean_g_xh = row_sum(sum_of(sum_g_xh), shared) / C;
    FOR_MINE(c, C, VECTOR) {
        const vec g = load_data_part(dy + dy_at + row + c, C - c, 0.0f) * load_part(w + w_at + c, C - c, 0.0f);
        const vec xh = deviation(x + x_at + row + c, average, C - c) * inverse;
        vec d = inverse * (g - mean_g - xh * mean_g_xh);
        if (residual) {
            d += load_data_part(dskip + dskip_at + row + c, C - c, 0.0f);
        }
        store_data_part(d, dx + dx_at + row + c, C - c);
    }
}

kernel void layernorm_backward_strips(ulong N, ulong C, ulong strip_rows, const global data *dy, ulong dy_at,
                                      const global data *x, ulong x_at, const global float *mean, ulong mean_at,
                                      const global float *rstd, ulong rstd_at, global float *partial,
                                      ulong partial_at) {
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong strip = get_global_id(1);
    if (c < C) {
        const ulong end = min(N, (strip + 1) * strip_rows);
        vec dw = to_vec(0.0f);
        vec db = to_vec(0.0f);
        for (ulong n = strip * strip_rows; n < end; n++) {
            const ulong i = row_start(n, C) + c;
            const vec d = load_data_part(dy + dy_at + i, C - c, 0.0f);
            db += d;
            dw += d * ((load_data_part(x + x_at + i, C - c, 0.0f) - mean[mean_at + n]) * rstd[rstd_at + n]);
        }
        global float *sums = partial + partial_at + row_start(2 * strip, C);
        store_part(dw, sums + c, C - c);
        store_part(db, sums + C + c, C - c);
    }
}

kernel void layernorm_backward_sum(ulong n_strips, ulong C, const global float *partial, ulong partial_at,
                                   global float *dw, ulong dw_at, global float *db, ulong db_at) {
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    if (c >= C) {
        return;
    }
    vec sum_w = to_vec(0.0f);
    vec sum_b = to_vec(0.0f);
    for (ulong strip = 0; strip < n_strips; strip++) {
        const global float *sums = partial + partial_at + row_start(2 * strip, C);
        sum_w += load_part(sums + c, C - c, 0.0f);
        sum_b += load_part(sums + C + c, C - c, 0.0f);
    }
    store_part(load_part(dw + dw_at + c, C - c, 0.0f) + sum_w, dw + dw_at + c, C - c);
    store_part(load_part(db + db_at + c, C - c, 0.0f) + sum_b, db + db_at + c, C - c);
}
