// embedding.cl: from token ids to vectors: a row of wte for the token, plus a row of wpe for its
// position (Radford et al. 2018, section 3.1), unless positions are added elsewhere (rope.cl).
//
//   x[b,t,:] = wte[token[b,t],:] + wpe[t,:]
//   dwte[token[b,t],:] += dx[b,t,:];  dwpe[t,:] += sum_b dx[b,t,:]
//
// token (B,T) = (N); wte, dwte (V,C); wpe, dwpe (at least T,C); x, dx (B,T,C). A work-item handles one vec
// of a row. dwte without atomics, so that its sums have one order: tokens with the same id form a chain
// in ascending order, and the items of its first token add up the chain's rows.
//
//   token   7   3   7   5   3   7         chain of 7: 0 -> 2 -> 5, gathered by the items of token 0
//   next    2   4   5  -1  -1  -1
//   first   1   1   0   1   0   0
// Without `positions`, wpe is not looked at.
kernel void embedding_forward(uint positions, ulong N, ulong T, ulong C, const global int *token, ulong token_at,
                              const global float *wte, ulong wte_at, const global float *wpe, ulong wpe_at,
                              global data *x, ulong x_at) {
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong n = get_global_id(1);
    if (c < C && n < N) {
        vec sum = load_part(wte + wte_at + row_start(token[token_at + n], C) + c, C - c, 0.0f);
        if (positions) {
            sum += load_part(wpe + wpe_at + row_start(n % T, C) + c, C - c, 0.0f);
        }
        store_data_part(sum, x + x_at + row_start(n, C) + c, C - c);
    }
}

// chain (N,2): the next token with the same id, or -1; and 1 for the first of its id.
kernel void embedding_backward_chains(ulong N, const global int *token, ulong token_at, global int *chain,
                                      ulong chain_at) {
    const ulong n = get_global_id(0);
    if (n >= N) {
        return;
    }
    const global int *ids = token + token_at;
    ulong next = n + 1;
    while (next < N && ids[next] != ids[n]) {
        next++;
    }
    ulong before = n;
    while (before > 0 && ids[before - 1] != ids[n]) {
        before--;
    }
    chain[chain_at + 2 * n] = next < N ? (int)next : -1;
    chain[chain_at + 2 * n + 1] = before == 0;
}

kernel void embedding_backward_wte(ulong N, ulong C, const global int *token, ulong token_at, const global int *chain,
                                   ulong chain_at, const global data *dx, ulong dx_at, global float *dwte,
                                   ulong dwte_at) {
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong n = get_global_id(1);
    if (c >= C || n >= N || !chain[chain_at + 2 * n + 1]) {
        return;
    }
    vec sum = to_vec(0.0f);
    for (int m = (int)n; m >= 0; m = chain[chain_at + 2 * (ulong)m]) {
        sum += load_data_part(dx + dx_at + row_start((ulong)m, C) + c, C - c, 0.0f);
    }
    global float *row = dwte + dwte_at + row_start(token[token_at + n], C) + c;
    store_part(load_part(row, C - c, 0.0f) + sum, row, C - c);
}

kernel void embedding_backward_wpe(ulong B, ulong T, ulong C, const global data *dx, ulong dx_at, global float *dwpe,
                                   ulong dwpe_at) {
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong t = get_global_id(1);
    if (c >= C || t >= T) {
        return;
    }
    vec sum = to_vec(0.0f);
    for (ulong b = 0; b < B; b++) {
        sum += load_data_part(dx + dx_at + row_start(b * T + t, C) + c, C - c, 0.0f);
    }
    global float *row = dwpe + dwpe_at + row_start(t, C) + c;
    store_part(load_part(row, C - c, 0.0f) + sum, row, C - c);
}
