// rmsnorm.cl: root mean square normalisation (Zhang and Sennrich 2019, equation 4), alone or with the residual
// connection beside it.
//
//   rstd = 1/sqrt(sum_c x^2 / C + eps);  y = x rstd w
//   xh = x rstd;  g = dy w;  dx = rstd (g - xh sum_c g xh / C) + dskip;  dw += sum_n dy xh
//
// x, y, dx, dy, dskip (N,C); w, dw (C); rstd (N). Work is shared out as in layernorm.cl: a row to ROW_ITEMS work-items;
// of dw, a strip of rows of one vec of columns to an item, and then the strips' sums are added up, in order.
//
//   dx: row n  |item 0|item 1| .. |item 0|item 1| ..    dw: strip 0 |item|item|item|   partial (n_strips, C)
//              |<--- ROW_ITEMS -->|                         strip 1 |item|item|item|       -> dw

// With `residual`, r = a + b takes the place of x; without, x is a, and b and r are not looked at.
kernel void rmsnorm_forward(uint residual, ulong N, ulong C, float eps, const global data *a, ulong a_at,
                            const global data *b, ulong b_at, const global float *w, ulong w_at, global data *r,
                            ulong r_at, global data *y, ulong y_at, global float *rstd, ulong rstd_at) {
    ROW_SHARED(shared);
    const ulong n = MY_ROW;
    if (n >= N) {
        return;
    }
    const ulong row = row_start(n, C);
    const global data *x = a + a_at + row;
    vec squares = to_vec(0.0f);
    FOR_MINE(c, C, VECTOR) {
        vec here = load_data_part(x + c, C - c, 0.0f);
        if (residual) {
            here += load_data_part(b + b_at + row + c, C - c, 0.0f);
            store_data_part(here, r + r_at + row + c, C - c);
        }
        squares += here * here;
    }
    x = residual ? r + r_at + row : x;
    const float inverse = 1.0f / sqrt(row_sum(sum_of(squares), shared) / C + eps);
    FOR_MINE(c, C, VECTOR) {
        const vec scaled = load_data_part(x + c, C - c, 0.0f) * inverse * load_part(w + w_at + c, C - c, 0.0f);
        store_data_part(scaled, y + y_at + row + c, C - c);
    }
    if (MY_ITEM == 0) {
        rstd[rstd_at + n] = inverse;
    }
}

// With `residual`, dskip joins; without, it is not looked at.
kernel void rmsnorm_backward_input(uint residual, ulong N, ulong C, const global data *dy, ulong dy_at,
                                   const global data *x, ulong x_at, const global float *w, ulong w_at,
                                   const global float *rstd, ulong rstd_at, const global data *dskip, ulong dskip_at,
                                   global data *dx, ulong dx_at) {
    ROW_SHARED(shared);
    const ulong n = MY_ROW;
    if (n >= N) {
        return;
    }
    const ulong row = row_start(n, C);
    const float inverse = rstd[rstd_at + n];
    vec sum_g_xh = to_vec(0.0f);
    FOR_MINE(c, C, VECTOR) {
        const vec g = load_data_part(dy + dy_at + row + c, C - c, 0.0f) * load_part(w + w_at + c, C - c, 0.0f);
        sum_g_xh += g * (load_data_part(x + x_at + row + c, C - c, 0.0f) * inverse);
    }
    const float mean_g_xh = row_sum(sum_of(sum_g_xh), shared) / C;
    FOR_MINE(c, C, VECTOR) {
        const vec g = load_data_part(dy + dy_at + row + c, C - c, 0.0f) * load_part(w + w_at + c, C - c, 0.0f);
        const vec xh = load_data_part(x + x_at + row + c, C - c, 0.0f) * inverse;
        vec d = inverse * (g - xh * mean_g_xh);
        if (residual) {
            d += load_data_part(dskip + dskip_at + row + c, C - c, 0.0f);
        }
        store_data_part(d, dx + dx_at + row + c, C - c);
    }
}

kernel void rmsnorm_backward_strips(ulong N, ulong C, ulong strip_rows, const global data *dy, ulong dy_at,
                                    const global data *x, ulong x_at, const global float *rstd, ulong rstd_at,
                                    global float *partial, ulong partial_at) {
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong strip = get_global_id(1);
    if (c < C) {
        const ulong end = min(N, (strip + 1) * strip_rows);
        vec dw = to_vec(0.0f);
        for (ulong n = strip * strip_rows; n < end; n++) {
            const ulong i = row_start(n, C) + c;
            dw += load_data_part(dy + dy_at + i, C - c, 0.0f) * (load_data_part(x + x_at + i, C - c, 0.0f) * rstd[rstd_at + n]);
        }
        store_part(dw, partial + partial_at + row_start(strip, C) + c, C - c);
    }
}
