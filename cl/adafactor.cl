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
// With `copied`, w = p. A vector keeps v (n) itself, and is one row's work.
enum { LR_F = 0, BETA2_F = 2, EPS_F = 3, WEIGHT_DECAY_F = 4, RELATIVE_STEP_F = 11, EPS2_F, UPDATE_RMS_F };

static inline float factored_update(float g, float v, float eps) { return g / sqrt(fmax(v, eps * eps)); }

static inline float adafactor_step_length(const global float *h, float u_squares, float p_squares, float n) {
    const float alpha = h[RELATIVE_STEP_F] * fmax(h[EPS2_F], sqrt(p_squares / n));
    return alpha / fmax(1.0f, sqrt(u_squares / n) / h[UPDATE_RMS_F]);
}

kernel void adafactor_rows(ulong R, ulong C, const global float *g, ulong g_at, const global float *hyper,
                           ulong hyper_at, const global float *clip, ulong clip_at, global float *row, ulong row_at) {
    ROW_SHARED(shared);
    const ulong r = MY_ROW;
    if (r >= R) {
        return;
    }
    float sum = 0;
    FOR_MINE(c, C, 1) {
        const float gradient = clip[clip_at] * g[g_at + row_start(r, C) + c];
        sum += gradient * gradient;
    }
    sum = row_sum(sum, shared);
    const float b2 = hyper[hyper_at + BETA2_F];
    if (MY_ITEM == 0) {
        row[row_at + r] = b2 * row[row_at + r] + (1.0f - b2) * sum / C;
    }
}

kernel void adafactor_column_strips(ulong R, ulong C, ulong strip_rows, const global float *g, ulong g_at,
                                    const global float *clip, ulong clip_at, global float *partial, ulong partial_at) {
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong strip = get_global_id(1);
    if (c >= C) {
        return;
    }
    const ulong end = min(R, (strip + 1) * strip_rows);
    vec sum = to_vec(0.0f);
    for (ulong r = strip * strip_rows; r < end; r++) {
        const vec gradient = clip[clip_at] * load_part(g + g_at + row_start(r, C) + c, C - c, 0.0f);
        sum += gradient * gradient;
    }
    store_part(sum, partial + partial_at + row_start(strip, C) + c, C - c);
}

kernel void adafactor_columns(ulong n_strips, ulong R, ulong C, const global float *partial, ulong partial_at,
                              const global float *hyper, ulong hyper_at, global float *col, ulong col_at) {
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    if (c >= C) {
        return;
    }
    const float b2 = hyper[hyper_at + BETA2_F];
    vec sum = to_vec(0.0f);
    for (ulong strip = 0; strip < n_strips; strip++) {
        sum += load_part(partial + partial_at + row_start(strip, C) + c, C - c, 0.0f);
    }
    const vec before = load_part(col + col_at + c, C - c, 0.0f);
    store_part(b2 * before + (1.0f - b2) / R * sum, col + col_at + c, C - c);
}

kernel void adafactor_mean(ulong R, const global float *row, ulong row_at, const global float *hyper, ulong hyper_at,
                           global float *mean, ulong mean_at) {
    ROW_SHARED(shared);
    if (MY_ROW > 0) {
        return;
    }
    float sum = 0;
    FOR_MINE(r, R, 1) { sum += row[row_at + r]; }
    sum = row_sum(sum, shared);
    if (MY_ITEM == 0) {
        mean[mean_at] = fmax(sum / R, hyper[hyper_at + EPS_F]);
    }
}

kernel void adafactor_measure(ulong R, ulong C, const global float *g, ulong g_at, const global float *hyper,
                              ulong hyper_at, const global float *clip, ulong clip_at, const global float *p,
                              ulong p_at, const global float *row, ulong row_at, const global float *col,
                              ulong col_at, global float *squares, ulong squares_at) {
    ROW_SHARED(shared);
    const ulong r = MY_ROW;
    if (r >= R) {
        return;
    }
    const float factor = row[row_at + r] / squares[squares_at + 2 * R];
    float u_squares = 0;
    float p_squares = 0;
    FOR_MINE(c, C, 1) {
        const ulong i = row_start(r, C) + c;
        const float u = factored_update(clip[clip_at] * g[g_at + i], factor * col[col_at + c], hyper[hyper_at + EPS_F]);
        u_squares += u * u;
        p_squares += p[p_at + i] * p[p_at + i];
    }
    u_squares = row_sum(u_squares, shared);
    p_squares = row_sum(p_squares, shared);
    if (MY_ITEM == 0) {
        squares[squares_at + r] = u_squares;
        squares[squares_at + R + r] = p_squares;
    }
}

kernel void adafactor_step(ulong R, ulong C, const global float *hyper, ulong hyper_at, global float *squares,
                           ulong squares_at) {
    ROW_SHARED(shared);
    if (MY_ROW > 0) {
        return;
    }
    float u_squares = 0;
    float p_squares = 0;
    FOR_MINE(r, R, 1) {
        u_squares += squares[squares_at + r];
        p_squares += squares[squares_at + R + r];
    }
    u_squares = row_sum(u_squares, shared);
    p_squares = row_sum(p_squares, shared);
    if (MY_ITEM == 0) {
        squares[squares_at + 2 * R + 1] =
            adafactor_step_length(hyper + hyper_at, u_squares, p_squares, (float)R * (float)C);
    }
}

kernel void adafactor_move(ulong R, ulong C, float decay, const global float *g, ulong g_at, const global float *hyper,
                           ulong hyper_at, const global float *clip, ulong clip_at, global float *p, ulong p_at,
                           const global float *row, ulong row_at, const global float *col, ulong col_at,
                           const global float *squares, ulong squares_at, uint copied, global data *w,
                           ulong w_at) {
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong r = get_global_id(1);
    if (c >= C || r >= R) {
        return;
    }
    const global float *h = hyper + hyper_at;
    const ulong i = row_start(r, C) + c;
    const float factor = row[row_at + r] / squares[squares_at + 2 * R];
    const float step = squares[squares_at + 2 * R + 1];
    const vec v = fmax(factor * load_part(col + col_at + c, C - c, 0.0f), to_vec(h[EPS_F] * h[EPS_F]));
    const vec u = clip[clip_at] * load_part(g + g_at + i, C - c, 0.0f) / sqrt(v);
    const vec shrunk = load_part(p + p_at + i, C - c, 0.0f) * (1.0f - h[LR_F] * h[WEIGHT_DECAY_F] * decay);
    store_part(shrunk - step * u, p + p_at + i, C - c);
    if (copied) {
        store_data_part(shrunk - step * u, w + w_at + i, C - c);
    }
}

kernel void adafactor_vector(ulong n, const global float *g, ulong g_at, const global float *hyper, ulong hyper_at,
                             const global float *clip, ulong clip_at, global float *p, ulong p_at, global float *v,
                             ulong v_at) {
    ROW_SHARED(shared);
    if (MY_ROW > 0) {
        return;
    }
    const global float *h = hyper + hyper_at;
    float u_squares = 0;
    float p_squares = 0;
    FOR_MINE(i, n, 1) {
        const float gradient = clip[clip_at] * g[g_at + i];
        v[v_at + i] = h[BETA2_F] * v[v_at + i] + (1.0f - h[BETA2_F]) * gradient * gradient;
        const float u = factored_update(gradient, v[v_at + i], h[EPS_F]);
        u_squares += u * u;
        p_squares += p[p_at + i] * p[p_at + i];
    }
    u_squares = row_sum(u_squares, shared);
    p_squares = row_sum(p_squares, shared);
    const float step = adafactor_step_length(h, u_squares, p_squares, n);
    FOR_MINE(i, n, 1) {
        p[p_at + i] -= step * factored_update(clip[clip_at] * g[g_at + i], v[v_at + i], h[EPS_F]);
    }
}
