// rmsnorm.cl: root mean square normalisation (Zhang and Sennrich 2019, equation 4), alone or with the residual
// connection beside it.
//
//   rstd = 1/sqrt(sum_c x^2 / C + eps);  y = x rstd w
//   xh = x rstd;  g = dy w;  dx = rstd (g - xh sum_c g xh / C) + dskip;  dw += sum_n dy xh
//
// x, y, dx, dy, dskip (N,C); w, dw (C); rstd (N). Work is shared out as in layernorm.cl: a row to ROW_ITEMS work-items,
// backward a strip of rows one after the other, whose part of dw they sum up; then the strips' sums are added up, in
// order.
//
//   row n    |item 0|item 1| .. |item 0|item 1| ..      strip 0   partial (n_strips, C)
//   row n+1  |item 0|item 1| .. |item 0|item 1| ..      strip 0   -> dw
//            |<--- ROW_ITEMS -->|

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
    vec kept[KEPT];
    vec squares = to_vec(0.0f);
    FOR_VECS(k, c, C) {
        vec here = load_data_part(a + a_at + row + c, C - c, 0.0f);
        if (residual) {
            here += load_data_part(b + b_at + row + c, C - c, 0.0f);
            if (ROW_VECS == 0) {
                store_data_part(here, r + r_at + row + c, C - c);
            }
        }
        kept[KEPT_AT(k)] = here;
        squares += here * here;
    }
    const global data *x = residual ? r + r_at + row : a + a_at + row;
    const float inverse = 1.0f / sqrt(row_sum(sum_of(squares), shared) / C + eps);
    FOR_VECS(k, c, C) {
        const vec here = ROW_VECS > 0 ? kept[KEPT_AT(k)] : load_data_part(x + c, C - c, 0.0f);
        store_data_part(here * inverse * load_part(w + w_at + c, C - c, 0.0f), y + y_at + row + c, C - c);
        if (residual) {
            if (ROW_VECS > 0) {
                store_data_part(here, r + r_at + row + c, C - c);
            }
        }
    }
    if (MY_ITEM == 0) {
        rstd[rstd_at + n] = inverse;
    }
}

// With `residual`, dskip joins; without, it is not looked at. Sums are in registers or, where a row is not, in partial.
kernel void rmsnorm_backward_rows(uint residual, ulong N, ulong C, ulong n_strips, ulong strip_rows,
                                  const global data *dy, ulong dy_at, const global data *x, ulong x_at,
                                  const global float *w, ulong w_at, const global float *rstd, ulong rstd_at,
                                  const global data *dskip, ulong dskip_at, global data *dx, ulong dx_at,
                                  global float *partial, ulong partial_at) {
    ROW_SHARED(shared);
    const ulong strip = MY_ROW;
    if (strip >= n_strips) {
        return;
    }
    global float *dw_sums = partial + partial_at + row_start(strip, C);
    vec dw[KEPT];
    FOR_VECS(k, c, C) {
        dw[KEPT_AT(k)] = to_vec(0.0f);
        if (ROW_VECS == 0) {
            store_part(to_vec(0.0f), dw_sums + c, C - c);
        }
    }
    const ulong end = min(N, (strip + 1) * strip_rows);
    for (ulong n = strip * strip_rows; n < end; n++) {
        const ulong row = row_start(n, C);
        const float inverse = rstd[rstd_at + n];
        vec d_kept[KEPT];
        vec xh_kept[KEPT];
        vec sum_g_xh = to_vec(0.0f);
        FOR_VECS(k, c, C) {
            const vec d = load_data_part(dy + dy_at + row + c, C - c, 0.0f);
            const vec xh = load_data_part(x + x_at + row + c, C - c, 0.0f) * inverse;
            sum_g_xh += d * load_part(w + w_at + c, C - c, 0.0f) * xh;
            d_kept[KEPT_AT(k)] = d;
            xh_kept[KEPT_AT(k)] = xh;
            if (ROW_VECS > 0) {
                dw[KEPT_AT(k)] += d * xh;
            } else {
                store_part(load_part(dw_sums + c, C - c, 0.0f) + d * xh, dw_sums + c, C - c);
            }
        }
        const float mean_g_xh = row_sum(sum_of(sum_g_xh), shared) / C;
        FOR_VECS(k, c, C) {
            const vec dy_here = ROW_VECS > 0 ? d_kept[KEPT_AT(k)] : load_data_part(dy + dy_at + row + c, C - c, 0.0f);
            const vec xh =
                ROW_VECS > 0 ? xh_kept[KEPT_AT(k)] : load_data_part(x + x_at + row + c, C - c, 0.0f) * inverse;
            vec d = inverse * (dy_here * load_part(w + w_at + c, C - c, 0.0f) - xh * mean_g_xh);
            if (residual) {
                d += load_data_part(dskip + dskip_at + row + c, C - c, 0.0f);
            }
            store_data_part(d, dx + dx_at + row + c, C - c);
        }
    }
    if (ROW_VECS > 0) {
        FOR_VECS(k, c, C) { store_part(dw[KEPT_AT(k)], dw_sums + c, C - c); }
    }
}
