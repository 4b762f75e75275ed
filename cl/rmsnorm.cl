// rmsnorm.cl: root mean square normalisation (Zhang and Sennrich 2019, equation 4), alone or together with the
// residual sum.
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

// With `residual`, r = x + add takes the place of x; without, add and r are not looked at.
kernel void rmsnorm_forward(uint residual, ulong N, ulong C, float eps, const global data *x, ulong x_at,
                            const global float *w, ulong w_at, const global data *add, ulong add_at, global data *y,
                            ulong y_at, global float *rstd, ulong rstd_at, global data *r, ulong r_at) {
    ROW_SHARED(shared);
    const ulong n = MY_ROW;
    if (n >= N) {
        return;
    }
    const ulong row = row_start(n, C);
    vec kept[KEPT];
    vec squares = to_vec(0.0f);
    FOR_VECS(k, c, C) {
        vec here = load_data_part(x + x_at + row + c, C - c, 0.0f);
        if (residual) {
            here += load_data_part(add + add_at + row + c, C - c, 0.0f);
            if (ROW_VECS == 0) {
                store_data_part(here, r + r_at + row + c, C - c);
            }
        }
        kept[KEPT_AT(k)] = here;
        squares += here * here;
    }
    const global data *normed = residual ? r + r_at + row : x + x_at + row;
    const float inverse = 1.0f / sqrt(row_sum(sum_of(squares), shared) / C + eps);
    FOR_VECS(k, c, C) {
        const vec here = ROW_VECS > 0 ? kept[KEPT_AT(k)] : load_data_part(normed + c, C - c, 0.0f);
        store_data_part(here * inverse * load_part(w + w_at + c, C - c, 0.0f), y + y_at + row + c, C - c);
        if (ROW_VECS > 0 && residual) {
            store_data_part(here, r + r_at + row + c, C - c);
        }
    }
    if (MY_ITEM == 0) {
        rstd[rstd_at + n] = inverse;
    }
}

// With `residual`, dskip joins; without, it is not looked at. A strip has every n_strips-th row. Sums are in registers or,
// where a row is not, in partial.
kernel void rmsnorm_backward_rows(uint residual, ulong N, ulong C, ulong n_strips, const global data *dy, ulong dy_at,
                                  const global data *x, ulong x_at, const global float *w, ulong w_at,
                                  const global float *rstd, ulong rstd_at, const global data *dskip, ulong dskip_at,
                                  global data *dx, ulong dx_at, global float *partial, ulong partial_at) {
    ROW_SHARED(shared);
    const ulong strip = MY_ROW;
    if (strip >= n_strips) {
        return;
    }
    global float *dw_sums = partial + partial_at + row_start(strip, C);
    dy += dy_at;
    x += x_at;
    rstd += rstd_at;
    dskip += dskip_at;
#if ROW_VECS > 0
    vec dw[ROW_VECS];
    raw_vec ahead[ROWS_AHEAD][ROW_PARTS * ROW_VECS];
    float rstds_ahead[ROWS_AHEAD];
    FOR_VECS(k, c, C) { dw[k] = to_vec(0.0f); }
    UNROLLED
    for (uint i = 0; i < ROWS_AHEAD; i++) {
        const ulong n = strip + i * n_strips;
        ask_for_row(residual, n, N, C, dy, x, dskip, ahead[i]);
        rstds_ahead[i] = rstd[min(n, N - 1)];
    }
    for (ulong first = strip; first < N; first += ROWS_AHEAD * n_strips) {
        UNROLLED
        for (uint i = 0; i < ROWS_AHEAD; i++) {
            const ulong n = first + i * n_strips;
            const bool is_row = n < N; // or the last one once more, which adds nothing
            const ulong later = n + ROWS_AHEAD * n_strips;
            const float inverse = rstds_ahead[i];
            vec g[ROW_VECS];
            vec xh[ROW_VECS];
            raw_vec skip[ROW_VECS];
            vec sum_g_xh = to_vec(0.0f);
            FOR_VECS(k, c, C) {
                const vec dy_here = widen_raw(ahead[i][k]);
                xh[k] = widen_raw(ahead[i][ROW_VECS + k]) * inverse;
                skip[k] = ahead[i][2 * ROW_VECS + k];
                g[k] = dy_here * load_part(w + w_at + c, C - c, 0.0f);
                if (is_row) {
                    dw[k] += dy_here * xh[k];
                }
                sum_g_xh += g[k] * xh[k];
            }
            ask_for_row(residual, later, N, C, dy, x, dskip, ahead[i]);
            rstds_ahead[i] = rstd[min(later, N - 1)];
            const float mean_g_xh = row_sum(sum_of(sum_g_xh), shared) / C;
            FOR_VECS(k, c, C) {
                vec d = inverse * (g[k] - xh[k] * mean_g_xh);
                if (residual) {
                    d += widen_raw(skip[k]);
                }
                if (is_row) {
                    store_data_part(d, dx + dx_at + row_start(n, C) + c, C - c);
                }
            }
        }
    }
    FOR_VECS(k, c, C) { store_part(dw[k], dw_sums + c, C - c); }
#else
    FOR_VECS(k, c, C) { store_part(to_vec(0.0f), dw_sums + c, C - c); }
    for (ulong n = strip; n < N; n += n_strips) {
        const ulong row = row_start(n, C);
        const float inverse = rstd[n];
        vec sum_g_xh = to_vec(0.0f);
        FOR_VECS(k, c, C) {
            const vec dy_here = load_data_part(dy + row + c, C - c, 0.0f);
            const vec xh = load_data_part(x + row + c, C - c, 0.0f) * inverse;
            store_part(load_part(dw_sums + c, C - c, 0.0f) + dy_here * xh, dw_sums + c, C - c);
            sum_g_xh += dy_here * load_part(w + w_at + c, C - c, 0.0f) * xh;
        }
        const float mean_g_xh = row_sum(sum_of(sum_g_xh), shared) / C;
        FOR_VECS(k, c, C) {
            const vec g = load_data_part(dy + row + c, C - c, 0.0f) * load_part(w + w_at + c, C - c, 0.0f);
            const vec xh = load_data_part(x + row + c, C - c, 0.0f) * inverse;
            vec d = inverse * (g - xh * mean_g_xh);
            if (residual) {
                d += load_data_part(dskip + row + c, C - c, 0.0f);
            }
            store_data_part(d, dx + dx_at + row + c, C - c);
        }
    }
#endif
}
