// head_rmsnorm.cl: root mean square normalisation of each head of queries and keys; values stay.
//
//   rstd = 1/sqrt(sum_i x^2 / HS + eps);  y = x rstd w
//   xh = x rstd;  g = dy w;  dx = rstd (g - xh sum_i g xh / HS);  dw += sum dy xh
//
// x, y, dy, dx (N,(NH+2NKV)HS): N (NH + 2 NKV) rows of HS, a head each; wq, wk, dwq, dwk (HS); rstd (N,NH+NKV). A row is
// shared out to ROW_ITEMS work-items.

kernel void head_rmsnorm_forward(ulong N, ulong HS, uint n_head, uint n_kv_head, float eps, const global data *x,
                                 ulong x_at, const global float *wq, ulong wq_at, const global float *wk, ulong wk_at,
                                 global data *y, ulong y_at, global float *rstd, ulong rstd_at) {
    ROW_SHARED(shared);
    const uint n_heads = n_head + 2 * n_kv_head;
    const ulong n = MY_ROW / n_heads;
    const uint h = (uint)(MY_ROW % n_heads);
    if (n >= N) {
        return;
    }
    const global data *from = x + x_at + row_start(MY_ROW, HS);
    global data *to = y + y_at + row_start(MY_ROW, HS);
    if (h >= n_head + n_kv_head) { // a head of v
        FOR_VECS(k, c, HS) { store_data_part(load_data_part(from + c, HS - c, 0.0f), to + c, HS - c); }
        return;
    }
    const global float *w = h < n_head ? wq + wq_at : wk + wk_at;
    vec kept[KEPT];
    vec squares = to_vec(0.0f);
    FOR_VECS(k, c, HS) {
        const vec here = load_data_part(from + c, HS - c, 0.0f);
        kept[KEPT_AT(k)] = here;
        squares += here * here;
    }
    const float inverse = 1.0f / sqrt(row_sum(sum_of(squares), shared) / HS + eps);
    FOR_VECS(k, c, HS) {
        const vec here = ROW_VECS > 0 ? kept[KEPT_AT(k)] : load_data_part(from + c, HS - c, 0.0f);
        store_data_part(here * inverse * load_part(w + c, HS - c, 0.0f), to + c, HS - c);
    }
    if (MY_ITEM == 0) {
        rstd[rstd_at + n * (n_head + n_kv_head) + h] = inverse;
    }
}

// Strips of q's heads, then of k's, then of v's, n_strips of each: every n_strips-th row of them. A strip's part of dw is
// in registers or, where a row is not, in partial (2 n_strips,HS).
kernel void head_rmsnorm_backward_rows(ulong N, ulong HS, uint n_head, uint n_kv_head, ulong n_strips,
                                       const global data *dy, ulong dy_at, const global data *x, ulong x_at,
                                       const global float *wq, ulong wq_at, const global float *wk, ulong wk_at,
                                       const global float *rstd, ulong rstd_at, global data *dx, ulong dx_at,
                                       global float *partial, ulong partial_at) {
    ROW_SHARED(shared);
    const ulong part = MY_ROW;
    if (part >= 3 * n_strips) {
        return;
    }
    const bool is_q = part < n_strips;
    const bool is_v = part >= 2 * n_strips;
    const uint first_head = is_q ? 0 : is_v ? n_head + n_kv_head : n_head;
    const uint n_here = is_q ? n_head : n_kv_head;
    const global float *w = is_q ? wq + wq_at : wk + wk_at;
    global float *sums = partial + partial_at + row_start(part, HS);
    if (is_v) { // with a loop of its own: in one with row_sum all go the same way
        for (ulong i = part % n_strips; i < N * n_here; i += n_strips) {
            const ulong row = row_start(i / n_here * (n_head + 2 * n_kv_head) + first_head + i % n_here, HS);
            FOR_VECS(k, c, HS) {
                store_data_part(load_data_part(dy + dy_at + row + c, HS - c, 0.0f), dx + dx_at + row + c, HS - c);
            }
        }
        return;
    }
    vec dw[KEPT];
    FOR_VECS(k, c, HS) {
        dw[KEPT_AT(k)] = to_vec(0.0f);
        if (ROW_VECS == 0) {
            store_part(to_vec(0.0f), sums + c, HS - c);
        }
    }
    for (ulong i = part % n_strips; i < N * n_here; i += n_strips) {
        const ulong n = i / n_here;
        const uint h = first_head + (uint)(i % n_here);
        const ulong row = row_start(n * (n_head + 2 * n_kv_head) + h, HS);
        const global data *dy_row = dy + dy_at + row; // may be dx
        const global data *x_row = x + x_at + row;
        global data *dx_row = dx + dx_at + row;
        const float inverse = rstd[rstd_at + n * (n_head + n_kv_head) + h];
        vec g[KEPT];
        vec xh[KEPT];
        vec sum_g_xh = to_vec(0.0f);
        FOR_VECS(k, c, HS) {
            const vec dy_here = load_data_part(dy_row + c, HS - c, 0.0f);
            g[KEPT_AT(k)] = dy_here * load_part(w + c, HS - c, 0.0f);
            xh[KEPT_AT(k)] = load_data_part(x_row + c, HS - c, 0.0f) * inverse;
            sum_g_xh += g[KEPT_AT(k)] * xh[KEPT_AT(k)];
            if (ROW_VECS > 0) {
                dw[KEPT_AT(k)] += dy_here * xh[KEPT_AT(k)];
            } else {
                store_part(load_part(sums + c, HS - c, 0.0f) + dy_here * xh[KEPT_AT(k)], sums + c, HS - c);
            }
        }
        const float mean_g_xh = row_sum(sum_of(sum_g_xh), shared) / HS;
        FOR_VECS(k, c, HS) {
            if (ROW_VECS == 0) {
                g[0] = load_data_part(dy_row + c, HS - c, 0.0f) * load_part(w + c, HS - c, 0.0f);
                xh[0] = load_data_part(x_row + c, HS - c, 0.0f) * inverse;
            }
            store_data_part(inverse * (g[KEPT_AT(k)] - xh[KEPT_AT(k)] * mean_g_xh), dx_row + c, HS - c);
        }
    }
    if (ROW_VECS > 0) {
        FOR_VECS(k, c, HS) { store_part(dw[KEPT_AT(k)], sums + c, HS - c); }
    }
}
