// embedding.cl: from token ids to vectors: a row of wte for the token, plus a row of wpe for its
// position (Radford et al. 2018, section 3.1), unless positions are added elsewhere (rope.cl).
//
//   x[b,t,:] = wte[token[b,t],:] + wpe[t - starts[b,t],:]
//   dwte[token[b,t],:] += dx[b,t,:];  dwpe[t - starts[b,t],:] += dx[b,t,:]
//
// token (B,T) = (N); wte, dwte (V,C); wpe, dwpe (at least T,C); x, dx (B,T,C). A work-item handles one vec
// of a row. dwte without atomics, so that its sums have one order: tokens are sorted by id, those of one id in
// ascending order, and rows are added up in that order, ROWS_OF_IDS to an item; what it has of a run of one id that
// is not its own alone, others add up. They are sorted in blocks of SORT_BLOCK; then each counts how many of every
// other block come before it.
//
//   token                 7   3   7 | 5   3   7       (blocks of 3)
//   sorted in blocks      3   7   7 | 3   5   7       at   1   0   2 | 4   3   5
//   order                 3   3   5   7   7   7       at   1   4   3   0   2   5
// Without `positions` wpe is not read; without `documents` starts (N) is not read, and positions count from the row's
// beginning. With documents dwpe is made as dwte is, of positions in the place of ids.
kernel void embedding_forward(uint positions, uint documents, ulong N, ulong T, ulong C, IN(int, token),
                              IN(data, wte), IN(data, wpe), IN(int, starts), OUT(data, x)) {
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong n = get_global_id(1);
    if (c < C && n < N) {
        vec sum = load_data_part(wte + wte_at + row_start(token[token_at + n], C) + c, C - c, 0.0f);
        if (positions) {
            const ulong t = n % T - (documents ? (ulong)starts[starts_at + n] : 0);
            sum += load_data_part(wpe + wpe_at + row_start(t, C) + c, C - c, 0.0f);
        }
        store_data_part(sum, x + x_at + row_start(n, C) + c, C - c);
    }
}

// The ids of dwpe: each token's position in its document.
kernel void embedding_backward_positions(ulong N, ulong T, IN(int, starts), OUT(int, position)) {
    const ulong n = get_global_id(0);
    if (n < N) {
        position[position_at + n] = (int)(n % T) - starts[starts_at + n];
    }
}

#define SORT_BLOCK  256
#define MERGE_ITEMS 128
#define ROWS_OF_IDS 16

// Ids, sorted block by block, and after them, from N on, the place of each.
kernel void embedding_backward_sort(ulong N, IN(int, token), OUT(int, sorted)) {
    local int ids[SORT_BLOCK];
    const ulong first = get_group_id(0) * (ulong)SORT_BLOCK;
    const uint n_here = (uint)min(N - first, (ulong)SORT_BLOCK);
    for (uint i = (uint)get_local_id(0); i < n_here; i += (uint)get_local_size(0)) {
        ids[i] = token[token_at + first + i];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = (uint)get_local_id(0); i < n_here; i += (uint)get_local_size(0)) {
        const int id = ids[i];
        uint rank = 0;
        for (uint k = 0; k < n_here; k++) {
            rank += ids[k] < (k < i ? id + 1 : id) ? 1 : 0;
        }
        sorted[sorted_at + first + rank] = id;
        sorted[sorted_at + N + first + rank] = (int)(first + i);
    }
}

// Counts the ids below `bound` among n ids in ascending order, n up to SORT_BLOCK.
static inline uint count_below(const global int *ids, uint n, int bound) {
    uint count = 0;
    for (uint step = SORT_BLOCK; step > 0; step /= 2) {
        count += count + step <= n && ids[count + step - 1] < bound ? step : 0;
    }
    return count;
}

// Lanes share the blocks. order: as sorted, but all of it.
kernel void embedding_backward_merge(ulong N, IN(int, sorted), OUT(int, order)) {
    local uint below[MERGE_ITEMS];
    const ulong n = get_global_id(0);
    const uint column = (uint)get_local_id(0);
    const global int *ids = sorted + sorted_at;
    const int id = n < N ? ids[n] : 0;
    const ulong own = n / SORT_BLOCK;
    uint count = 0;
    for (ulong block = MY_LANE; n < N && block * SORT_BLOCK < N; block += N_LANES) {
        const ulong first = block * SORT_BLOCK;
        if (block != own) {
            count += count_below(ids + first, (uint)min(N - first, (ulong)SORT_BLOCK), block < own ? id + 1 : id);
        }
    }
    below[MY_LANE * get_local_size(0) + column] = count;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (MY_LANE == 0 && n < N) {
        ulong rank = n - own * SORT_BLOCK;
        for (uint lane = 0; lane < N_LANES; lane++) {
            rank += below[lane * get_local_size(0) + column];
        }
        order[order_at + rank] = id;
        order[order_at + N + rank] = ids[N + n];
    }
}

// ROWS_OF_IDS rows in that order at a time. A run of one id that lies within them is added to its row of dwte; the sums
// of one that began before them, and of one that continues after them, are partial (windows, 2, C).
kernel void embedding_backward_rows(ulong N, ulong C, IN(int, order), IN(data, dx), OUT(float, dwte),
                                    OUT(float, partial)) {
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong window = get_global_id(1);
    const ulong first = window * ROWS_OF_IDS;
    const global int *ids = order + order_at;
    if (c >= C || first >= N) {
        return;
    }
    vec x[ROWS_OF_IDS];
    UNROLLED
    for (uint k = 0; k < ROWS_OF_IDS; k++) {
        const ulong row = (ulong)ids[N + min(first + k, N - 1)];
        x[k] = load_data_part(dx + dx_at + row_start(row, C) + c, C - c, 0.0f);
    }
    global float *began_before = partial + partial_at + row_start(2 * window, C) + c;
    global float *goes_on = began_before + C;
    bool is_own = first == 0 || ids[first - 1] != ids[first];
    vec sum = to_vec(0.0f);
    UNROLLED
    for (uint k = 0; k < ROWS_OF_IDS; k++) {
        const ulong n = first + k;
        if (n < N) {
            const bool is_last = n + 1 == N || ids[n + 1] != ids[n];
            sum += x[k];
            if (is_last || k == ROWS_OF_IDS - 1) {
                global float *row = dwte + dwte_at + row_start((ulong)ids[n], C) + c;
                if (!is_own) {
                    store_part(sum, began_before, C - c);
                } else if (!is_last) {
                    store_part(sum, goes_on, C - c);
                } else {
                    store_part(load_part(row, C - c, 0.0f) + sum, row, C - c);
                }
                sum = to_vec(0.0f);
                is_own = true;
            }
        }
    }
}

// Counts the windows, from the second of a run on, that begin with its id. If a later window begins with the id, all
// windows between have it.
static inline ulong count_windows_of_run(const global int *ids, ulong N, ulong second) {
    const int id = ids[second];
    ulong n = 1;
    ulong step = 1;
    for (; second + (n + step - 1) * ROWS_OF_IDS < N && ids[second + (n + step - 1) * ROWS_OF_IDS] == id; step *= 2) {
        n += step;
    }
    for (; step > 0; step /= 2) {
        const ulong last = second + (n + step - 1) * ROWS_OF_IDS;
        n += last < N && ids[last] == id ? step : 0;
    }
    return n;
}

// A run that continues after its first window: lanes share the sums of its windows.
kernel void embedding_backward_runs(ulong N, ulong C, IN(int, order), IN(float, partial), OUT(float, dwte)) {
    LANES_SHARED(shared);
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong window = get_group_id(1);
    const ulong first = window * ROWS_OF_IDS;
    const ulong next = first + ROWS_OF_IDS;
    const global int *ids = order + order_at;
    const bool begins_run = next < N && ids[next] == ids[next - 1] && (first == 0 || ids[first - 1] != ids[next]);
    vec sum = to_vec(0.0f);
    if (begins_run && c < C) {
        const global float *at = partial + partial_at + row_start(2 * window + 2, C) + c;
        const ulong n_windows = count_windows_of_run(ids, N, next);
        sum = add_rows(at + row_start(2 * MY_LANE, C), 2 * N_LANES * C, LANE_ROWS(n_windows), C - c);
        sum += MY_LANE == 0 ? load_part(at - C, C - c, 0.0f) : to_vec(0.0f);
    }
    sum = lanes_sum(sum, shared);
    if (begins_run && c < C && MY_LANE == 0) {
        global float *row = dwte + dwte_at + row_start((ulong)ids[next], C) + c;
        store_part(load_part(row, C - c, 0.0f) + sum, row, C - c);
    }
}

kernel void embedding_backward_wpe(ulong B, ulong T, ulong C, IN(data, dx), OUT(float, dwpe)) {
    const ulong c = get_global_id(0) * (ulong)VECTOR;
    const ulong t = get_global_id(1);
    if (c >= C || t >= T) {
        return;
    }
    const vec sum = add_data_rows(dx + dx_at + row_start(t, C) + c, T * C, B, C - c);
    global float *row = dwpe + dwpe_at + row_start(t, C) + c;
    store_part(load_part(row, C - c, 0.0f) + sum, row, C - c);
}
