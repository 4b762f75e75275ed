// head_rmsnorm.cl: root mean square normalisation of each head of queries and keys; values stay.
//
//   rstd = 1/sqrt(sum_i x^2 / HS + eps);  y = x rstd w
//   xh = x rstd;  g = dy w;  dx = rstd (g - xh sum_i g xh / HS);  dw += sum dy xh
//
// x, y, dy, dx (N,(NH+2NKV)HS): N (NH + 2 NKV) rows of HS, a head each; wq, wk, dwq, dwk (HS); rstd (N,NH+NKV). A row
// is shared out to ROW_ITEMS work-items, and a work-group has GROUP_ROWS of them at a time. All items of a group go the
// same way: where there are no more rows, the first is read once more and nothing is stored.

kernel void head_rmsnorm_forward(ulong N, ulong HS, uint n_head, uint n_kv_head, float eps, IN(data, x), IN(float, wq),
                                 IN(float, wk), OUT(data, y), OUT(float, rstd)) {
    ROW_SHARED(shared);
    const uint n_heads = n_head + 2 * n_kv_head;
    const bool is_row = MY_ROW < N * n_heads;
    const ulong row = is_row ? MY_ROW : 0;
    const ulong n = row / n_heads;
    const uint h = (uint)(row % n_heads);
    const bool is_v = h >= n_head + n_kv_head;
    const global float *w = h < n_head ? wq + wq_at : wk + wk_at;
    const global data *from = x + x_at + row_start(row, HS);
    global data *to = y + y_at + row_start(row, HS);
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
        if (is_row) {
            store_data_part(is_v ? here : here * inverse * load_part(w + c, HS - c, 0.0f), to + c, HS - c);
        }
    }
    if (MY_ITEM == 0 && is_row && !is_v) {
        rstd[rstd_at + n * (n_head + n_kv_head) + h] = inverse;
    }
}

// The sums of a work-group's rows in registers, of this item's column: the first row's items get them.
#if GROUP_ROWS > 1
#define SUMS_SHARED(shared) local vec shared[GROUP_ROWS * ROW_ITEMS]
static inline vec group_sum(vec mine, local vec *shared) {
    const uint item = (uint)get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    shared[item] = mine;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = item + ROW_ITEMS; item < ROW_ITEMS && i < GROUP_ROWS * ROW_ITEMS; i += ROW_ITEMS) {
        mine += shared[i];
    }
    return mine;
}
#else
#define SUMS_SHARED(shared)
#define group_sum(mine, shared) (mine)
#endif

// A strip has every n_strips-th row. Sums for dwq and dwk are in registers or, if a row is not, in partial
// (2,n_strips/GROUP_ROWS,HS), which holds the groups' sums in the end.
kernel void head_rmsnorm_backward_rows(ulong N, ulong HS, uint n_head, uint n_kv_head, ulong n_strips, IN(data, dy),
                                       IN(data, x), IN(float, wq), IN(float, wk), IN(float, rstd), OUT(data, dx),
                                       OUT(float, partial)) {
    ROW_SHARED(shared);
    SUMS_SHARED(sums_shared);
    const uint n_heads = n_head + 2 * n_kv_head;
    const ulong n_rows = N * n_heads;
    const ulong strip = MY_ROW;
    if (GROUP_ROWS == 1 && strip >= n_strips) {
        return;
    }
    global float *sums_q = partial + partial_at + row_start(strip / GROUP_ROWS, HS);
    global float *sums_k = sums_q + row_start(n_strips / GROUP_ROWS, HS);
    vec dwq[KEPT];
    vec dwk[KEPT];
    for (uint k = 0; k < KEPT; k++) {
        dwq[k] = to_vec(0.0f);
        dwk[k] = to_vec(0.0f);
    }
    if (ROW_VECS == 0) {
        FOR_VECS(k, c, HS) {
            store_part(dwq[0], sums_q + c, HS - c);
            store_part(dwk[0], sums_k + c, HS - c);
        }
    }
    for (ulong first = 0; first < n_rows; first += n_strips) {
        const bool is_row = first + strip < n_rows;
        const ulong i = is_row ? first + strip : 0;
        const ulong n = i / n_heads;
        const uint h = (uint)(i % n_heads);
        const bool is_q = h < n_head;
        const bool is_v = h >= n_head + n_kv_head;
        const global float *w = is_q ? wq + wq_at : wk + wk_at;
        global float *sums = is_q ? sums_q : sums_k;
        const global data *dy_row = dy + dy_at + row_start(i, HS); // may be dx
        const global data *x_row = x + x_at + row_start(i, HS);
        global data *dx_row = dx + dx_at + row_start(i, HS);
        const float inverse = is_v ? 0.0f : rstd[rstd_at + n * (n_head + n_kv_head) + h]; // so that x does not count
        vec dy_kept[KEPT];
        vec xh[KEPT];
        vec sum_g_xh = to_vec(0.0f);
        FOR_VECS(k, c, HS) {
            const vec dy_here = load_data_part(dy_row + c, HS - c, 0.0f);
            const vec xh_here = is_v ? to_vec(0.0f) : load_data_part(x_row + c, HS - c, 0.0f) * inverse;
            const vec dw_here = is_row ? dy_here * xh_here : to_vec(0.0f);
            dy_kept[KEPT_AT(k)] = dy_here;
            xh[KEPT_AT(k)] = xh_here;
            sum_g_xh += dy_here * load_part(w + c, HS - c, 0.0f) * xh_here;
            if (ROW_VECS > 0) {
                dwq[KEPT_AT(k)] += is_q ? dw_here : to_vec(0.0f);
                dwk[KEPT_AT(k)] += is_q ? to_vec(0.0f) : dw_here;
            } else if (!is_v) {
                store_part(load_part(sums + c, HS - c, 0.0f) + dw_here, sums + c, HS - c);
            }
        }
        const float mean_g_xh = row_sum(sum_of(sum_g_xh), shared) / HS;
        FOR_VECS(k, c, HS) {
            if (ROW_VECS == 0) {
                dy_kept[0] = load_data_part(dy_row + c, HS - c, 0.0f);
                xh[0] = load_data_part(x_row + c, HS - c, 0.0f) * inverse;
            }
            const vec g = dy_kept[KEPT_AT(k)] * load_part(w + c, HS - c, 0.0f);
            const vec d = is_v ? dy_kept[KEPT_AT(k)] : inverse * (g - xh[KEPT_AT(k)] * mean_g_xh);
            if (is_row) {
                store_data_part(d, dx_row + c, HS - c);
            }
        }
    }
#if ROW_VECS > 0
    UNROLLED
    for (uint k = 0; k < ROW_VECS; k++) {
        const ulong c = (k * ROW_ITEMS + MY_ITEM) * (ulong)VECTOR;
        const vec of_q = group_sum(dwq[k], sums_shared);
        const vec of_k = group_sum(dwk[k], sums_shared);
        if (c < HS && get_local_id(0) < ROW_ITEMS) {
            store_part(of_q, sums_q + c, HS - c);
            store_part(of_k, sums_k + c, HS - c);
        }
    }
#endif
}
