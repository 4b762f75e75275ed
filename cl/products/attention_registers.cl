// attention_registers.cl: causal multi-head attention (Vaswani et al. 2017, equation 1) for processors. T x T is never
// stored, unless the op asks for the weights (Dao et al. 2022).
//
//   s = q k^T / sqrt(HS) over keys s <= t;  lse = log sum exp(s);  att = exp(s - lse);  y = dropout(att) v
//   D = sum_s att dropout(dy v^T) = sum_c dy y;  ds = att (dropout(dy v^T) - D)
//   dv = dropout(att)^T dy;  dq = ds k / sqrt(HS);  dk = ds^T q / sqrt(HS)
//
// A row of qkv (B,T,(NH+2NKV)HS) holds NH heads of q, NKV of k and NKV of v, of one token; NH/NKV heads of q, side by
// side, share one of k and v. y, dy (B,T,C); lse, D (B,NH,T); att (B,NH,T,T), or blocks of rows of it; `kept` is att or
// lse. HS is fixed when the kernel is compiled. With documents (starts (B,T)) row t's keys begin with starts[t].
//
// A work-item owns LANES rows of a head (forward and dq) or LANES keys (dk and dv), one in each lane of its vecs, and
// keeps what is theirs transposed: a channel of all of them side by side. It walks the keys that they see, or the rows
// that see them, a block at a time. So each product is a broadcast element of the block times vecs, in tiles of
// registers, and maxima and sums over keys are lane by lane.
//
//                        rows of the item, in lanes
//                 key 0  x x x x x x x x
//   block of      key 1    x x x x x x x      multiply_block:  scores (keys, lanes) = k (keys, HS) q^T (HS, lanes)
//   keys          key 2      x x x x x x      add_block:       y^T (HS, lanes) += v^T (HS, keys) weights (keys, lanes)
//                 key 3        x x x x x

#ifndef HS
#define HS 64 // channels of a head
#endif
#ifndef LANE_VECS
#define LANE_VECS 2
#endif
#define LANES     (LANE_VECS * VECTOR)
#define BLOCK     32 // keys, or rows, at a time
#if VECTOR == 16
#define TILE 8 // rows of LANE_VECS vecs that stay in registers
#elif VECTOR > 1
#define TILE 4
#else
#define TILE 1
#endif
#define CHANNELS ((HS + VECTOR - 1) / VECTOR * VECTOR) // HS, filled up with zeros: a multiple of TILE

// PoCL's compiler gives half of a register's width to functions that it does not make part of the kernel.
#define inlined static inline __attribute__((always_inline))

// A head of q, and its head of k and v.
typedef struct {
    ulong T, C, ld;           // tokens; elements of a row of y, and of qkv
    ulong head, row;          // b NH + h; of [b,h,0] among rows
    ulong q, k, v, y;         // where its channels of token 0 begin in qkv and in y
    const global int *starts; // (T), of its sequence
} place;

static inline place find_place(ulong head, ulong T, ulong NH, ulong NKV, const global int *starts) {
    const ulong b = head / NH;
    const ulong h = head % NH;
    place p;
    p.T = T;
    p.C = NH * HS;
    p.ld = (NH + 2 * NKV) * HS;
    p.head = head;
    p.row = row_start(head, T);
    p.starts = starts + row_start(b, T);
    p.y = row_start(b * T, p.C) + h * HS;
    p.q = row_start(b * T, p.ld) + h * HS;
    p.k = row_start(b * T, p.ld) + (NH + h / (NH / NKV)) * HS;
    p.v = p.k + NKV * HS;
    return p;
}

// --- what an item keeps: (channels, lanes) ---------------------------------------------------------

// packed: n heads, ld elements apart, times factor. Lanes from n on repeat the last one.
inlined void pack_heads(const global data *from, ulong ld, uint n, float factor,
                        vec packed[CHANNELS * LANE_VECS]) {
    for (uint v = 0; v < LANE_VECS; v++) {
        for (uint c = 0; c < CHANNELS; c += VECTOR) {
            vec x[VECTOR];
            UNROLLED for (uint i = 0; i < VECTOR; i++) {
                const uint lane = v * VECTOR + i < n ? v * VECTOR + i : n - 1;
                x[i] = factor * load_data_part(from + row_start(lane, ld) + c, HS - c, 0.0f);
            }
            transpose(x);
            UNROLLED for (uint i = 0; i < VECTOR; i++) {
                packed[(c + i) * LANE_VECS + v] = x[i];
            }
        }
    }
}

// The first n lanes, times their factors, to heads that are ld elements apart.
inlined void unpack_heads(const vec packed[CHANNELS * LANE_VECS], const vec factors[LANE_VECS], ulong ld, uint n,
                          global data *to) {
    for (uint v = 0; v < LANE_VECS; v++) {
        for (uint c = 0; c < CHANNELS; c += VECTOR) {
            vec x[VECTOR];
            UNROLLED for (uint i = 0; i < VECTOR; i++) {
                x[i] = factors[v] * packed[(c + i) * LANE_VECS + v];
            }
            transpose(x);
            UNROLLED for (uint i = 0; i < VECTOR; i++) {
                if (v * VECTOR + i < n) {
                    store_data_part(x[i], to + row_start(v * VECTOR + i, ld) + c, HS - c);
                }
            }
        }
    }
}

static inline void clear(vec x[CHANNELS * LANE_VECS]) {
    for (uint i = 0; i < CHANNELS * LANE_VECS; i++) {
        x[i] = to_vec(0.0f);
    }
}

static inline void fill_lanes(float value, vec x[LANE_VECS]) {
    for (uint v = 0; v < LANE_VECS; v++) {
        x[v] = to_vec(value);
    }
}

// A number of each of the first n lanes.
static inline void load_lanes(const global float *from, uint n, vec x[LANE_VECS]) {
    for (uint v = 0; v < LANE_VECS; v++) {
        x[v] = v * VECTOR < n ? load_part(from + v * VECTOR, n - v * VECTOR, 0.0f) : to_vec(0.0f);
    }
}

static inline void store_lanes(const vec x[LANE_VECS], uint n, global float *to) {
    for (uint v = 0; v * VECTOR < n; v++) {
        store_part(x[v], to + v * VECTOR, n - v * VECTOR);
    }
}

// --- blocks, and their products ---------------------------------------------------------------------

// block (n, CHANNELS) from n heads, ld elements apart; rows of zeros up to a multiple of TILE.
inlined void load_block(const global data *from, ulong ld, uint n, float block[BLOCK * CHANNELS]) {
    for (uint j = 0; j < (n + TILE - 1) / TILE * TILE; j++) {
        for (uint c = 0; c < CHANNELS; c += VECTOR) {
            const vec x = j < n ? load_data_part(from + row_start(j, ld) + c, HS - c, 0.0f) : to_vec(0.0f);
            store(x, block + j * CHANNELS + c);
        }
    }
}

// sum (TILE, lanes) += a b; a (TILE, K): rows row_step, columns k_step elements apart; b (K, lanes)
inlined void multiply_tile(const float *a, uint row_step, uint k_step, const vec *b, uint K,
                           vec sum[TILE][LANE_VECS]) {
#pragma unroll 2
    for (uint k = 0; k < K; k++) {
        UNROLLED for (uint r = 0; r < TILE; r++) {
            UNROLLED for (uint v = 0; v < LANE_VECS; v++) {
                sum[r][v] = multiply_add(to_vec(a[r * row_step]), b[v], sum[r][v]);
            }
        }
        a += k_step;
        b += LANE_VECS;
    }
}

// out (n, lanes) = block (n, channels) packed (channels, lanes)
inlined void multiply_block(const float block[BLOCK * CHANNELS], const vec packed[CHANNELS * LANE_VECS], uint n,
                            vec out[BLOCK * LANE_VECS]) {
    for (uint j = 0; j < n; j += TILE) {
        vec sum[TILE][LANE_VECS];
        UNROLLED for (uint i = 0; i < TILE * LANE_VECS; i++) {
            sum[i / LANE_VECS][i % LANE_VECS] = to_vec(0.0f);
        }
        multiply_tile(block + j * CHANNELS, CHANNELS, 1, packed, HS, sum);
        UNROLLED for (uint i = 0; i < TILE * LANE_VECS; i++) {
            out[j * LANE_VECS + i] = sum[i / LANE_VECS][i % LANE_VECS];
        }
    }
}

// sums (channels, lanes) += block^T (channels, n) weights (n, lanes)
inlined void add_block(const float block[BLOCK * CHANNELS], const vec weights[BLOCK * LANE_VECS], uint n,
                       vec sums[CHANNELS * LANE_VECS]) {
    for (uint c = 0; c < CHANNELS; c += TILE) {
        vec sum[TILE][LANE_VECS];
        UNROLLED for (uint i = 0; i < TILE * LANE_VECS; i++) {
            sum[i / LANE_VECS][i % LANE_VECS] = sums[c * LANE_VECS + i];
        }
        multiply_tile(block + c, 1, CHANNELS, weights, n, sum);
        UNROLLED for (uint i = 0; i < TILE * LANE_VECS; i++) {
            sums[c * LANE_VECS + i] = sum[i / LANE_VECS][i % LANE_VECS];
        }
    }
}

// --- which row sees which key, and weights ------------------------------------------------------------

// first, first + 1, ..
static inline ivec count_from(ulong first) { return (int)first + vec_index; }

// The first keys of rows t, t + 1, ..; rows from T on have the last one's.
static inline ivec first_keys(const place *p, ulong t) {
    float x[VECTOR]; // the numbers' bits
    for (uint i = 0; i < VECTOR; i++) {
        x[i] = as_float((int)first_key_of(p->starts, min(t + i, p->T - 1)));
    }
    return as_ivec(load(x));
}

// scores (n, lanes) of keys from s on and rows from t on: -INFINITY where a row does not see a key.
inlined void hide_keys(const place *p, ulong s, uint n, ulong t, vec scores[BLOCK * LANE_VECS]) {
    if (s + n <= t + 1 && first_key_of(p->starts, min(t + LANES, p->T) - 1) <= s) {
        return;
    }
    for (uint v = 0; v < LANE_VECS; v++) {
        const ivec row = count_from(t + v * VECTOR);
        const ivec start = first_keys(p, t + v * VECTOR);
        for (uint j = 0; j < n; j++) {
            const int key = (int)(s + j);
            vec *score = scores + j * LANE_VECS + v;
            *score = start <= key && key <= row ? *score : to_vec(-INFINITY);
        }
    }
}

// scores (n, lanes) of rows from t on and keys from s on: -INFINITY where a row does not see a key.
inlined void hide_rows(const place *p, ulong t, uint n, ulong s, vec scores[BLOCK * LANE_VECS]) {
    if (s + LANES <= t + 1 && first_key_of(p->starts, t + n - 1) <= s) {
        return;
    }
    for (uint v = 0; v < LANE_VECS; v++) {
        const ivec key = count_from(s + v * VECTOR);
        for (uint j = 0; j < n; j++) {
            const int start = (int)first_key_of(p->starts, t + j);
            vec *score = scores + j * LANE_VECS + v;
            *score = start <= key && key <= (int)(t + j) ? *score : to_vec(-INFINITY);
        }
    }
}

// Dropout's factors of elements e, e + step, .. of the weights.
static inline vec keep(const mask *m, ulong e, ulong step) {
    if (m->threshold == 0) {
        return to_vec(1.0f);
    }
    float x[VECTOR];
    for (uint i = 0; i < VECTOR; i++) {
        x[i] = keep_factor(m->key, m->step, e + i * step, m->threshold, m->scale);
    }
    return load(x);
}

// The stored weight of row t and key s; 0 where there is none.
static inline float stored_weight(const place *p, const global data *att, ulong t, ulong s) {
    return t < p->T && s <= t ? widen(att[(p->head * p->T + t) * p->T + s]) : 0.0f;
}

// weights (n, lanes): the stored ones of keys from s on and rows from t on, or, with rows_down, the reverse.
static inline void load_weights(const place *p, const global data *att, bool rows_down, ulong t, ulong s, uint n,
                                vec weights[BLOCK * LANE_VECS]) {
    for (uint i = 0; i < n * LANE_VECS; i++) {
        const ulong down = i / LANE_VECS;
        const ulong across = i % LANE_VECS * VECTOR;
        float x[VECTOR];
        for (uint lane = 0; lane < VECTOR; lane++) {
            x[lane] = rows_down ? stored_weight(p, att, t + down, s + across + lane)
                                : stored_weight(p, att, t + across + lane, s + down);
        }
        weights[i] = load(x);
    }
}

// Stores the weights of n_rows rows from t on; q: theirs; log_sum: of their scores.
static inline void store_weights(const place *p, const global data *k, const vec q[CHANNELS * LANE_VECS],
                                 const vec log_sum[LANE_VECS], ulong t, uint n_rows, global data *att) {
    float block[BLOCK * CHANNELS];
    vec weights[BLOCK * LANE_VECS];
    for (ulong s = 0; s < p->T; s += BLOCK) {
        const uint n = (uint)min((ulong)BLOCK, p->T - s);
        load_block(k + row_start(s, p->ld), p->ld, n, block);
        multiply_block(block, q, n, weights);
        hide_keys(p, s, n, t, weights);
        for (uint j = 0; j < n; j++) {
            float x[LANES];
            for (uint v = 0; v < LANE_VECS; v++) {
                store(vec_exp(weights[j * LANE_VECS + v] - log_sum[v]), x + v * VECTOR);
            }
            for (uint r = 0; r < n_rows; r++) {
                att[(p->head * p->T + t + r) * p->T + s + j] = narrow(x[r]);
            }
        }
    }
}

// --- kernels: item (i, head) owns the rows, or keys, from i LANES on ------------------------------------

// The next n keys' part of softmax: scores become weights relative to the largest score so far; `result` and `sum`,
// which were relative to the largest before, follow.
inlined void soften(uint n, vec scores[BLOCK * LANE_VECS], vec largest[LANE_VECS], vec sum[LANE_VECS],
                    vec result[CHANNELS * LANE_VECS]) {
    for (uint v = 0; v < LANE_VECS; v++) {
        vec larger = largest[v];
        for (uint j = 0; j < n; j++) {
            const vec score = scores[j * LANE_VECS + v];
            larger = score > larger ? score : larger; // PoCL 6.0 calls a function for fmax
        }
        const vec shrink = vec_exp(largest[v] - larger);
        largest[v] = larger;
        sum[v] *= shrink;
        for (uint j = 0; j < n; j++) {
            const vec weight = vec_exp(scores[j * LANE_VECS + v] - larger);
            scores[j * LANE_VECS + v] = weight;
            sum[v] += weight;
        }
        for (uint c = 0; c < CHANNELS; c++) {
            result[c * LANE_VECS + v] *= shrink;
        }
    }
}

kernel void attention_forward(uint stores_weights, ulong T, ulong NH, ulong NKV, IN(int, starts), ulong key,
                              uint threshold, float drop_scale, IN(data, qkv), IN(uint, rng_step), OUT(data, y),
                              OUT(void, kept)) {
    const place p = find_place(get_global_id(1), T, NH, NKV, starts + starts_at);
    const ulong t = get_global_id(0) * (ulong)LANES;
    if (t >= T) {
        return;
    }
    const uint n_rows = (uint)min((ulong)LANES, T - t);
    const mask drop = make_mask(key, threshold, drop_scale, rng_step + rng_step_at);
    const global data *k = qkv + qkv_at + p.k;
    const global data *v = qkv + qkv_at + p.v;
    vec q[CHANNELS * LANE_VECS];
    vec result[CHANNELS * LANE_VECS];
    vec weights[BLOCK * LANE_VECS];
    float block[BLOCK * CHANNELS];
    vec largest[LANE_VECS];
    vec sum[LANE_VECS];
    pack_heads(qkv + qkv_at + p.q + row_start(t, p.ld), p.ld, n_rows, 1.0f / sqrt((float)HS), q);
    clear(result);
    fill_lanes(LEAST_SCORE, largest);
    fill_lanes(0.0f, sum);
    const ulong end = t + n_rows;
    for (ulong s = first_key_of(p.starts, t); s < end; s += BLOCK) {
        const uint n = (uint)min((ulong)BLOCK, end - s);
        load_block(k + row_start(s, p.ld), p.ld, n, block);
        multiply_block(block, q, n, weights);
        hide_keys(&p, s, n, t, weights);
        soften(n, weights, largest, sum, result);
        for (uint i = 0; threshold > 0 && i < n * LANE_VECS; i++) {
            const ulong row = p.row + t + i % LANE_VECS * VECTOR;
            weights[i] *= keep(&drop, row_start(row, T) + s + i / LANE_VECS, T);
        }
        load_block(v + row_start(s, p.ld), p.ld, n, block);
        add_block(block, weights, n, result);
    }
    vec log_sum[LANE_VECS];
    for (uint i = 0; i < LANE_VECS; i++) {
        log_sum[i] = largest[i] + log(sum[i]);
        sum[i] = 1.0f / sum[i];
    }
    unpack_heads(result, sum, p.C, n_rows, y + y_at + p.y + row_start(t, p.C));
    if (stores_weights) {
        store_weights(&p, k, q, log_sum, t, n_rows, (global data *)kept + kept_at);
    } else {
        store_lanes(log_sum, n_rows, (global float *)kept + kept_at + p.row + t);
    }
}

kernel void attention_backward_rows(uint stored, ulong T, ulong NH, ulong NKV, IN(int, starts), ulong key,
                                    uint threshold, float drop_scale, IN(data, dy), IN(data, qkv), IN(void, kept),
                                    IN(uint, rng_step), IN(data, y), OUT(float, D), OUT(data, dqkv)) {
    const place p = find_place(get_global_id(1), T, NH, NKV, starts + starts_at);
    const ulong t = get_global_id(0) * (ulong)LANES;
    if (t >= T) {
        return;
    }
    const uint n_rows = (uint)min((ulong)LANES, T - t);
    const mask drop = make_mask(key, threshold, drop_scale, rng_step + rng_step_at);
    const float scale = 1.0f / sqrt((float)HS);
    const global data *k = qkv + qkv_at + p.k;
    const global data *v = qkv + qkv_at + p.v;
    const global data *att = (const global data *)kept + kept_at; // where stored
    vec q[CHANNELS * LANE_VECS];
    vec dyt[CHANNELS * LANE_VECS];
    vec dq[CHANNELS * LANE_VECS];
    vec weights[BLOCK * LANE_VECS];
    vec da[BLOCK * LANE_VECS];
    float block[BLOCK * CHANNELS];
    vec log_sum[LANE_VECS];
    vec sum[LANE_VECS]; // D
    pack_heads(qkv + qkv_at + p.q + row_start(t, p.ld), p.ld, n_rows, scale, q);
    pack_heads(dy + dy_at + p.y + row_start(t, p.C), p.C, n_rows, 1.0f, dyt);
    fill_lanes(0.0f, sum);
    if (!stored) {
        load_lanes((const global float *)kept + kept_at + p.row + t, n_rows, log_sum);
        pack_heads(y + y_at + p.y + row_start(t, p.C), p.C, n_rows, 1.0f, dq);
        for (uint i = 0; i < CHANNELS * LANE_VECS; i++) {
            sum[i % LANE_VECS] += dyt[i] * dq[i];
        }
    }
    clear(dq);
    const ulong start = first_key_of(p.starts, t);
    const ulong end = t + n_rows;
    // If the weights are stored, there is no y: a first turn adds up D = sum_s att da.
    for (uint turn = stored ? 0 : 1; turn < 2; turn++) {
        for (ulong s = start; s < end; s += BLOCK) {
            const uint n = (uint)min((ulong)BLOCK, end - s);
            load_block(v + row_start(s, p.ld), p.ld, n, block);
            multiply_block(block, dyt, n, da);
            load_block(k + row_start(s, p.ld), p.ld, n, block);
            if (stored) {
                load_weights(&p, att, false, t, s, n, weights);
            } else {
                multiply_block(block, q, n, weights);
                hide_keys(&p, s, n, t, weights);
            }
            for (uint i = 0; i < n * LANE_VECS; i++) {
                const uint of = i % LANE_VECS;
                const ulong e = row_start(p.row + t + of * VECTOR, T) + s + i / LANE_VECS;
                const vec weight = stored ? weights[i] : vec_exp(weights[i] - log_sum[of]);
                const vec gradient = keep(&drop, e, T) * da[i];
                sum[of] += turn == 0 ? weight * gradient : to_vec(0.0f);
                weights[i] = weight * (gradient - sum[of]);
            }
            if (turn == 1) {
                add_block(block, weights, n, dq);
            }
        }
    }
    store_lanes(sum, n_rows, D + D_at + p.row + t);
    vec factors[LANE_VECS];
    fill_lanes(scale, factors);
    unpack_heads(dq, factors, p.ld, n_rows, dqkv + dqkv_at + p.q + row_start(t, p.ld));
}

// dk and dv of the item's keys, which begin with s, from the rows of one of the heads that see them.
inlined void gather_rows(uint stored, const place *p, ulong s, ulong end, const mask *drop,
                         const vec k[CHANNELS * LANE_VECS], const vec v[CHANNELS * LANE_VECS],
                         const global data *qkv, const global data *dy, const global float *lse,
                         const global data *att, const global float *D, vec dk[CHANNELS * LANE_VECS],
                         vec dv[CHANNELS * LANE_VECS]) {
    vec weights[BLOCK * LANE_VECS];
    vec da[BLOCK * LANE_VECS];
    float q[BLOCK * CHANNELS];
    float dyt[BLOCK * CHANNELS];
    for (ulong t = s; t < end; t += BLOCK) {
        const uint n = (uint)min((ulong)BLOCK, end - t);
        load_block(dy + p->y + row_start(t, p->C), p->C, n, dyt);
        multiply_block(dyt, v, n, da);
        load_block(qkv + p->q + row_start(t, p->ld), p->ld, n, q);
        if (stored) {
            load_weights(p, att, true, t, s, n, weights);
        } else {
            multiply_block(q, k, n, weights);
            hide_rows(p, t, n, s, weights);
        }
        for (uint i = 0; i < n * LANE_VECS; i++) {
            const ulong row = p->row + t + i / LANE_VECS;
            const vec kept = keep(drop, row_start(row, p->T) + s + i % LANE_VECS * VECTOR, 1);
            const vec weight = stored ? weights[i] : vec_exp(weights[i] - lse[row]);
            weights[i] = weight * kept;
            da[i] = weight * (kept * da[i] - D[row]);
        }
        add_block(dyt, weights, n, dv);
        add_block(q, da, n, dk);
    }
}

kernel void attention_backward_keys(uint stored, ulong T, ulong NH, ulong NKV, IN(int, starts), ulong key,
                                    uint threshold, float drop_scale, IN(data, dy), IN(data, qkv), IN(void, kept),
                                    IN(uint, rng_step), IN(float, D), OUT(data, dqkv)) {
    const ulong first_head = get_global_id(1) * (NH / NKV);
    const place first = find_place(first_head, T, NH, NKV, starts + starts_at);
    const ulong s = get_global_id(0) * (ulong)LANES;
    if (s >= T) {
        return;
    }
    const uint n_keys = (uint)min((ulong)LANES, T - s);
    const ulong end = end_of_rows(first.starts, T, s + n_keys - 1);
    const mask drop = make_mask(key, threshold, drop_scale, rng_step + rng_step_at);
    const float scale = 1.0f / sqrt((float)HS);
    vec k[CHANNELS * LANE_VECS];
    vec v[CHANNELS * LANE_VECS];
    vec dk[CHANNELS * LANE_VECS];
    vec dv[CHANNELS * LANE_VECS];
    pack_heads(qkv + qkv_at + first.k + row_start(s, first.ld), first.ld, n_keys, scale, k);
    pack_heads(qkv + qkv_at + first.v + row_start(s, first.ld), first.ld, n_keys, 1.0f, v);
    clear(dk);
    clear(dv);
    for (ulong head = first_head; head < first_head + NH / NKV; head++) {
        const place p = find_place(head, T, NH, NKV, starts + starts_at);
        gather_rows(stored, &p, s, end, &drop, k, v, qkv + qkv_at, dy + dy_at, (const global float *)kept + kept_at,
                    (const global data *)kept + kept_at, D + D_at, dk, dv);
    }
    vec factors[LANE_VECS];
    fill_lanes(scale, factors);
    unpack_heads(dk, factors, first.ld, n_keys, dqkv + dqkv_at + first.k + row_start(s, first.ld));
    fill_lanes(1.0f, factors);
    unpack_heads(dv, factors, first.ld, n_keys, dqkv + dqkv_at + first.v + row_start(s, first.ld));
}
