// layernorm.cl: layer normalisation (Ba et al. 2016, equations 3 and 4), alone or together with the residual sum.
//
//   mean = sum_c x / C;  rstd = 1/sqrt(sum_c (x - mean)^2 / C + eps);  y = (x - mean) rstd w + b
//   xh = (x - mean) rstd;  g = dy w;  dx = rstd (g - sum_c g / C - xh sum_c g xh / C) + dskip
//   dw += sum_n dy xh;  db += sum_n dy;  dbias += sum_n dx, where it is asked for
//
// x, y, dx, dy, dskip (N,C); w, b, dw, db, dbias (C); mean, rstd (N). ROW_ITEMS work-items share a row, each every
// ROW_ITEMS-th vec of it. The backward has two kernels: the first computes dx of a strip of rows, every n_strips-th, one
// after the other, and sums their contributions to dw, db and dbias (n_sums of them); the second adds the strips' sums,
// in order.
//
//   row n    |item 0|item 1| .. |item 0|item 1| ..      strip 0   partial (n_strips, n_sums, C)
//   row n+1  |item 0|item 1| .. |item 0|item 1| ..      strip 1   -> dw, db, dbias
//            |<--- ROW_ITEMS -->|

// Zero where a vec reaches beyond the row, so that sums of squares are right.
static inline vec deviation(const global data *x, float mean, ulong n) { return load_data_part(x, n, mean) - mean; }

// With `residual`, r = x + add takes the place of x; without, add and r are not looked at.
kernel void layernorm_forward(uint residual, ulong N, ulong C, float eps, const global data *x, ulong x_at,
                              const global float *w, ulong w_at, const global float *b, ulong b_at,
                              const global data *add, ulong add_at, global data *y, ulong y_at, global float *mean,
                              ulong mean_at, global float *rstd, ulong rstd_at, global data *r, ulong r_at) {
    ROW_SHARED(shared);
    const ulong n = MY_ROW;
    if (n >= N) {
        return;
    }
    const ulong row = row_start(n, C);
    vec kept[KEPT];
    vec sum = to_vec(0.0f);
    FOR_VECS(k, c, C) {
        vec here = load_data_part(x + x_at + row + c, C - c, 0.0f);
        if (residual) {
            here += load_data_part(add + add_at + row + c, C - c, 0.0f);
            if (ROW_VECS == 0) {
                store_data_part(here, r + r_at + row + c, C - c);
            }
        }
        kept[KEPT_AT(k)] = here;
        sum += here;
    }
    const global data *normed = residual ? r + r_at + row : x + x_at + row;
    const float average = row_sum(sum_of(sum), shared) / C;
    vec squares = to_vec(0.0f);
    FOR_VECS(k, c, C) {
        const vec d = ROW_VECS > 0 ? kept[KEPT_AT(k)] - average : deviation(normed + c, average, C - c);
        squares += d * d;
    }
    const float inverse = 1.0f / sqrt(row_sum(sum_of(squares), shared) / C + eps);
    FOR_VECS(k, c, C) {
        const vec d = ROW_VECS > 0 ? kept[KEPT_AT(k)] - average : deviation(normed + c, average, C - c);
        const vec scaled = d * inverse * load_part(w + w_at + c, C - c, 0.0f) + load_part(b + b_at + c, C - c, 0.0f);
        store_data_part(scaled, y + y_at + row + c, C - c);
        if (ROW_VECS > 0 && residual) {
            store_data_part(kept[KEPT_AT(k)], r + r_at + row + c, C - c);
        }
    }
    if (MY_ITEM == 0) {
        mean[mean_at + n] = average;
        rstd[rstd_at + n] = inverse;
    }
}

// With `residual`, dskip joins; without, it is not looked at. A strip has every n_strips-th row. Sums are in registers or,
// where a row is not, in partial.
kernel void layernorm_backward_rows(uint residual, ulong N, ulong C, ulong n_strips, uint n_sums,
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
    global float *dw_sums = partial + partial_at + row_start(n_sums * strip, C);
    global float *db_sums = dw_sums + C;
    global float *dbias_sums = db_sums + C;
    const float inverse_C = 1.0f / (float)C;
    dy += dy_at;
    x += x_at;
    mean += mean_at;
    rstd += rstd_at;
    dskip += dskip_at;
#if ROW_VECS > 0
    vec dw[ROW_VECS];
    vec db[ROW_VECS];
    vec dbias[ROW_VECS];
    raw_vec ahead[ROWS_AHEAD][ROW_PARTS * ROW_VECS];
    float means_ahead[ROWS_AHEAD];
    float rstds_ahead[ROWS_AHEAD];
    FOR_VECS(k, c, C) { dw[k] = db[k] = dbias[k] = to_vec(0.0f); }
    UNROLLED
    for (uint i = 0; i < ROWS_AHEAD; i++) {
        const ulong n = strip + i * n_strips;
        ask_for_row(residual, n, N, C, dy, x, dskip, ahead[i]);
        means_ahead[i] = mean[min(n, N - 1)];
        rstds_ahead[i] = rstd[min(n, N - 1)];
    }
    for (ulong first = strip; first < N; first += ROWS_AHEAD * n_strips) {
        UNROLLED
        for (uint i = 0; i < ROWS_AHEAD; i++) {
            const ulong n = first + i * n_strips;
            const bool is_row = n < N; // or the last one once more, which adds nothing
            const ulong later = n + ROWS_AHEAD * n_strips;
            const float average = means_ahead[i];
            const float inverse = rstds_ahead[i];
            vec g[ROW_VECS];
            vec xh[ROW_VECS];
            raw_vec skip[ROW_VECS];
            vec sum_g = to_vec(0.0f);
            vec sum_g_xh = to_vec(0.0f);
            FOR_VECS(k, c, C) {
                const vec dy_here = widen_raw(ahead[i][k]);
                xh[k] = (widen_raw(ahead[i][ROW_VECS + k]) - average) * inverse;
                skip[k] = ahead[i][2 * ROW_VECS + k];
                g[k] = dy_here * load_part(w + w_at + c, C - c, 0.0f);
                if (is_row) {
                    dw[k] += dy_here * xh[k];
                    db[k] += dy_here;
                }
                sum_g += g[k];
                sum_g_xh += g[k] * xh[k];
            }
            ask_for_row(residual, later, N, C, dy, x, dskip, ahead[i]);
            means_ahead[i] = mean[min(later, N - 1)];
            rstds_ahead[i] = rstd[min(later, N - 1)];
            const float2 means = row_sums((float2)(sum_of(sum_g), sum_of(sum_g_xh)), shared) * inverse_C;
            FOR_VECS(k, c, C) {
                vec d = inverse * (g[k] - means.x - xh[k] * means.y);
                if (residual) {
                    d += widen_raw(skip[k]);
                }
                if (is_row) {
                    store_data_part(d, dx + dx_at + row_start(n, C) + c, C - c);
                    dbias[k] += d;
                }
            }
        }
    }
    FOR_VECS(k, c, C) {
        store_part(dw[k], dw_sums + c, C - c);
        store_part(db[k], db_sums + c, C - c);
        if (n_sums > 2) {
            store_part(dbias[k], dbias_sums + c, C - c);
        }
    }
#else
    FOR_VECS(k, c, C) {
        for (uint i = 0; i < n_sums; i++) {
            store_part(to_vec(0.0f), dw_sums + i * C + c, C - c);
        }
    }
    for (ulong n = strip; n < N; n += n_strips) {
        const ulong row = row_start(n, C);
        const float average = mean[n];
        const float inverse = rstd[n];
        vec sum_g = to_vec(0.0f);
        vec sum_g_xh = to_vec(0.0f);
        FOR_VECS(k, c, C) {
            const vec dy_here = load_data_part(dy + row + c, C - c, 0.0f);
            const vec xh = deviation(x + row + c, average, C - c) * inverse;
            const vec g = dy_here * load_part(w + w_at + c, C - c, 0.0f);
            store_part(load_part(dw_sums + c, C - c, 0.0f) + dy_here * xh, dw_sums + c, C - c);
            store_part(load_part(db_sums + c, C - c, 0.0f) + dy_here, db_sums + c, C - c);
            sum_g += g;
            sum_g_xh += g * xh;
        }
        const float2 means = row_sums((float2)(sum_of(sum_g), sum_of(sum_g_xh)), shared) * inverse_C;
        FOR_VECS(k, c, C) {
            const vec g = load_data_part(dy + row + c, C - c, 0.0f) * load_part(w + w_at + c, C - c, 0.0f);
            const vec xh = deviation(x + row + c, average, C - c) * inverse;
            vec d = inverse * (g - means.x - xh * means.y);
            if (residual) {
                d += load_data_part(dskip + row + c, C - c, 0.0f);
            }
            store_data_part(d, dx + dx_at + row + c, C - c);
            if (n_sums > 2) {
                store_part(load_part(dbias_sums + c, C - c, 0.0f) + d, dbias_sums + c, C - c);
            }
        }
    }
#endif
}

// Work-groups with a second index of 0 make dw, with 1 db, with 2 dbias.
kernel void layernorm_backward_sum(ulong n_strips, ulong C, uint n_sums, const global float *partial, ulong partial_at,
                                   global float *dw, ulong dw_at, global float *db, ulong db_at, global float *dbias,
                                   ulong dbias_at) {
    LANES_SHARED(shared);
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong which = get_group_id(1);
    global float *to = which == 0 ? dw + dw_at + c : which == 1 ? db + db_at + c : dbias + dbias_at + c;
    vec sum = to_vec(0.0f);
    if (c < C) {
        const global float *first = partial + partial_at + row_start(n_sums * MY_LANE + which, C) + c;
        sum = add_rows(first, n_sums * N_LANES * C, LANE_ROWS(n_strips), C - c);
    }
    sum = lanes_sum(sum, shared);
    if (c < C && MY_LANE == 0) {
        store_part(load_part(to, C - c, 0.0f) + sum, to, C - c);
    }
}
