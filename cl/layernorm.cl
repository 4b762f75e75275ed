// layernorm.cl: layer normalisation (Ba et al. 2016, equations 3 and 4), alone or with the residual
// connection beside it.
//
//   mean = sum_c x / C;  rstd = 1/sqrt(sum_c (x - mean)^2 / C + eps);  y = (x - mean) rstd w + b
//   xh = (x - mean) rstd;  g = dy w;  dx = rstd (g - sum_c g / C - xh sum_c g xh / C) + dskip
//   dw += sum_n dy xh;  db += sum_n dy
//
// x, y, dx, dy, dskip (N,C); w, b, dw, db (C); mean, rstd (N). ROW_ITEMS work-items share a row, each every
// ROW_ITEMS-th vec of it. Backward, in two kernels: they compute dx of a strip of rows, one after the other, and sum up
// what these add to dw and db; then the strips' sums are added up, in order.
//
//   row n    |item 0|item 1| .. |item 0|item 1| ..      strip 0   partial (n_strips, 2, C)
//   row n+1  |item 0|item 1| .. |item 0|item 1| ..      strip 0   -> dw, db
//            |<--- ROW_ITEMS -->|

// Zero where a vec reaches beyond the row, so that sums of squares are right.
static inline vec deviation(const global data *x, float mean, ulong n) { return load_data_part(x, n, mean) - mean; }

// With `residual`, r = a + b takes the place of x; without, x is a, and b and r are not looked at.
kernel void layernorm_forward(uint residual, ulong N, ulong C, float eps, const global data *a, ulong a_at,
                              const global data *b, ulong b_at, const global float *w, ulong w_at,
                              const global float *beta, ulong beta_at, global data *r, ulong r_at, global data *y,
                              ulong y_at, global float *mean, ulong mean_at, global float *rstd, ulong rstd_at) {
    ROW_SHARED(shared);
    const ulong n = MY_ROW;
    if (n >= N) {
        return;
    }
    const ulong row = row_start(n, C);
    vec kept[KEPT];
    vec sum = to_vec(0.0f);
    FOR_VECS(k, c, C) {
        vec here = load_data_part(a + a_at + row + c, C - c, 0.0f);
        if (residual) {
            here += load_data_part(b + b_at + row + c, C - c, 0.0f);
            if (ROW_VECS == 0) {
                store_data_part(here, r + r_at + row + c, C - c);
            }
        }
        kept[KEPT_AT(k)] = here;
        sum += here;
    }
    const global data *x = residual ? r + r_at + row : a + a_at + row;
    const float average = row_sum(sum_of(sum), shared) / C;
    vec squares = to_vec(0.0f);
    FOR_VECS(k, c, C) {
        const vec d = ROW_VECS > 0 ? kept[KEPT_AT(k)] - average : deviation(x + c, average, C - c);
        squares += d * d;
    }
    const float inverse = 1.0f / sqrt(row_sum(sum_of(squares), shared) / C + eps);
    FOR_VECS(k, c, C) {
        const vec d = ROW_VECS > 0 ? kept[KEPT_AT(k)] - average : deviation(x + c, average, C - c);
        const vec scaled = d * inverse * load_part(w + w_at + c, C - c, 0.0f) + load_part(beta + beta_at + c, C - c, 0.0f);
        store_data_part(scaled, y + y_at + row + c, C - c);
        if (residual) {
            if (ROW_VECS > 0) {
                store_data_part(kept[KEPT_AT(k)], r + r_at + row + c, C - c);
            }
        }
    }
    if (MY_ITEM == 0) {
        mean[mean_at + n] = average;
        rstd[rstd_at + n] = inverse;
    }
}

// With `residual`, dskip joins; without, it is not looked at. Sums are in registers or, where a row is not, in partial.
kernel void layernorm_backward_rows(uint residual, ulong N, ulong C, ulong n_strips, ulong strip_rows,
                                    const global data *dy, ulong dy_at, const global data *x, ulong x_at,
                                    const global float *w, ulong w_at, const global float *mean, ulong mean_at,
                                    const global float *rstd, ulong rstd_at, const global data *dskip,
                                    ulong dskip_at, global data *dx, ulong dx_at, global float *partial,
                                    ulong partial_at) {
    ROW_SHARED(shared);
    const ulong strip = MY_ROW;
    if (strip >= n_strips) {
        return;
    }
    global float *dw_sums = partial + partial_at + row_start(2 * strip, C);
    global float *db_sums = dw_sums + C;
    vec dw[KEPT];
    vec db[KEPT];
    FOR_VECS(k, c, C) {
        dw[KEPT_AT(k)] = to_vec(0.0f);
        db[KEPT_AT(k)] = to_vec(0.0f);
        if (ROW_VECS == 0) {
            store_part(to_vec(0.0f), dw_sums + c, C - c);
            store_part(to_vec(0.0f), db_sums + c, C - c);
        }
    }
    const ulong end = min(N, (strip + 1) * strip_rows);
    for (ulong n = strip * strip_rows; n < end; n++) {
        const ulong row = row_start(n, C);
        const float average = mean[mean_at + n];
        const float inverse = rstd[rstd_at + n];
        vec d_kept[KEPT];
        vec xh_kept[KEPT];
        vec sum_g = to_vec(0.0f);
        vec sum_g_xh = to_vec(0.0f);
        FOR_VECS(k, c, C) {
            const vec d = load_data_part(dy + dy_at + row + c, C - c, 0.0f);
            const vec xh = deviation(x + x_at + row + c, average, C - c) * inverse;
            const vec g = d * load_part(w + w_at + c, C - c, 0.0f);
            sum_g += g;
            sum_g_xh += g * xh;
            d_kept[KEPT_AT(k)] = d;
            xh_kept[KEPT_AT(k)] = xh;
            if (ROW_VECS > 0) {
                dw[KEPT_AT(k)] += d * xh;
                db[KEPT_AT(k)] += d;
            } else {
                store_part(load_part(dw_sums + c, C - c, 0.0f) + d * xh, dw_sums + c, C - c);
                store_part(load_part(db_sums + c, C - c, 0.0f) + d, db_sums + c, C - c);
            }
        }
        const float2 means = row_sums((float2)(sum_of(sum_g), sum_of(sum_g_xh)), shared) / (float)C;
        FOR_VECS(k, c, C) {
            const vec dy_here = ROW_VECS > 0 ? d_kept[KEPT_AT(k)] : load_data_part(dy + dy_at + row + c, C - c, 0.0f);
            const vec xh = ROW_VECS > 0 ? xh_kept[KEPT_AT(k)] : deviation(x + x_at + row + c, average, C - c) * inverse;
            vec d = inverse * (dy_here * load_part(w + w_at + c, C - c, 0.0f) - means.x - xh * means.y);
            if (residual) {
                d += load_data_part(dskip + dskip_at + row + c, C - c, 0.0f);
            }
            store_data_part(d, dx + dx_at + row + c, C - c);
        }
    }
    if (ROW_VECS > 0) {
        FOR_VECS(k, c, C) {
            store_part(dw[KEPT_AT(k)], dw_sums + c, C - c);
            store_part(db[KEPT_AT(k)], db_sums + c, C - c);
        }
    }
}

// Work-groups with a second index of 0 make dw, the others db.
kernel void layernorm_backward_sum(ulong n_strips, ulong C, const global float *partial, ulong partial_at,
                                   global float *dw, ulong dw_at, global float *db, ulong db_at) {
    LANES_SHARED(shared);
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong which = get_group_id(1);
    global float *to = which == 0 ? dw + dw_at + c : db + db_at + c;
    vec sum = to_vec(0.0f);
    if (c < C) {
        SIDE_BY_SIDE
        for (ulong strip = MY_LANE; strip < n_strips; strip += N_LANES) {
            sum += load_part(partial + partial_at + row_start(2 * strip + which, C) + c, C - c, 0.0f);
        }
    }
    sum = lanes_sum(sum, shared);
    if (c < C && MY_LANE == 0) {
        store_part(load_part(to, C - c, 0.0f) + sum, to, C - c);
    }
}
