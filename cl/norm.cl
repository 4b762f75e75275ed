// norm.cl: normalises rows, alone or together with the residual sum: RMS normalisation (Zhang and Sennrich 2019,
// equation 4), or with CENTRED layer normalisation (Ba et al. 2016, equations 3 and 4), which also subtracts the mean
// and adds a bias.
//
//   rmsnorm     rstd = 1/sqrt(sum_c x^2 / C + eps);  y = x rstd w
//               xh = x rstd;  g = dy w;  dx = rstd (g - xh sum_c g xh / C) + dskip;  dw += sum_n dy xh
//   layernorm   mean = sum_c x / C;  rstd = 1/sqrt(sum_c (x - mean)^2 / C + eps);  y = (x - mean) rstd w + b
//               xh = (x - mean) rstd;  g = dy w;  dx = rstd (g - sum_c g / C - xh sum_c g xh / C) + dskip
//               dw += sum_n dy xh;  db += sum_n dy;  dbias += sum_n dx, if there is a dbias
//
// x, y, dx, dy, dskip (N,C); w, b, dw, db, dbias (C); mean, rstd (N). ROW_ITEMS work-items share a row: each has every
// ROW_ITEMS-th vec of it. The backward has two kernels. The first computes dx of a strip of rows, every n_strips-th,
// one after the other, and sums their contributions to dw, db and dbias (n_sums of them; rmsnorm's is one). The second
// adds the strips' sums, in order: norm_backward_sum, or for rmsnorm bias_backward_sum.
//
//   row n    |item 0|item 1| .. |item 0|item 1| ..      strip 0   partial (n_strips, n_sums, C)
//   row n+1  |item 0|item 1| .. |item 0|item 1| ..      strip 1   -> dw, db, dbias
//            |<--- ROW_ITEMS -->|
#ifndef CENTRED
#define CENTRED 0
#endif
#if CENTRED
#define N_SUMS           n_sums
#define IF_CENTRED(text) text
#define IF_RMS(text)
#define ALSO(operand)    operand,
#define CENTRE(x, mean)  ((x) - mean)
// Zero where a vec reaches beyond the row, so that sums of squares are right.
#define LOAD_CENTRED(p, n, mean) (load_data_part(p, n, mean) - mean)
#define FIND_MEANS                                                                                               \
    const float2 means = row_sums((float2)(sum_of(sum_g), sum_of(sum_g_xh)), shared) * inverse_C;                \
    const float mean_g = means.x;                                                                                \
    const float mean_g_xh = means.y
#else
#define N_SUMS 1
#define IF_CENTRED(text)
#define IF_RMS(text) text
#define ALSO(operand)
#define CENTRE(x, mean)          (x)
#define LOAD_CENTRED(p, n, mean) load_data_part(p, n, 0.0f)
#define FIND_MEANS               const float mean_g_xh = row_sum(sum_of(sum_g_xh), shared) / C
#endif

// With `residual`, r = x + add takes the place of x; without, add and r are not used.
kernel void norm_forward(uint residual, ulong N, ulong C, float eps, IN(data, x), IN(float, w), ALSO(IN(float, b))
                         IN(data, add), OUT(data, y), ALSO(OUT(float, mean)) OUT(float, rstd), OUT(data, r)) {
    ROW_SHARED(shared);
    const ulong n = MY_ROW;
    if (n >= N) {
        return;
    }
    const ulong row = row_start(n, C);
    vec kept[KEPT];
    IF_CENTRED(vec sum = to_vec(0.0f);)
    IF_RMS(vec squares = to_vec(0.0f);)
    FOR_VECS(k, c, C) {
        vec here = load_data_part(x + x_at + row + c, C - c, 0.0f);
        if (residual) {
            here += load_data_part(add + add_at + row + c, C - c, 0.0f);
            if (ROW_VECS == 0) {
                store_data_part(here, r + r_at + row + c, C - c);
            }
        }
        kept[KEPT_AT(k)] = here;
        IF_CENTRED(sum += here;)
        IF_RMS(squares += here * here;)
    }
    const global data *normed = residual ? r + r_at + row : x + x_at + row;
#if CENTRED
    const float average = row_sum(sum_of(sum), shared) / C;
    vec squares = to_vec(0.0f);
    FOR_VECS(k, c, C) {
        const vec d = ROW_VECS > 0 ? CENTRE(kept[KEPT_AT(k)], average) : LOAD_CENTRED(normed + c, C - c, average);
        squares += d * d;
    }
#endif
    const float inverse = 1.0f / sqrt(row_sum(sum_of(squares), shared) / C + eps);
    FOR_VECS(k, c, C) {
        const vec d = ROW_VECS > 0 ? CENTRE(kept[KEPT_AT(k)], average) : LOAD_CENTRED(normed + c, C - c, average);
        const vec scaled = d * inverse * load_part(w + w_at + c, C - c, 0.0f) // the sum with b is in one expression: an fma
                           IF_CENTRED(+ load_part(b + b_at + c, C - c, 0.0f));
        store_data_part(scaled, y + y_at + row + c, C - c);
        if (ROW_VECS > 0 && residual) {
            store_data_part(kept[KEPT_AT(k)], r + r_at + row + c, C - c);
        }
    }
    if (MY_ITEM == 0) {
        IF_CENTRED(mean[mean_at + n] = average;)
        rstd[rstd_at + n] = inverse;
    }
}

// With `residual`, dskip is added; without, it is not used. A strip has every n_strips-th row. Sums are in registers
// or, if a row is not, in partial.
kernel void norm_backward_rows(uint residual, ulong N, ulong C, ulong n_strips, ALSO(uint n_sums) IN(data, dy),
                               IN(data, x), IN(float, w), ALSO(IN(float, mean)) IN(float, rstd), IN(data, dskip),
                               OUT(data, dx), OUT(float, partial)) {
    ROW_SHARED(shared);
    const ulong strip = MY_ROW;
    if (strip >= n_strips) {
        return;
    }
    global float *dw_sums = partial + partial_at + row_start(N_SUMS * strip, C);
#if CENTRED
    global float *db_sums = dw_sums + C;
    global float *dbias_sums = db_sums + C;
    const float inverse_C = 1.0f / (float)C;
#endif
    dy += dy_at;
    x += x_at;
    IF_CENTRED(mean += mean_at;)
    rstd += rstd_at;
    dskip += dskip_at;
#if ROW_VECS > 0
    vec dw[ROW_VECS];
    IF_CENTRED(vec db[ROW_VECS]; vec dbias[ROW_VECS];)
    raw_vec ahead[ROWS_AHEAD][ROW_PARTS * ROW_VECS];
    IF_CENTRED(float means_ahead[ROWS_AHEAD];)
    float rstds_ahead[ROWS_AHEAD];
    FOR_VECS(k, c, C) { dw[k] = IF_CENTRED(db[k] = dbias[k] =) to_vec(0.0f); }
    UNROLLED
    for (uint i = 0; i < ROWS_AHEAD; i++) {
        const ulong n = strip + i * n_strips;
        ask_for_row(residual, n, N, C, dy, x, dskip, ahead[i]);
        IF_CENTRED(means_ahead[i] = mean[min(n, N - 1)];)
        rstds_ahead[i] = rstd[min(n, N - 1)];
    }
    for (ulong first = strip; first < N; first += ROWS_AHEAD * n_strips) {
        UNROLLED
        for (uint i = 0; i < ROWS_AHEAD; i++) {
            const ulong n = first + i * n_strips;
            const bool is_row = n < N; // or the last one once more, which adds nothing
            const ulong later = n + ROWS_AHEAD * n_strips;
            IF_CENTRED(const float average = means_ahead[i];)
            const float inverse = rstds_ahead[i];
            vec g[ROW_VECS];
            vec xh[ROW_VECS];
            raw_vec skip[ROW_VECS];
            IF_CENTRED(vec sum_g = to_vec(0.0f);)
            vec sum_g_xh = to_vec(0.0f);
            FOR_VECS(k, c, C) {
                const vec dy_here = widen_raw(ahead[i][k]);
                xh[k] = CENTRE(widen_raw(ahead[i][ROW_VECS + k]), average) * inverse;
                skip[k] = ahead[i][2 * ROW_VECS + k];
                g[k] = dy_here * load_part(w + w_at + c, C - c, 0.0f);
                if (is_row) {
                    dw[k] += dy_here * xh[k];
                    IF_CENTRED(db[k] += dy_here;)
                }
                IF_CENTRED(sum_g += g[k];)
                sum_g_xh += g[k] * xh[k];
            }
            ask_for_row(residual, later, N, C, dy, x, dskip, ahead[i]);
            IF_CENTRED(means_ahead[i] = mean[min(later, N - 1)];)
            rstds_ahead[i] = rstd[min(later, N - 1)];
            FIND_MEANS;
            FOR_VECS(k, c, C) {
                vec d = inverse * (g[k] IF_CENTRED(- mean_g) - xh[k] * mean_g_xh);
                if (residual) {
                    d += widen_raw(skip[k]);
                }
                if (is_row) {
                    store_data_part(d, dx + dx_at + row_start(n, C) + c, C - c);
                    IF_CENTRED(dbias[k] += d;)
                }
            }
        }
    }
    FOR_VECS(k, c, C) {
        store_part(dw[k], dw_sums + c, C - c);
#if CENTRED
        store_part(db[k], db_sums + c, C - c);
        if (n_sums > 2) {
            store_part(dbias[k], dbias_sums + c, C - c);
        }
#endif
    }
#else
    FOR_VECS(k, c, C) {
        for (uint i = 0; i < N_SUMS; i++) {
            store_part(to_vec(0.0f), dw_sums + i * C + c, C - c);
        }
    }
    for (ulong n = strip; n < N; n += n_strips) {
        const ulong row = row_start(n, C);
        IF_CENTRED(const float average = mean[n];)
        const float inverse = rstd[n];
        IF_CENTRED(vec sum_g = to_vec(0.0f);)
        vec sum_g_xh = to_vec(0.0f);
        FOR_VECS(k, c, C) {
            const vec dy_here = load_data_part(dy + row + c, C - c, 0.0f);
            const vec xh = LOAD_CENTRED(x + row + c, C - c, average) * inverse;
            const vec g = dy_here * load_part(w + w_at + c, C - c, 0.0f);
            store_part(load_part(dw_sums + c, C - c, 0.0f) + dy_here * xh, dw_sums + c, C - c);
            IF_CENTRED(store_part(load_part(db_sums + c, C - c, 0.0f) + dy_here, db_sums + c, C - c);)
            IF_CENTRED(sum_g += g;)
            sum_g_xh += g * xh;
        }
        FIND_MEANS;
        FOR_VECS(k, c, C) {
            const vec g = load_data_part(dy + row + c, C - c, 0.0f) * load_part(w + w_at + c, C - c, 0.0f);
            const vec xh = LOAD_CENTRED(x + row + c, C - c, average) * inverse;
            vec d = inverse * (g IF_CENTRED(- mean_g) - xh * mean_g_xh);
            if (residual) {
                d += load_data_part(dskip + row + c, C - c, 0.0f);
            }
            store_data_part(d, dx + dx_at + row + c, C - c);
#if CENTRED
            if (n_sums > 2) {
                store_part(load_part(dbias_sums + c, C - c, 0.0f) + d, dbias_sums + c, C - c);
            }
#endif
        }
    }
#endif
}

#if CENTRED
// Work-groups with a second index of 0 make dw, with 1 db, with 2 dbias.
kernel void norm_backward_sum(ulong n_strips, ulong C, uint n_sums, IN(float, partial), OUT(float, dw), OUT(float, db),
                              OUT(float, dbias)) {
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
#endif
