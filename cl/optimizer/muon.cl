// muon.cl: the steps of Muon (Jordan et al. 2024) except its matrix products. A tall matrix goes through them
// transposed.
//
//   muon_momentum   m = momentum m + (1 - momentum) g;  u = (1 - momentum) g + momentum m, or m      g, m, u (n)
//   normalize       x = u / max(sqrt(sqnorm), 1e-7)               u (R,C); x (R,C), or (C,R) transposed
//   combine         y = a x + b z                                 x, y, z (n); y may be x
//   muon_update     p = (1 - lr wd) p - lr sqrt(max(1, R/C)) x    p (R,C); x as normalize's; with `copied`, w = p
//
// A negative clip skips the step: m and p stay.
//
// A work-item computes one vec; of a transposed matrix, one element after the other:
//
//   u, p  row r  | . . |item|         x  | . |   | . |
//                                        | . |   i   |     rows c, c+1, ..: column r
//                                        | . |   t   |
enum { LR_M = 0, WEIGHT_DECAY_M = 4, MOMENTUM_M = 9, NESTEROV_M }; // of enum sm_hyper

kernel void muon_momentum(ulong n, IN(float, g), IN(float, hyper), IN(float, clip), OUT(float, m), OUT(float, u)) {
    const ulong i = get_global_id(0) * (ulong)VECTOR;
    if (i >= n || clip[clip_at] < 0) {
        return;
    }
    const float momentum = hyper[hyper_at + MOMENTUM_M];
    const vec fresh = (1.0f - momentum) * clip[clip_at] * load_part(g + g_at + i, n - i, 0.0f);
    const vec mean = momentum * load_part(m + m_at + i, n - i, 0.0f) + fresh;
    store_part(mean, m + m_at + i, n - i);
    const bool nesterov = hyper[hyper_at + NESTEROV_M] != 0;
    store_part(nesterov ? fresh + momentum * mean : mean, u + u_at + i, n - i);
}

kernel void normalize_update(ulong R, ulong C, uint transposed, IN(float, u), IN(float, sqnorm), OUT(data, x)) {
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong r = get_global_id(1);
    if (c >= C || r >= R) {
        return;
    }
    const float scale = 1.0f / fmax(sqrt(sqnorm[sqnorm_at]), 1e-7f);
    const ulong i = row_start(r, C) + c;
    if (!transposed) {
        store_data_part(scale * load_part(u + u_at + i, C - c, 0.0f), x + x_at + i, C - c);
        return;
    }
    for (ulong k = 0; k < VECTOR && c + k < C; k++) {
        x[x_at + row_start(c + k, R) + r] = narrow(scale * u[u_at + i + k]);
    }
}

kernel void combine(ulong n, float a, float b, IN(data, x), IN(data, z), OUT(data, y)) {
    const ulong i = get_global_id(0) * (ulong)VECTOR;
    if (i < n) {
        const vec sum = a * load_data_part(x + x_at + i, n - i, 0.0f) + b * load_data_part(z + z_at + i, n - i, 0.0f);
        store_data_part(sum, y + y_at + i, n - i);
    }
}

kernel void muon_update(ulong R, ulong C, uint transposed, uint decays, IN(data, x), IN(float, hyper), IN(float, clip),
                        OUT(float, p), uint copied, OUT(data, w)) {
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong r = get_global_id(1);
    if (c >= C || r >= R || clip[clip_at] < 0) {
        return;
    }
    const float lr = hyper[hyper_at + LR_M];
    const float keep = 1.0f - lr * hyper[hyper_at + WEIGHT_DECAY_M] * decays;
    const float step = lr * sqrt(fmax(1.0f, (float)R / (float)C));
    const ulong i = row_start(r, C) + c;
    if (!transposed) {
        const vec moved = keep * load_part(p + p_at + i, C - c, 0.0f) - step * load_data_part(x + x_at + i, C - c, 0.0f);
        store_part(moved, p + p_at + i, C - c);
        if (copied) {
            store_data_part(moved, w + w_at + i, C - c);
        }
        return;
    }
    for (ulong k = 0; k < VECTOR && c + k < C; k++) {
        const float moved = keep * p[p_at + i + k] - step * widen(x[x_at + row_start(c + k, R) + r]);
        p[p_at + i + k] = moved;
        if (copied) {
            w[w_at + i + k] = narrow(moved);
        }
    }
}
