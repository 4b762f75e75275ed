// attention_units.cl: causal multi-head attention on matrix units (cl/units/units.cl). The formulas, tensors and the
// order of work are those of attention_local.cl (Dao 2023, FlashAttention-2); the weights are never in global memory.
//
// A wave owns TN rows (forward, dq) or keys (dk, dv), a column of fragments each: so all that belongs to one of them is
// one lane's, or that of the two lanes that share a column. The others come by tiles through local memory. Scores
// become the second operand of the next product in the registers where they are: a fragment of c holds along its column
// what b has along k. With AMD's a lane's numbers of c are at k that lie 4 and 4, and its numbers of a are taken in
// that order; gfx11's also exchange them with the other half, as b has every k in both.
//
//   forward   s = k q^T,              y^T += v^T att              att (keys, rows)
//   dq        s = k q^T, v dy^T,      dq^T += k^T ds              ds  (keys, rows)
//   dk, dv    s = q k^T, dy v^T,      dv^T += dy^T att, dk^T += q^T ds      both (rows, keys)
//
// With documents (starts (B,T)) row t's keys begin with starts[t].

#ifndef WAVES
#define WAVES 4 // of a work-group
#endif
#ifndef TILE
#define TILE 64 // keys (forward, dq) or rows (dk, dv) of a tile in local memory
#endif
#ifndef STRIP
#define STRIP 32 // of them at a time in registers
#endif
#ifndef LOCAL_OWN
#define LOCAL_OWN 0 // of the own rows (forward: q; dq: dy, q; dk and dv: v, k) as many are in local memory
#endif
#ifndef AHEAD
#define AHEAD 1 // the next tile comes to registers while this one is multiplied; else when that is done
#endif
#ifndef APART
#define APART 0 // dk and dv are other work-groups': half the sums, but scores are computed twice
#endif

#define ITEMS     (WAVES * WAVE)
#define OWN       (WAVES * TN)                      // rows or keys that a work-group owns
#define CHANNELS  ((HS + STEP - 1) / STEP * STEP)   // along k
#define OUT_TILES ((HS + TM - 1) / TM)              // of channels along the rows of c
#define OUT_ROWS  (OUT_TILES * TM)
#define FRAGMENTS (STRIP / TM)
#define ROWS_ELEMS    A_ELEMS(TILE, CHANNELS) // of a tile, as rows of channels
#define COLUMNS_ELEMS A_ELEMS(OUT_ROWS, TILE) // of the same, transposed
#define OWN_ELEMS     B_ELEMS(OWN, CHANNELS)
#define OWN_TILES     (LOCAL_OWN * OWN_ELEMS + (LOCAL_OWN == 0))

// Two waves of a vector unit of AMD's at a time, where results leave room for it.
#if IS_MFMA && HS <= 64 && !SPLIT && !defined(EMULATED)
#define ATTENTION_KERNEL WAVES_ATTRIBUTE __attribute__((amdgpu_waves_per_eu(2))) kernel
#else
#define ATTENTION_KERNEL WAVES_ATTRIBUTE kernel
#endif

// --- operands --------------------------------------------------------------------------------------------------

// A tile of rows on its way: as rows of channels, or transposed; not AHEAD: only its place. `from` is row 0.
#if AHEAD
#define FETCHED(n) uint4 x[n];
#else
#define FETCHED(n) const global data *from; uint ld, first, T;
#endif
typedef struct {
    FETCHED(TURNS(TILE, CHANNELS, ITEMS, 1))
} fetched_rows;
typedef struct {
    FETCHED(TURNS(OUT_ROWS, TILE, ITEMS, 0))
} fetched_columns;

#if AHEAD
inlined void fetch_rows(const global data *from, uint ld, uint first, uint T, fetched_rows *f) {
    fetch(from, ld, first, T, 0, HS, TILE, CHANNELS, ITEMS, 1, f->x);
}

inlined void fetch_columns(const global data *from, uint ld, uint first, uint T, fetched_columns *f) {
    fetch(from, ld, 0, HS, first, T, OUT_ROWS, TILE, ITEMS, 0, f->x);
}

inlined void put_rows(local number *tile, const fetched_rows *f) { put(tile, f->x, TILE, CHANNELS, ITEMS, 1, 1); }
inlined void put_columns(local number *tile, const fetched_columns *f) { put(tile, f->x, OUT_ROWS, TILE, ITEMS, 0, 1); }
#else
#define FETCH_LATER(kind)                                                                                       \
    inlined void fetch_##kind(const global data *from, uint ld, uint first, uint T, fetched_##kind *f) {         \
        f->from = from;                                                                                         \
        f->ld = ld;                                                                                             \
        f->first = first;                                                                                       \
        f->T = T;                                                                                               \
    }
FETCH_LATER(rows)
FETCH_LATER(columns)

inlined void put_rows(local number *tile, const fetched_rows *f) {
#pragma unroll 1
    for (uint i = 0; i < TURNS(TILE, CHANNELS, ITEMS, 1); i++) {
        const uint4 x = fetch_one(i, f->from, f->ld, f->first, f->T, 0, HS, TILE, CHANNELS, ITEMS, 1);
        put_one(tile, i, &x, TILE, CHANNELS, ITEMS, 1, 1);
    }
}

inlined void put_columns(local number *tile, const fetched_columns *f) {
#pragma unroll 1
    for (uint i = 0; i < TURNS(OUT_ROWS, TILE, ITEMS, 0); i += PAIRED(0) ? 2 : 1) {
        uint4 x[2];
        x[0] = fetch_one(i, f->from, f->ld, 0, HS, f->first, f->T, OUT_ROWS, TILE, ITEMS, 0);
        if (PAIRED(0)) {
            x[1] = fetch_one(i + 1, f->from, f->ld, 0, HS, f->first, f->T, OUT_ROWS, TILE, ITEMS, 0);
        }
        put_one(tile, i, x, OUT_ROWS, TILE, ITEMS, 0, 1);
    }
}
#endif

// The lane's own row as second operand: in registers, or in `tile`, of which the lane reads what it wrote.
typedef struct {
    raw_b r[CHANNELS / STEP];
    local number *tile;
    bool is_local;
} own_row;

inlined void load_own(own_row *own, const global data *row, local number *tile, bool is_local) {
    own->tile = tile + MY_WAVE * B_ELEMS(TN, CHANNELS);
    own->is_local = is_local;
    UNROLLED for (uint k = 0; k < CHANNELS; k += STEP) {
        const raw_b r = load_b_row(row, k, HS);
        if (is_local) {
            store_b(&r, own->tile, k, CHANNELS);
        } else {
            own->r[k / STEP] = r;
        }
    }
}

inlined raw_b own_at(const own_row *own, uint k) {
    return own->is_local ? load_b(own->tile, 0, k, CHANNELS) : own->r[k / STEP];
}

#define ZERO(sum, n)                                  \
    _Pragma("unroll") for (uint zero_i = 0; zero_i < (n); zero_i++) { \
        sum[zero_i] = (c_part)(0.0f);                 \
    }

// score = the tile's rows, from `first` on, times the own ones
inlined void multiply_rows(const local number *tile, uint first, const own_row *own, c_part score[FRAGMENTS]) {
    ZERO(score, FRAGMENTS)
    UNROLLED for (uint k = 0; k < CHANNELS; k += STEP) {
        raw_a ra[FRAGMENTS];
        UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
            ra[f] = load_a(tile, first + f * TM, k, CHANNELS);
        }
        const raw_b own_k = own_at(own, k);
        UNROLLED for (uint way = SPLIT ? 0 : 2; way < 3; way++) { // small large, large small, large large
            b_part b[PER_LOAD];
            parts_of_b(&own_k, way == 1, b);
            UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
                a_part a[PER_LOAD];
                parts_of_a(&ra[f], way == 0, a);
                UNROLLED for (uint p = 0; p < PER_LOAD; p++) {
                    MULTIPLY(score[f], a[p], b[p]);
                }
            }
        }
    }
}

// --- scores as the second operand ------------------------------------------------------------------------------
// BLOCK rows of scores are what B_PARTS instructions take, and so are the numbers of a, in the same order of k.

#if IS_MFMA
#define BLOCK   32
#define B_PARTS (32 / TK)
#elif IS_WMMA
#define BLOCK   16
#define B_PARTS 1
#else
#define BLOCK   TK
#define B_PARTS 1
#endif
#define BLOCK_FRAGMENTS (BLOCK / TM)

inlined uint pack(float low, float high) { return (uint)narrow(low) | (uint)narrow(high) << 16; }

#if DATA_IS_NARROW
inlined uint4 pack8(const float *x) {
    return (uint4)(pack(x[0], x[1]), pack(x[2], x[3]), pack(x[4], x[5]), pack(x[6], x[7]));
}
#else
inlined uint4 words4(const float *x, bool small) {
    const uint4 w = as_uint4((float4)(x[0], x[1], x[2], x[3]));
    return small ? small_chunk(w) : round_chunk(w);
}
#endif

#if UNIT == WMMA
// The other half has every second row.
inlined ushort16 join_halves(uint4 mine) {
    const uint4 theirs = (uint4)(exchange(mine.x), exchange(mine.y), exchange(mine.z), exchange(mine.w));
    const uint4 even = MY_GROUP == 0 ? mine : theirs;
    const uint4 odd = MY_GROUP == 0 ? theirs : mine;
    const uint4 first = (even & 0xFFFFu) | odd << 16;
    const uint4 second = even >> 16 | (odd & 0xFFFF0000u);
    return as_ushort16((uint8)(first.x, second.x, first.y, second.y, first.z, second.z, first.w, second.w));
}
#endif

inlined void scores_as_b(const c_part *score, bool small, b_part b[B_PARTS]) {
    float x[BLOCK_FRAGMENTS * NC];
    UNROLLED for (uint f = 0; f < BLOCK_FRAGMENTS; f++) {
        JOIN(vstore, NC)(score[f], f, x);
    }
#if IS_MFMA
    UNROLLED for (uint i = 0; i < NC; i += 8) {
#if DATA_IS_NARROW
        const uint4 words = pack8(x + i);
        to_parts(&words, b + i / 8 * PER_LOAD);
#else
        const uint4 words = words4(x + i, small);
        const uint4 next = words4(x + i + 4, small);
        to_parts(&words, b + i / 4 * PER_LOAD);
        to_parts(&next, b + (i / 4 + 1) * PER_LOAD);
#endif
    }
#elif UNIT == WMMA
    *b = as_short16(join_halves(pack8(x)));
#elif UNIT == WMMA_HALF
    *b = as_short8(pack8(x));
#elif DATA_IS_NARROW
    *b = as_int8((uint8)(pack8(x), pack8(x + 8)));
#else
    *b = as_float8((uint8)(words4(x, small), words4(x + 4, small)));
#endif
    (void)small;
}

// The channels from `row` on of a block of rows of a transposed tile, as first operand.
#if IS_MFMA
inlined void load_columns(const local number *tile, uint row, uint k, bool small, a_part a[B_PARTS]) {
    const local number *from = tile + PLACE_B(row + LANE % TM, k + 4 * MY_GROUP, TILE);
#if DATA_IS_NARROW
    UNROLLED for (uint i = 0; i < 2; i++) {
        const uint4 words = (uint4)(*(const local uint2 *)(from + 16 * i), *(const local uint2 *)(from + 16 * i + 8));
        to_parts(&words, a + i * PER_LOAD);
    }
    (void)small;
#else
    UNROLLED for (uint i = 0; i < 4; i++) {
        const uint4 words = *(const local uint4 *)(from + 8 * i);
        const uint4 parts = small ? small_chunk(words) : round_chunk(words);
        to_parts(&parts, a + i * PER_LOAD);
    }
#endif
}
#else
inlined void load_columns(const local number *tile, uint row, uint k, bool small, a_part a[B_PARTS]) {
    const raw_a r = load_a(tile, row, k, TILE);
    parts_of_a(&r, small, a);
}
#endif

// sum = factor sum + the tile's columns, of rows from `first` on, times a strip's scores. With SPLIT what units add to
// begins at zero, for a few results at a time: registers could not hold all of them twice.
#if SPLIT
#define OUT_AT_ONCE (OUT_TILES % 4 == 0 && IS_DPAS ? 4 : OUT_TILES % 2 == 0 ? 2 : 1)
#else
#define OUT_AT_ONCE OUT_TILES
#endif
inlined void add_weighted(const local number *columns, uint first, const c_part score[FRAGMENTS], float factor,
                          c_part sum[OUT_TILES]) {
    UNROLLED for (uint first_out = 0; first_out < OUT_TILES; first_out += OUT_AT_ONCE) {
#if SPLIT
        c_part part[OUT_AT_ONCE];
        ZERO(part, OUT_AT_ONCE)
#else
        c_part *part = sum;
#endif
        UNROLLED for (uint k = 0; k < STRIP; k += BLOCK) {
            UNROLLED for (uint way = SPLIT ? 0 : 2; way < 3; way++) {
                b_part b[B_PARTS];
                scores_as_b(score + k / TM, way == 1, b);
                UNROLLED for (uint o = 0; o < OUT_AT_ONCE; o++) {
                    a_part a[B_PARTS];
                    part[o] *= k == 0 && !SPLIT ? factor : 1.0f; // here, as it takes more registers elsewhere
                    load_columns(columns, (first_out + o) * TM, first + k, way == 0, a);
                    UNROLLED for (uint p = 0; p < B_PARTS; p++) {
                        MULTIPLY(part[o], a[p], b[p]);
                    }
                }
            }
        }
#if SPLIT
        UNROLLED for (uint o = 0; o < OUT_AT_ONCE; o++) {
            sum[first_out + o] = sum[first_out + o] * factor + part[o];
        }
#endif
    }
}

// The own row's results, times a factor, to where its channels begin.
inlined void write_row(const c_part sum[OUT_TILES], float factor, global data *to) {
    UNROLLED for (uint o = 0; o < OUT_TILES; o++) {
        float x[NC];
        JOIN(vstore, NC)(sum[o], 0, x);
        UNROLLED for (uint e = 0; e < NC; e += 4) {
            const uint c = o * TM + C_ROW(LANE, e);
#if C_NEIGHBOURS >= 4
            if (c < HS) {
                *(global data4 *)(to + c) = narrow4((float4)(x[e], x[e + 1], x[e + 2], x[e + 3]) * factor);
            }
#else
            UNROLLED for (uint i = 0; i < 4; i++) {
                if (o * TM + C_ROW(LANE, e + i) < HS) {
                    to[o * TM + C_ROW(LANE, e + i)] = narrow(x[e + i] * factor);
                }
            }
            (void)c;
#endif
        }
    }
}

// --- weights -----------------------------------------------------------------------------------------------------

inlined float keep(const mask *m, ulong row, uint T, uint key) {
    return keep_factor(m->key, m->step, row * T + key, m->threshold, m->scale);
}

#if PART < 2
// A tile of keys on its way.
typedef struct {
    fetched_rows k, v; // dq takes both
    fetched_columns columns; // of v, or for dq of k
} fetched_keys;

inlined void fetch_keys(const global data *of_head, const place *p, uint first, uint T, fetched_keys *f) {
    fetch_rows(of_head + p->k, p->ld, first, T, &f->k);
    if (PART == 1) {
        fetch_rows(of_head + p->v, p->ld, first, T, &f->v);
    }
    fetch_columns(of_head + (PART == 1 ? p->k : p->v), p->ld, first, T, &f->columns);
}
#endif

#if PART == 0
// --- forward -------------------------------------------------------------------------------------------------------

// Running state of the softmax of the own row; `total` sums over the lane's keys.
typedef struct {
    uint t, start; // the row, and the first key that it sees
    float largest, total;
} row_state;

// Scores of keys from first_key on become weights, not yet divided by their total; the factor by which y is to shrink.
inlined float make_weights(row_state *r, uint first_key, c_part score[FRAGMENTS]) {
    float x[FRAGMENTS][NC];
    float largest = -INFINITY;
    UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
        JOIN(vstore, NC)(score[f], 0, x[f]);
        UNROLLED for (uint e = 0; e < NC; e++) {
            const uint key = first_key + f * TM + C_ROW(LANE, e);
            x[f][e] = key > r->t || (DOCUMENTS && key < r->start) ? -INFINITY : x[f][e];
            largest = fmax(largest, x[f][e]);
        }
    }
    largest = fmax(r->largest, largest_of_column(largest));
    const float shrink = native_exp2((r->largest - largest) * (SCALE * LOG2E));
    const float offset = largest * (SCALE * LOG2E);
    r->largest = largest;
    r->total *= shrink;
    UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
        UNROLLED for (uint e = 0; e < NC; e++) {
            x[f][e] = native_exp2(fma(x[f][e], SCALE * LOG2E, -offset));
            r->total += x[f][e];
        }
        score[f] = JOIN(vload, NC)(0, x[f]);
    }
    return shrink;
}

inlined void drop_weights(const mask *drop, ulong row, uint T, uint first_key, c_part score[FRAGMENTS]) {
    UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
        float x[NC];
        JOIN(vstore, NC)(score[f], 0, x);
        UNROLLED for (uint e = 0; e < NC; e++) {
            x[e] *= keep(drop, row, T, first_key + f * TM + C_ROW(LANE, e));
        }
        score[f] = JOIN(vload, NC)(0, x);
    }
}

ATTENTION_KERNEL __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
attention_forward(ulong T_, ulong NH, ulong NKV, ulong n_heads, IN(int, starts), ulong key, uint threshold,
                  float drop_scale, IN(data, qkv), IN(uint, rng_step), OUT(data, y), OUT(float, lse)) {
    local number keys[ROWS_ELEMS] __attribute__((aligned(256)));
    local number values[COLUMNS_ELEMS] __attribute__((aligned(256)));
    local number own[OWN_TILES] __attribute__((aligned(256)));
    const uint T = (uint)T_;
    const uint n_tiles = (T + OWN - 1) / OWN;
    uint head, tile;
    find_tile((uint)n_heads, n_tiles, T, &head, &tile);
    const place p = find_place(head, T, NH, NKV);
    const mask drop = make_mask(key, DROPOUT ? threshold : 0, drop_scale, rng_step + rng_step_at);
    const uint first_row = (n_tiles - 1 - tile) * OWN; // those with most to do first
    const uint my_row = first_row + MY_WAVE * TN;
    const uint n_keys = min(T, first_row + OWN); // that any of the rows sees
    const global int *first_keys = starts + starts_at + p.first_token;
    const uint start_key = (uint)first_key_of(first_keys, first_row) / TILE * TILE;
    const uint seen = (uint)first_key_of(first_keys, min(my_row, T - 1)); // by any of the wave's rows
    const global data *of_head = qkv + qkv_at + qkv_start(&p, 0);
    const uint t = my_row + C_COL(LANE);
    row_state r;
    r.t = t;
    r.start = (uint)first_key_of(first_keys, min(t, T - 1));
    r.largest = LEAST_SCORE;
    r.total = 0.0f;
    c_part result[OUT_TILES];
    own_row q;
    fetched_keys next;
    ZERO(result, OUT_TILES)
    load_own(&q, of_head + row_start(min(t, T - 1), p.ld) + p.q, own, LOCAL_OWN > 0);
    fetch_keys(of_head, &p, start_key, T, &next);
    for (uint first_key = start_key; first_key < n_keys; first_key += TILE) {
        put_rows(keys, &next.k);
        put_columns(values, &next.columns);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (first_key + TILE < n_keys) {
            fetch_keys(of_head, &p, first_key + TILE, T, &next);
        }
#pragma unroll 1
        for (uint s = 0; s < TILE; s += STRIP) {
            if (first_key + s < my_row + TN && first_key + s + STRIP > seen) {
                c_part score[FRAGMENTS];
                multiply_rows(keys, s, &q, score);
                const float shrink = make_weights(&r, first_key + s, score);
                if (DROPOUT) {
                    drop_weights(&drop, p.head_row + t, T, first_key + s, score);
                }
                add_weighted(values, s, score, shrink, result);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const float total = sum_of_column(r.total);
    if (t < T) {
        write_row(result, 1.0f / total, y + y_at + y_start(&p, t));
        if (MY_GROUP == 0) {
            lse[lse_at + p.head_row + t] = r.largest * SCALE + log(total);
        }
    }
}
#endif

#if PART == 1
// --- backward: dq --------------------------------------------------------------------------------------------------

// D = sum_c dy y of the own row; its lanes take every second 4 channels.
inlined float multiply_row(const global data *dy, const global data *y) {
    float sum = 0.0f;
    for (uint c = 4 * MY_GROUP; c < HS; c += 4 * (WAVE / TN)) {
        const float4 a = widen4(*(const global data4 *)(dy + c));
        const float4 b = widen4(*(const global data4 *)(y + c));
        sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
    }
    return sum_of_column(sum);
}

// dq of OWN rows, and D for dk and dv, which are computed after it.
ATTENTION_KERNEL __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
attention_backward_rows(ulong T_, ulong NH, ulong NKV, ulong n_heads, IN(int, starts), ulong key, uint threshold,
                        float drop_scale, IN(data, dy), IN(data, qkv), IN(float, lse), IN(uint, rng_step), IN(data, y),
                        OUT(float, D), OUT(data, dqkv)) {
    local number keys[ROWS_ELEMS] __attribute__((aligned(256)));
    local number values[ROWS_ELEMS] __attribute__((aligned(256)));
    local number key_columns[COLUMNS_ELEMS] __attribute__((aligned(256)));
    local number own[OWN_TILES] __attribute__((aligned(256)));
    const uint T = (uint)T_;
    const uint n_tiles = (T + OWN - 1) / OWN;
    uint head, tile;
    find_tile((uint)n_heads, n_tiles, T, &head, &tile);
    const place p = find_place(head, T, NH, NKV);
    const mask drop = make_mask(key, DROPOUT ? threshold : 0, drop_scale, rng_step + rng_step_at);
    const uint first_row = (n_tiles - 1 - tile) * OWN; // those with most to do first
    const uint my_row = first_row + MY_WAVE * TN;
    const uint n_keys = min(T, first_row + OWN);
    const global int *first_keys = starts + starts_at + p.first_token;
    const uint start_key = (uint)first_key_of(first_keys, first_row) / TILE * TILE;
    const uint seen = (uint)first_key_of(first_keys, min(my_row, T - 1));
    const global data *of_head = qkv + qkv_at + qkv_start(&p, 0);
    const uint t = my_row + C_COL(LANE);
    const uint row = min(t, T - 1);
    const uint start = (uint)first_key_of(first_keys, row);
    const float log_total = lse[lse_at + p.head_row + row] * LOG2E;
    const float sum = multiply_row(dy + dy_at + y_start(&p, row), y + y_at + y_start(&p, row));
    c_part dq[OUT_TILES];
    own_row q, d;
    fetched_keys next;
    if (MY_GROUP == 0 && t < T) {
        D[D_at + p.head_row + t] = sum;
    }
    ZERO(dq, OUT_TILES)
    load_own(&q, of_head + row_start(row, p.ld) + p.q, own + OWN_ELEMS, LOCAL_OWN > 1);
    load_own(&d, dy + dy_at + y_start(&p, row), own, LOCAL_OWN > 0);
    fetch_keys(of_head, &p, start_key, T, &next);
    for (uint first_key = start_key; first_key < n_keys; first_key += TILE) {
        put_rows(keys, &next.k);
        put_rows(values, &next.v);
        put_columns(key_columns, &next.columns);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (first_key + TILE < n_keys) {
            fetch_keys(of_head, &p, first_key + TILE, T, &next);
        }
#pragma unroll 1
        for (uint s = 0; s < TILE; s += STRIP) {
            if (first_key + s < my_row + TN && first_key + s + STRIP > seen) {
                c_part score[FRAGMENTS];
                c_part dweight[FRAGMENTS];
                multiply_rows(keys, s, &q, score);
                multiply_rows(values, s, &d, dweight);
                UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
                    float x[NC];
                    float dx[NC];
                    JOIN(vstore, NC)(score[f], 0, x);
                    JOIN(vstore, NC)(dweight[f], 0, dx);
                    UNROLLED for (uint e = 0; e < NC; e++) {
                        const uint of_key = first_key + s + f * TM + C_ROW(LANE, e);
                        const bool is_hidden = of_key > t || (DOCUMENTS && of_key < start);
                        const float weight = is_hidden ? 0.0f : native_exp2(fma(x[e], SCALE * LOG2E, -log_total));
                        const float kept = DROPOUT ? keep(&drop, p.head_row + t, T, of_key) : 1.0f;
                        x[e] = weight * fma(dx[e], kept, -sum);
                    }
                    score[f] = JOIN(vload, NC)(0, x);
                }
                add_weighted(key_columns, s, score, 1.0f, dq);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (t < T) {
        write_row(dq, SCALE, dqkv + dqkv_at + qkv_start(&p, t) + p.q);
    }
}
#endif

#if PART == 2
// --- backward: dk and dv -------------------------------------------------------------------------------------------

// A tile of rows on its way; its columns are multiplied with the weights' gradients for dk, the weights for dv.
#define SUMS (APART ? 1 : 2) // dv, dk
typedef struct {
    fetched_rows q, d;
    fetched_columns columns[SUMS];
    float log_total, sum; // of one row, for the first TILE items
} fetched_tile;

// Fetches a tile of p's head. qkv, dy, lse and D start at p's sequence; the head's own channels are left out.
inlined void fetch_tile(const global data *qkv, const global data *dy, const global float *lse, const global float *D,
                        const place *p, uint first, bool has_dk, fetched_tile *f) {
    fetch_rows(qkv + p->q, p->ld, first, p->T, &f->q);
    if (has_dk) {
        fetch_rows(dy + p->q, p->C, first, p->T, &f->d);
        fetch_columns(qkv + p->q, p->ld, first, p->T, &f->columns[SUMS - 1]);
    }
    if (!APART || !has_dk) {
        fetch_columns(dy + p->q, p->C, first, p->T, &f->columns[0]);
    }
    const ulong row = p->head_row + min(first + (uint)get_local_id(0) % TILE, p->T - 1);
    f->log_total = lse[row] * LOG2E;
    f->sum = D[row];
}

// dk and dv of OWN keys of a head of k and v: of each head of q that shares it, all rows.
ATTENTION_KERNEL __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
attention_backward_keys(ulong T_, ulong NH, ulong NKV, ulong n_heads, IN(int, starts), ulong key, uint threshold,
                        float drop_scale, IN(data, dy), IN(data, qkv), IN(float, lse), IN(uint, rng_step), IN(float, D),
                        OUT(data, dqkv)) {
    local number queries[ROWS_ELEMS] __attribute__((aligned(256)));
    local number gradients[ROWS_ELEMS] __attribute__((aligned(256)));
    local number columns[SUMS][COLUMNS_ELEMS] __attribute__((aligned(256)));
    local number own[OWN_TILES] __attribute__((aligned(256)));
    local float log_totals[TILE], sums[TILE];
    const uint T = (uint)T_;
    uint shared_head, tile;
    find_tile((uint)n_heads, (T + OWN - 1) / OWN, T, &shared_head, &tile);
    const uint n_sharing = (uint)(NH / NKV);
    const uint first_head = shared_head * n_sharing;
    place p = find_place(first_head, T, NH, NKV);
    const mask drop = make_mask(key, DROPOUT ? threshold : 0, drop_scale, rng_step + rng_step_at);
    const uint first_key = tile * OWN; // those with most to do first
    const uint my_key = first_key + MY_WAVE * TN;
    const uint s = my_key + C_COL(LANE);
    const uint start_row = first_key / TILE * TILE; // the tile on the diagonal
    const global int *first_keys = starts + starts_at + p.first_token;
    const uint end_row = (uint)end_of_rows(first_keys, T, min(first_key + OWN, T) - 1);
    const global data *of_head = qkv + qkv_at + qkv_start(&p, 0);
    const global data *dy_of_head = dy + dy_at + y_start(&p, 0) - p.q;
    const uint tiles_a_head = (end_row - start_row + TILE - 1) / TILE;
    const uint n_steps = tiles_a_head * n_sharing; // the heads' rows one after the other
    const bool has_dk = !APART || get_group_id(1) > 0;
    c_part sum[SUMS][OUT_TILES];
    own_row k, v;
    fetched_tile next;
    ZERO(sum[0], OUT_TILES)
    ZERO(sum[SUMS - 1], OUT_TILES)
    load_own(&k, of_head + row_start(min(s, T - 1), p.ld) + p.k, own + OWN_ELEMS, LOCAL_OWN > 1);
    load_own(&v, of_head + row_start(min(s, T - 1), p.ld) + p.v, own, LOCAL_OWN > 0);
    lse += lse_at;
    D += D_at;
    fetch_tile(of_head, dy_of_head, lse, D, &p, start_row, has_dk, &next);
    uint first_row = start_row;
    for (uint i = 0; i < n_steps; i++) {
        put_rows(queries, &next.q);
        if (has_dk) {
            put_rows(gradients, &next.d);
        }
        UNROLLED for (uint c = 0; c < SUMS; c++) {
            put_columns(columns[c], &next.columns[c]);
        }
        if (get_local_id(0) < TILE) {
            log_totals[get_local_id(0)] = next.log_total;
            sums[get_local_id(0)] = next.sum;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        const uint next_row = first_row + TILE < end_row ? first_row + TILE : start_row;
        const ulong this_head = p.head_row;
        if (next_row == start_row) { // the next head's
            p.q += HS;
            p.head_row += T;
        }
        if (i + 1 < n_steps) {
            fetch_tile(of_head, dy_of_head, lse, D, &p, next_row, has_dk, &next);
        }
#pragma unroll 1
        for (uint r = 0; r < TILE; r += STRIP) {
            const bool is_seen =
                !DOCUMENTS || first_key_of(first_keys, min(first_row + r, T - 1)) < my_key + TN;
            if (first_row + r + STRIP > my_key && first_row + r < T && is_seen) {
                c_part score[FRAGMENTS];
                c_part dweight[FRAGMENTS];
                multiply_rows(queries, r, &k, score);
                if (has_dk) {
                    multiply_rows(gradients, r, &v, dweight);
                } else {
                    ZERO(dweight, FRAGMENTS)
                }
                UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
                    float x[NC];
                    float dx[NC];
                    JOIN(vstore, NC)(score[f], 0, x);
                    JOIN(vstore, NC)(dweight[f], 0, dx);
                    UNROLLED for (uint e = 0; e < NC; e++) {
                        const uint at = r + f * TM + C_ROW(LANE, e);
                        const uint t = first_row + at;
                        const bool is_hidden =
                            s > t || t >= T || (DOCUMENTS && s < first_key_of(first_keys, min(t, T - 1)));
                        const float weight =
                            is_hidden ? 0.0f : native_exp2(fma(x[e], SCALE * LOG2E, -log_totals[at]));
                        const float kept = DROPOUT ? keep(&drop, this_head + t, T, s) : 1.0f;
                        x[e] = weight * kept;
                        dx[e] = weight * fma(dx[e], kept, -sums[at]);
                    }
                    score[f] = JOIN(vload, NC)(0, APART && has_dk ? dx : x);
                    dweight[f] = JOIN(vload, NC)(0, dx);
                }
                add_weighted(columns[0], r, score, 1.0f, sum[0]);
                if (!APART) {
                    add_weighted(columns[SUMS - 1], r, dweight, 1.0f, sum[SUMS - 1]);
                }
            }
        }
        first_row = next_row;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (s < T) {
        global data *to = dqkv + dqkv_at + qkv_start(&p, s);
        if (has_dk) {
            write_row(sum[SUMS - 1], SCALE, to + p.k);
        }
        if (!APART || !has_dk) {
            write_row(sum[0], 1.0f, to + p.v);
        }
    }
}
#endif
