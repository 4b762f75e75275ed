// adafactor.cl: Adafactor (Shazeer and Stern 2018, algorithms 4 and 5), as PyTorch has it.
//
//   g = clip g;  row = b2 row + (1 - b2) mean_c g^2;  col = b2 col + (1 - b2) mean_r g^2
//   u = g / sqrt(row col / mean(row));  p = (1 - lr wd) p - rho max(eps2, rms(p)) u / max(1, rms(u) / d)
//
// g, p (R,C); row (R); col (C). In six kernels: the rows' means; the columns' sums, in strips of rows as bias.cl's,
// and their means; the mean of row; the size of u and p by row; the step's length; the update. scratch:
//
//   partial (n_strips,C) | u's squares (R) | p's squares (R) | mean | step
//
// A negative clip skips the step: row, col, v and p stay. With `copied`, w = p. A vector keeps v (n) itself, and is the
// work of one row.
enum { LR_F = 0, BETA2_F = 2, EPS_F = 3, WEIGHT_DECAY_F = 4, RELATIVE_STEP_F = 11, EPS2_F, UPDATE_RMS_F };

static inline vec factored_update(vec g, vec v, float eps) { return g / sqrt(fmax(v, to_vec(eps * eps))); }

static inline float adafactor_step_length(const global float *h, float u_squares, float p_squares, float n) {
    const float alpha = h[RELATIVE_STEP_F] * fmax(h[EPS2_F], sqrt(p_squares / n));
    return alpha / fmax(1.0f, sqrt(u_squares / n) / h[UPDATE_RMS_F]);
}

kernel void adafactor_rows(ulong R, ulong C, IN(float, g), IN(float, hyper), IN(float, clip), OUT(float, row)) {
    ROW_SHARED(shared);
    const ulong r = MY_ROW;
    if (r >= R || clip[clip_at] < 0) {
        return;
    }
    vec squares = to_vec(0.0f);
    for (ulong c = MY_ITEM * VECTOR; c < C; c += ROW_ITEMS * VECTOR) {
        const vec gradient = clip[clip_at] * load_part(g + g_at + row_start(r, C) + c, C - c, 0.0f);
        squares += gradient * gradient;
    }
    const float sum = row_sum(sum_of(squares), shared);
    const float b2 = hyper[hyper_at + BETA2_F];
    if (MY_ITEM == 0) {
        row[row_at + r] = b2 * row[row_at + r] + (1.0f - b2) * sum / C;
    }
}

kernel void adafactor_column_strips(ulong R, ulong C, ulong strip_rows, IN(float, g), IN(float, clip),
                                    OUT(float, partial)) {
    LANES_SHARED(shared);
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong strip = get_group_id(1);
    const ulong end = min(R, (strip + 1) * strip_rows);
    vec sum = to_vec(0.0f);
    if (c < C) {
            for (ulong r = strip * strip_rows + MY_LANE; r < end; r += N_LANES) {
            const vec gradient = clip[clip_at] * load_part(g + g_at + row_start(r, C) + c, C - c, 0.0f);
            sum += gradient * gradient;
        }
    }
    sum = lanes_sum(sum, shared);
    if (c < C && MY_LANE == 0) {
        store_part(sum, partial + partial_at + row_start(strip, C) + c, C - c);
    }
}

kernel void adafactor_columns(ulong n_strips, ulong R, ulong C, IN(float, partial), IN(float, hyper), IN(float, clip),
                              OUT(float, col)) {
    LANES_SHARED(shared);
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const float b2 = hyper[hyper_at + BETA2_F];
    vec sum = to_vec(0.0f);
    if (c < C) {
        sum = add_rows(partial + partial_at + row_start(MY_LANE, C) + c, N_LANES * C, LANE_ROWS(n_strips), C - c);
    }
    sum = lanes_sum(sum, shared);
    if (c < C && MY_LANE == 0 && clip[clip_at] >= 0) {
        const vec before = load_part(col + col_at + c, C - c, 0.0f);
        store_part(b2 * before + (1.0f - b2) / R * sum, col + col_at + c, C - c);
    }
}

kernel void adafactor_mean(ulong R, IN(float, row), IN(float, hyper), OUT(float, mean)) {
    ROW_SHARED(shared);
    if (MY_ROW > 0) {
        return;
    }
    float sum = 0;
    for (ulong r = MY_ITEM; r < R; r += ROW_ITEMS) {
        sum += row[row_at + r];
    }
    sum = row_sum(sum, shared);
    if (MY_ITEM == 0) {
        mean[mean_at] = fmax(sum / R, hyper[hyper_at + EPS_F]);
    }
}

kernel void adafactor_measure(ulong R, ulong C, IN(float, g), IN(float, hyper), IN(float, clip), IN(float, p),
                              IN(float, row), IN(float, col), OUT(float, squares)) {
    ROW_SHARED(shared);
    const ulong r = MY_ROW;
    if (r >= R) {
        return;
    }
    const float factor = row[row_at + r] / squares[squares_at + 2 * R];
    vec u_squares = to_vec(0.0f);
    vec p_squares = to_vec(0.0f);
    for (ulong c = MY_ITEM * VECTOR; c < C; c += ROW_ITEMS * VECTOR) {
        const ulong i = row_start(r, C) + c;
        const vec gradient = clip[clip_at] * load_part(g + g_at + i, C - c, 0.0f);
        const vec value = load_part(p + p_at + i, C - c, 0.0f);
        const vec u = factored_update(gradient, factor * load_part(col + col_at + c, C - c, 1.0f), hyper[hyper_at + EPS_F]);
        u_squares += u * u;
        p_squares += value * value;
    }
    const float2 both = row_sums((float2)(sum_of(u_squares), sum_of(p_squares)), shared);
    if (MY_ITEM == 0) {
        squares[squares_at + r] = both.x;
        squares[squares_at + R + r] = both.y;
    }
}

kernel void adafactor_step(ulong R, ulong C, IN(float, hyper), OUT(float, squares)) {
    ROW_SHARED(shared);
    if (MY_ROW > 0) {
        return;
    }
    float2 sum = (float2)(0.0f);
    for (ulong r = MY_ITEM; r < R; r += ROW_ITEMS) {
        sum += (float2)(squares[squares_at + r], squares[squares_at + R + r]);
    }
    sum = row_sums(sum, shared);
    if (MY_ITEM == 0) {
        squares[squares_at + 2 * R + 1] = adafactor_step_length(hyper + hyper_at, sum.x, sum.y, (float)R * (float)C);
    }
}

kernel void adafactor_move(ulong R, ulong C, uint decays, IN(float, g), IN(float, hyper), IN(float, clip),
                           OUT(float, p), IN(float, row), IN(float, col), IN(float, squares), uint copied,
                           OUT(data, w)) {
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong r = get_global_id(1);
    if (c >= C || r >= R || clip[clip_at] < 0) {
        return;
    }
    const global float *h = hyper + hyper_at;
    const ulong i = row_start(r, C) + c;
    const float factor = row[row_at + r] / squares[squares_at + 2 * R];
    const float step = squares[squares_at + 2 * R + 1];
    const vec gradient = clip[clip_at] * load_part(g + g_at + i, C - c, 0.0f);
    const vec u = factored_update(gradient, factor * load_part(col + col_at + c, C - c, 1.0f), h[EPS_F]);
    const vec shrunk = load_part(p + p_at + i, C - c, 0.0f) * (1.0f - h[LR_F] * h[WEIGHT_DECAY_F] * decays);
    store_part(shrunk - step * u, p + p_at + i, C - c);
    if (copied) {
        store_data_part(shrunk - step * u, w + w_at + i, C - c);
    }
}

kernel void adafactor_vector(ulong n, IN(float, g), IN(float, hyper), IN(float, clip), OUT(float, p), OUT(float, v)) {
    ROW_SHARED(shared);
    if (MY_ROW > 0 || clip[clip_at] < 0) {
        return;
    }
    const global float *h = hyper + hyper_at;
    vec u_squares = to_vec(0.0f);
    vec p_squares = to_vec(0.0f);
    for (ulong i = MY_ITEM * VECTOR; i < n; i += ROW_ITEMS * VECTOR) {
        const vec gradient = clip[clip_at] * load_part(g + g_at + i, n - i, 0.0f);
        const vec before = load_part(v + v_at + i, n - i, 1.0f);
        const vec value = load_part(p + p_at + i, n - i, 0.0f);
        const vec square = h[BETA2_F] * before + (1.0f - h[BETA2_F]) * gradient * gradient;
        const vec u = factored_update(gradient, square, h[EPS_F]);
        store_part(square, v + v_at + i, n - i);
        u_squares += u * u;
        p_squares += value * value;
    }
    const float2 both = row_sums((float2)(sum_of(u_squares), sum_of(p_squares)), shared);
    const float step = adafactor_step_length(h, both.x, both.y, n);
    for (ulong i = MY_ITEM * VECTOR; i < n; i += ROW_ITEMS * VECTOR) {
        const vec gradient = clip[clip_at] * load_part(g + g_at + i, n - i, 0.0f);
        const vec u = factored_update(gradient, load_part(v + v_at + i, n - i, 1.0f), h[EPS_F]);
        store_part(load_part(p + p_at + i, n - i, 0.0f) - step * u, p + p_at + i, n - i);
    }
}
