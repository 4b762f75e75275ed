// attention_local.cl: causal multi-head attention (Vaswani et al. 2017, equation 1) for cards. Scores are products
// of tiles in local memory, as in matmul_local.cl, and never leave the chip unless the op asks for the weights
// (Dao 2023, FlashAttention-2, algorithms 1 and 2).
//
//   s = q k^T / sqrt(HS) over keys s <= t;  lse = log sum exp(s);  att = exp(s - lse);  y = dropout(att) v
//   D = sum_s att dropout(dy v^T) = sum_c dy y;  ds = att (dropout(dy v^T) - D)
//   dv = dropout(att)^T dy;  dq = ds k / sqrt(HS);  dk = ds^T q / sqrt(HS)
//
// A row of qkv (B,T,(NH+2NKV)HS) holds NH heads of q, NKV of k and NKV of v, of one token; NH/NKV heads of q, side by
// side, share one of k and v.
// y, dy (B,T,C); lse, D (B,NH,T); att (B,NH,T,T), or blocks of rows of it. HS is fixed when the kernel is compiled.
// With documents (starts (B,T)) row t's keys begin with starts[t]: tiles of keys that no row sees, and of rows that see
// no key, are left out.
//
//     keys |<-KEYS->|<-KEYS->|        forward: a group owns ROWS rows and walks the tiles of keys left to right, to
//   rows   +--------+                 the diagonal. backward: a group owns tiles of keys, and walks the tiles of
//   ROWS   |########|\                rows from the diagonal down.
//          +--------+--------+
//   ROWS   |########|########|\       #: whole tiles, \: the tile on the diagonal, masked
//
// Backward, scores are computed once, and serve dk, dv and dq: five products. dk and dv of a tile of keys stay in
// registers. dq of a row is a sum over tiles of keys: n_parts groups, each with every so many tiles of a head, have a
// sum of their own in scratch, to which each tile adds its share; a last launch adds up the parts.
//
// Items are laid ITEMS_Y x ITEMS_X over a tile of scores: item (y, x) has rows y, y + ITEMS_Y, .. and keys x,
// x + ITEMS_X, .. Over a result of rows (or keys) by channels it has the same rows, or 4 keys side by side, and
// every ITEMS_X-th chunk of 4 channels. Each read of local memory serves 8 x 8, or 4 x 8, multiplications
// of every step: local memory is what limits these kernels.

#ifndef HS
#define HS 64 // channels of a head
#endif
#ifndef ROWS
#define ROWS 32 // rows of a tile of scores
#endif
#ifndef KEYS
#define KEYS 32 // its columns
#endif
#ifndef ITEMS_Y
#define ITEMS_Y 8 // work-items along the rows; for dk and dv, KEYS / ITEMS_Y is a multiple of 4
#endif
#ifndef ITEMS_X
#define ITEMS_X 8 // work-items along the keys: a multiple of 4
#endif
#ifndef LOAD
#define LOAD 1 // floats a load: 4 where heads begin at multiples of 4 floats
#endif
#ifndef DROPOUT
#define DROPOUT 1 // 0: no weight is dropped; spares the drawing
#endif
#ifndef FORWARD
#define FORWARD 1 // 1: the forward kernels, 0: those of backward
#endif
#ifndef STORED
#define STORED 0 // 1: backward reads the weights that forward stored, in the place of lse
#endif
// Numbers that forward keeps for backward.
#if STORED
typedef data kept_value;
#define widen_kept(x) widen(x)
#else
typedef float kept_value;
#define widen_kept(x) (x)
#endif
#define ITEMS       (ITEMS_Y * ITEMS_X)
#define CHUNKS      ((HS + 3) / 4)     // float4s in a row
#define LD          ((CHUNKS | 1) * 4) // floats of a row in local memory: odd in float4s, against bank conflicts
#define WEIGHTS_LD  (KEYS + 8)
#define ROWS_EACH   (ROWS / ITEMS_Y)
#define KEYS_EACH   (KEYS / ITEMS_X)
#define CHUNKS_EACH ((CHUNKS + ITEMS_X - 1) / ITEMS_X)
#define OWN_KEYS    (KEYS / ITEMS_Y < 4 ? 4 : KEYS / ITEMS_Y / 4 * 4) // of dk and dv; programs without those have fewer
#define SCALE       (1.0f / sqrt((float)HS))
#define inlined     static inline __attribute__((always_inline)) // else sums would pass through memory

// A head of a sequence, and this work-item's place in a tile.
typedef struct {
    ulong T, C;
    ulong head_row;    // of [b,h,0] among rows of lse
    ulong first_token; // b T
    ulong q, k, v;     // the head's first channels in a row of qkv; q also in a row of y
    ulong ld;          // elements of a row of qkv
    const global int *starts; // (T), of the sequence
    uint y, x;
} place;

// head: b NH + h
static inline place find_place(ulong head, ulong T, ulong NH, ulong NKV, const global int *starts) {
    place p;
    p.starts = starts + head / NH * T;
    p.T = T;
    p.C = NH * HS;
    p.head_row = row_start(head, T);
    p.first_token = head / NH * T;
    p.q = head % NH * HS;
    p.k = (NH + head % NH / (NH / NKV)) * HS;
    p.v = p.k + NKV * HS;
    p.ld = (NH + 2 * NKV) * HS;
    p.y = (uint)get_local_id(0) / ITEMS_X;
    p.x = (uint)get_local_id(0) % ITEMS_X;
    return p;
}

// The first channel of token t: of its row in qkv, to which q, k or v is added; and in y.
static inline ulong qkv_start(const place *p, ulong t) { return row_start(p->first_token + t, p->ld); }
static inline ulong y_start(const place *p, ulong t) { return row_start(p->first_token + t, p->C) + p->q; }

// Keep factors of a tile: a draw is of 4 weights side by side.
static inline void draw_tile(const mask *m, const place *p, ulong first_row, ulong first_key, local float *weights) {
    enum { DRAWS = KEYS / 4 + 1 };
    for (uint e = (uint)get_local_id(0); DROPOUT && e < ROWS * DRAWS; e += ITEMS) {
        const uint row = e / DRAWS;
        const ulong first = row_start(p->head_row + first_row + row, p->T) + first_key;
        const ulong draw = first / 4 + e % DRAWS;
        const uint4 words = philox(m->key, draw, m->step);
        const uint word[4] = {words.x, words.y, words.z, words.w};
        const int s = (int)(draw * 4 - first); // of the first word
        for (int i = 0; i < 4; i++) {
            if (s + i >= 0 && s + i < KEYS) {
                weights[row * WEIGHTS_LD + (uint)(s + i)] = word[i] >= m->threshold ? m->scale : 0.0f;
            }
        }
    }
}

// --- rows of a head ------------------------------------------------------------------------------------------

// Chunk c of a row; zeros beyond HS.
static inline float4 read_chunk(const global data *row, uint c) {
    const global data *from = row + c * 4;
#if LOAD == 4
    return widen4(*(const global data4 *)from);
#else
    const uint n = HS - c * 4;
    return (float4)(widen(from[0]), n > 1 ? widen(from[1]) : 0.0f, n > 2 ? widen(from[2]) : 0.0f,
                    n > 3 ? widen(from[3]) : 0.0f);
#endif
}

static inline void write_chunk(float4 x, global data *row, uint c) {
    global data *to = row + c * 4;
#if LOAD == 4
    *(global data4 *)to = narrow4(x);
#else
    const float part[4] = {x.x, x.y, x.z, x.w};
    for (uint i = 0; i < 4 && c * 4 + i < HS; i++) {
        to[i] = narrow(part[i]);
    }
#endif
}

// All items: a tile (n_tile,LD) of rows times factor, zeros beyond n_rows.
static inline void stage(const global data *from, ulong ld, ulong n_rows, uint n_tile, float factor,
                         local float *tile) {
    for (uint e = (uint)get_local_id(0); e < n_tile * CHUNKS; e += ITEMS) {
        const uint row = e / CHUNKS;
        const uint c = e % CHUNKS;
        const float4 x = row < n_rows ? factor * read_chunk(from + row_start(row, ld), c) : (float4)(0.0f);
        *(local float4 *)(tile + row * LD + c * 4) = x;
    }
}

// Chunk j of this item; where the last ones are nobody's, one that exists.
static inline uint chunk_of(uint x, uint j) {
    const uint c = x + j * ITEMS_X;
    return CHUNKS % ITEMS_X == 0 || c < CHUNKS ? c : CHUNKS - 1;
}

static inline bool has_chunk(uint x, uint j) { return CHUNKS % ITEMS_X == 0 || x + j * ITEMS_X < CHUNKS; }

static inline float4 multiply_add4(float a, float4 b, float4 c) { return multiply_add((float4)(a), b, c); }

// --- products of tiles -----------------------------------------------------------------------------------------

// score = a b^T of this item: a (ROWS,LD) from row y on, b (KEYS,LD) from row x on
inlined void multiply_rows(const local float *a, const local float *b, float score[ROWS_EACH][KEYS_EACH]) {
    UNROLLED for (uint i = 0; i < ROWS_EACH; i++) {
        UNROLLED for (uint j = 0; j < KEYS_EACH; j++) {
            score[i][j] = 0.0f;
        }
    }
#pragma unroll 4
    for (uint c = 0; c < CHUNKS; c++) {
        float4 p[ROWS_EACH];
        float4 q[KEYS_EACH];
        UNROLLED for (uint i = 0; i < ROWS_EACH; i++) {
            p[i] = *(const local float4 *)(a + i * ITEMS_Y * LD + c * 4);
        }
        UNROLLED for (uint j = 0; j < KEYS_EACH; j++) {
            q[j] = *(const local float4 *)(b + j * ITEMS_X * LD + c * 4);
        }
        UNROLLED for (uint i = 0; i < ROWS_EACH; i++) {
            UNROLLED for (uint j = 0; j < KEYS_EACH; j++) {
                float sum = multiply_add(p[i].x, q[j].x, score[i][j]);
                sum = multiply_add(p[i].y, q[j].y, sum);
                sum = multiply_add(p[i].z, q[j].z, sum);
                score[i][j] = multiply_add(p[i].w, q[j].w, sum);
            }
        }
    }
}

// sum += w b of this item's rows: w (ROWS,WEIGHTS_LD) from row y on, b (KEYS,LD)
inlined void add_weighted(const local float *w, const local float *b, uint x,
                                float4 sum[ROWS_EACH][CHUNKS_EACH]) {
#pragma unroll 2
    for (uint k = 0; k < KEYS; k += 4) {
        float4 p[ROWS_EACH];
        UNROLLED for (uint i = 0; i < ROWS_EACH; i++) {
            p[i] = *(const local float4 *)(w + i * ITEMS_Y * WEIGHTS_LD + k);
        }
        UNROLLED for (uint j = 0; j < CHUNKS_EACH; j++) {
            const local float *column = b + k * LD + chunk_of(x, j) * 4;
            const float4 q0 = *(const local float4 *)column;
            const float4 q1 = *(const local float4 *)(column + LD);
            const float4 q2 = *(const local float4 *)(column + 2 * LD);
            const float4 q3 = *(const local float4 *)(column + 3 * LD);
            UNROLLED for (uint i = 0; i < ROWS_EACH; i++) {
                float4 z = multiply_add4(p[i].x, q0, sum[i][j]);
                z = multiply_add4(p[i].y, q1, z);
                z = multiply_add4(p[i].z, q2, z);
                sum[i][j] = multiply_add4(p[i].w, q3, z);
            }
        }
    }
}

// --- forward -------------------------------------------------------------------------------------------------

// Scores of keys before a row's document become -infinity. The last row's begins last.
static inline void hide_past(const place *p, ulong first_row, ulong first_key, float score[ROWS_EACH][KEYS_EACH]) {
    if (first_key_of(p->starts, min(first_row + ROWS, p->T) - 1) <= first_key) {
        return;
    }
    UNROLLED for (int i = 0; i < ROWS_EACH; i++) {
        const ulong start = first_key_of(p->starts, min(first_row + p->y + i * ITEMS_Y, p->T - 1));
        UNROLLED for (int j = 0; j < KEYS_EACH; j++) {
            score[i][j] = first_key + p->x + j * ITEMS_X < start ? -INFINITY : score[i][j];
        }
    }
}

// Scores of keys that a row does not see become -infinity.
static inline void hide_keys(const place *p, ulong first_row, ulong first_key, float score[ROWS_EACH][KEYS_EACH]) {
    if (DOCUMENTS) {
        hide_past(p, first_row, first_key, score);
    }
    if (first_key + KEYS <= first_row + 1) {
        return;
    }
    const int ahead = (int)((long)first_key - (long)first_row) + (int)p->x - (int)p->y;
    UNROLLED for (int i = 0; i < ROWS_EACH; i++) {
        UNROLLED for (int j = 0; j < KEYS_EACH; j++) {
            score[i][j] = ahead + j * ITEMS_X > i * ITEMS_Y ? -INFINITY : score[i][j];
        }
    }
}

#if FORWARD
// The largest of each row so far, and what this tile makes of it; `shared` (ROWS,ITEMS_X).
static inline void find_largest(const place *p, float score[ROWS_EACH][KEYS_EACH], local float *shared,
                                float largest[ROWS_EACH]) {
    UNROLLED for (uint i = 0; i < ROWS_EACH; i++) {
        float x = score[i][0];
        UNROLLED for (uint j = 1; j < KEYS_EACH; j++) {
            x = fmax(x, score[i][j]);
        }
        shared[(p->y + i * ITEMS_Y) * ITEMS_X + p->x] = x;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLLED for (uint i = 0; i < ROWS_EACH; i++) {
        const local float *row = shared + (p->y + i * ITEMS_Y) * ITEMS_X;
        UNROLLED for (uint j = 0; j < ITEMS_X; j += 4) {
            const float4 x = *(const local float4 *)(row + j);
            largest[i] = fmax(largest[i], fmax(fmax(x.x, x.y), fmax(x.z, x.w)));
        }
    }
}

kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
attention_forward(ulong T, ulong NH, ulong NKV, IN(int, starts), ulong key, uint threshold, float drop_scale,
                  IN(data, qkv), IN(uint, rng_step), OUT(data, y), OUT(float, lse)) {
    local float rows[ROWS * LD] __attribute__((aligned(16)));
    local float keys[KEYS * LD > ROWS * WEIGHTS_LD ? KEYS * LD : ROWS * WEIGHTS_LD] __attribute__((aligned(16)));
    local float values[KEYS * LD] __attribute__((aligned(16)));
    local float shared[ROWS * ITEMS_X] __attribute__((aligned(16)));
    local float *weights = keys; // once the scores are there, nobody needs the keys
    const place p = find_place(get_group_id(0), T, NH, NKV, starts + starts_at);
    const mask drop = make_mask(key, threshold, drop_scale, rng_step + rng_step_at);
    const ulong first_row = (get_num_groups(1) - 1 - get_group_id(1)) * (ulong)ROWS; // those with most to do first
    const ulong n_keys = min(T, first_row + ROWS);                                   // that any of the rows sees
    float largest[ROWS_EACH];
    float total[ROWS_EACH]; // of this item's keys
    float4 result[ROWS_EACH][CHUNKS_EACH];
    UNROLLED for (uint i = 0; i < ROWS_EACH; i++) {
        largest[i] = LEAST_SCORE;
        total[i] = 0.0f;
        UNROLLED for (uint j = 0; j < CHUNKS_EACH; j++) {
            result[i][j] = (float4)(0.0f);
        }
    }
    stage(qkv + qkv_at + qkv_start(&p, first_row) + p.q, p.ld, T - first_row, ROWS, SCALE, rows);
    for (ulong first_key = first_key_of(p.starts, first_row) / KEYS * KEYS; first_key < n_keys; first_key += KEYS) {
        const global data *of_keys = qkv + qkv_at + qkv_start(&p, first_key);
        float score[ROWS_EACH][KEYS_EACH];
        float before[ROWS_EACH];
        barrier(CLK_LOCAL_MEM_FENCE);
        stage(of_keys + p.k, p.ld, T - first_key, KEYS, 1.0f, keys);
        stage(of_keys + p.v, p.ld, T - first_key, KEYS, 1.0f, values);
        barrier(CLK_LOCAL_MEM_FENCE);
        multiply_rows(rows + p.y * LD, keys + p.x * LD, score);
        hide_keys(&p, first_row, first_key, score);
        UNROLLED for (uint i = 0; i < ROWS_EACH; i++) {
            before[i] = largest[i];
        }
        find_largest(&p, score, shared, largest);
#if DROPOUT
        draw_tile(&drop, &p, first_row, first_key, weights);
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
        UNROLLED for (uint i = 0; i < ROWS_EACH; i++) {
            const float shrink = exp(before[i] - largest[i]);
            const uint row = p.y + i * ITEMS_Y;
            total[i] *= shrink;
            UNROLLED for (uint j = 0; j < CHUNKS_EACH; j++) {
                result[i][j] *= shrink;
            }
            UNROLLED for (uint j = 0; j < KEYS_EACH; j++) {
                const uint at = row * WEIGHTS_LD + p.x + j * ITEMS_X;
                const float w = exp(score[i][j] - largest[i]);
                total[i] += w;
                weights[at] = w * (DROPOUT ? weights[at] : 1.0f);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        add_weighted(weights + p.y * WEIGHTS_LD, values, p.x, result);
    }
    UNROLLED for (uint i = 0; i < ROWS_EACH; i++) {
        shared[(p.y + i * ITEMS_Y) * ITEMS_X + p.x] = total[i];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLLED for (uint i = 0; i < ROWS_EACH; i++) {
        const ulong t = first_row + p.y + i * ITEMS_Y;
        float sum = 0.0f;
        for (uint j = 0; j < ITEMS_X; j++) {
            sum += shared[(p.y + i * ITEMS_Y) * ITEMS_X + j];
        }
        if (t < T) {
            UNROLLED for (uint j = 0; j < CHUNKS_EACH; j++) {
                if (has_chunk(p.x, j)) {
                    write_chunk(result[i][j] * (1.0f / sum), y + y_at + y_start(&p, t), chunk_of(p.x, j));
                }
            }
            if (p.x == 0) {
                lse[lse_at + p.head_row + t] = largest[i] + log(sum);
            }
        }
    }
}

// att[t,s] = exp(s - lse), or 0 for keys that t does not see. A group has ROWS rows, and walks all keys.
kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
attention_weights(ulong T, ulong NH, ulong NKV, IN(int, starts), IN(data, qkv), IN(float, lse), OUT(data, att)) {
    local float rows[ROWS * LD] __attribute__((aligned(16)));
    local float keys[KEYS * LD] __attribute__((aligned(16)));
    const place p = find_place(get_group_id(0), T, NH, NKV, starts + starts_at);
    const ulong first_row = get_group_id(1) * ROWS;
    stage(qkv + qkv_at + qkv_start(&p, first_row) + p.q, p.ld, T - first_row, ROWS, SCALE, rows);
    for (ulong first_key = 0; first_key < T; first_key += KEYS) {
        float score[ROWS_EACH][KEYS_EACH];
        barrier(CLK_LOCAL_MEM_FENCE);
        stage(qkv + qkv_at + qkv_start(&p, first_key) + p.k, p.ld, T - first_key, KEYS, 1.0f, keys);
        barrier(CLK_LOCAL_MEM_FENCE);
        multiply_rows(rows + p.y * LD, keys + p.x * LD, score);
        hide_keys(&p, first_row, first_key, score);
        for (uint i = 0; i < ROWS_EACH; i++) {
            const ulong t = first_row + p.y + i * ITEMS_Y;
            for (uint j = 0; j < KEYS_EACH; j++) {
                const ulong s = first_key + p.x + j * ITEMS_X;
                if (t < T && s < T) {
                    att[att_at + (p.head_row + t) * T + s] = narrow(exp(score[i][j] - lse[lse_at + p.head_row + t]));
                }
            }
        }
    }
}

#else
// --- backward ------------------------------------------------------------------------------------------------

static inline float keep(const mask *m, const place *p, ulong t, ulong s) {
    const ulong element = row_start(p->head_row + t, p->T) + s;
    return DROPOUT ? keep_factor(m->key, m->step, element, m->threshold, m->scale) : 1.0f;
}

// sum += w^T b of this item's keys: w (ROWS,WEIGHTS_LD) from column 4 y on, b (ROWS,LD)
inlined void add_gathered(const local float *w, const local float *b, uint x,
                                float4 sum[OWN_KEYS][CHUNKS_EACH]) {
#pragma unroll 4
    for (uint t = 0; t < ROWS; t++) {
        float4 q[CHUNKS_EACH];
        UNROLLED for (uint j = 0; j < CHUNKS_EACH; j++) {
            q[j] = *(const local float4 *)(b + t * LD + chunk_of(x, j) * 4);
        }
        UNROLLED for (uint i = 0; i < OWN_KEYS; i += 4) {
            const float4 p = *(const local float4 *)(w + t * WEIGHTS_LD + i * ITEMS_Y);
            UNROLLED for (uint j = 0; j < CHUNKS_EACH; j++) {
                sum[i][j] = multiply_add4(p.x, q[j], sum[i][j]);
                sum[i + 1][j] = multiply_add4(p.y, q[j], sum[i + 1][j]);
                sum[i + 2][j] = multiply_add4(p.z, q[j], sum[i + 2][j]);
                sum[i + 3][j] = multiply_add4(p.w, q[j], sum[i + 3][j]);
            }
        }
    }
}

// The numbers that a kernel needs for every row: its D, and, unless the weights are stored, its lse.
typedef struct {
    float sum[ROWS_EACH];
    float log_total[ROWS_EACH];
} row_facts;

// D: from y where there is one, else from the stored weights. SUM_ITEMS items a row.
#define SUM_ITEMS 8
#define SUM_ROWS  8 // of a group

kernel __attribute__((reqd_work_group_size(SUM_ITEMS *SUM_ROWS, 1, 1))) void
attention_backward_sums(ulong T, ulong NH, ulong NKV, IN(int, starts), ulong key, uint threshold, float drop_scale,
                        IN(data, dy), IN(data, qkv), IN(kept_value, lse), IN(uint, rng_step), IN(data, y),
                        OUT(float, D)) {
    local float shared[SUM_ITEMS * SUM_ROWS];
    const place p = find_place(get_group_id(1), T, NH, NKV, starts + starts_at);
    const uint row = (uint)get_local_id(0) / SUM_ITEMS;
    const uint x = (uint)get_local_id(0) % SUM_ITEMS;
    const ulong t = get_group_id(0) * SUM_ROWS + row;
    const mask drop = make_mask(key, threshold, drop_scale, rng_step + rng_step_at);
    const global data *dyt = dy + dy_at + y_start(&p, min(t, T - 1));
    float sum = 0.0f;
    for (uint c = x; !STORED && c < CHUNKS; c += SUM_ITEMS) {
        const float4 product = read_chunk(dyt, c) * read_chunk(y + y_at + y_start(&p, min(t, T - 1)), c);
        sum += (product.x + product.z) + (product.y + product.w);
    }
    for (ulong s = first_key_of(p.starts, min(t, T - 1)) + x; STORED && t < T && s <= t; s += SUM_ITEMS) {
        const global data *v = qkv + qkv_at + qkv_start(&p, s) + p.v;
        float da = 0.0f;
        for (uint i = 0; i < HS; i++) {
            da = multiply_add(widen(dyt[i]), widen(v[i]), da);
        }
        sum += widen_kept(lse[lse_at + (get_group_id(1) * T + t) * T + s]) * keep(&drop, &p, t, s) * da;
    }
    shared[row * SUM_ITEMS + x] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (x == 0 && t < T) {
        for (uint i = 1; i < SUM_ITEMS; i++) {
            sum += shared[row * SUM_ITEMS + i];
        }
        D[D_at + p.head_row + t] = sum;
    }
}

static inline row_facts read_row_facts(const global kept_value *lse, const global float *D, const place *p,
                                       ulong first_row) {
    row_facts facts;
    UNROLLED for (uint i = 0; i < ROWS_EACH; i++) {
        const ulong t = first_row + p->y + i * ITEMS_Y;
        facts.sum[i] = t < p->T ? D[p->head_row + t] : 0.0f;
        facts.log_total[i] = !STORED && t < p->T ? widen_kept(lse[p->head_row + t]) : 0.0f;
    }
    return facts;
}

// Stores dropout(att) in `weights`. With dropout, `kept` holds draw_tile's factors, and gets att, negative for dropped
// weights. Rows beyond T have zeros for q and dy, and add nothing.
static inline void put_weights(const global kept_value *lse, const place *p, const row_facts *facts, ulong first_row,
                               ulong first_key, float score[ROWS_EACH][KEYS_EACH], local float *kept,
                               local float *weights) {
    if (!STORED) {
        hide_keys(p, first_row, first_key, score);
    }
    UNROLLED for (uint i = 0; i < ROWS_EACH; i++) {
        const ulong t = first_row + p->y + i * ITEMS_Y;
        UNROLLED for (uint j = 0; j < KEYS_EACH; j++) {
            const ulong s = first_key + p->x + j * ITEMS_X;
            const uint at = (p->y + i * ITEMS_Y) * WEIGHTS_LD + p->x + j * ITEMS_X;
            const float att = !STORED               ? exp(score[i][j] - facts->log_total[i])
                              : t < p->T && s <= t ? widen_kept(lse[(p->head_row + t) * p->T + s])
                                                    : 0.0f;
            if (DROPOUT) {
                const float factor = kept[at];
                weights[at] = att * factor;
                kept[at] = factor > 0.0f ? att : -att;
            } else {
                weights[at] = att;
            }
        }
    }
}

// dweight = dy v^T becomes ds.
static inline void finish_dweight(const place *p, const row_facts *facts, float drop_scale, const local float *kept,
                                  const local float *weights, float dweight[ROWS_EACH][KEYS_EACH]) {
    UNROLLED for (uint i = 0; i < ROWS_EACH; i++) {
        UNROLLED for (uint j = 0; j < KEYS_EACH; j++) {
            const uint at = (p->y + i * ITEMS_Y) * WEIGHTS_LD + p->x + j * ITEMS_X;
            const float att = DROPOUT ? kept[at] : weights[at];
            const float da = !DROPOUT ? dweight[i][j] : att > 0.0f ? drop_scale * dweight[i][j] : 0.0f;
            dweight[i][j] = fabs(att) * (da - facts->sum[i]);
        }
    }
}

static inline void put_dweight(const place *p, float dweight[ROWS_EACH][KEYS_EACH], local float *weights) {
    UNROLLED for (uint i = 0; i < ROWS_EACH; i++) {
        UNROLLED for (uint j = 0; j < KEYS_EACH; j++) {
            weights[(p->y + i * ITEMS_Y) * WEIGHTS_LD + p->x + j * ITEMS_X] = dweight[i][j];
        }
    }
}

// This item's share of a part of dq, of the rows of a tile: read (zeros where there is none yet), and written.
static inline void read_dq(const global float *part, const place *p, ulong first_row, bool is_first,
                           float4 dq[ROWS_EACH][CHUNKS_EACH]) {
    UNROLLED for (uint i = 0; i < ROWS_EACH; i++) {
        const ulong t = first_row + p->y + i * ITEMS_Y;
        UNROLLED for (uint j = 0; j < CHUNKS_EACH; j++) {
            const ulong at = row_start(p->head_row + t, CHUNKS * 4) + chunk_of(p->x, j) * 4;
            dq[i][j] = is_first || t >= p->T ? (float4)(0.0f) : *(const global float4 *)(part + at);
        }
    }
}

static inline void write_dq(float4 dq[ROWS_EACH][CHUNKS_EACH], const place *p, ulong first_row, global float *part) {
    UNROLLED for (uint i = 0; i < ROWS_EACH; i++) {
        const ulong t = first_row + p->y + i * ITEMS_Y;
        UNROLLED for (uint j = 0; j < CHUNKS_EACH; j++) {
            if (t < p->T && has_chunk(p->x, j)) {
                *(global float4 *)(part + row_start(p->head_row + t, CHUNKS * 4) + chunk_of(p->x, j) * 4) = dq[i][j];
            }
        }
    }
}

// A part of dq of rows from first_row on becomes zero: with documents, its first tile of keys is not seen by all rows.
static inline void clear_dq(const place *p, ulong first_row, global float *part) {
    float4 zeros[ROWS_EACH][CHUNKS_EACH];
    read_dq(part, p, first_row, true, zeros);
    for (; first_row < p->T; first_row += ROWS) {
        write_dq(zeros, p, first_row, part);
    }
}

static inline void clear_sums(float4 sum[OWN_KEYS][CHUNKS_EACH]) {
    UNROLLED for (uint i = 0; i < OWN_KEYS; i++) {
        UNROLLED for (uint j = 0; j < CHUNKS_EACH; j++) {
            sum[i][j] = (float4)(0.0f);
        }
    }
}

// The n-th tile of a part: to and fro, as those to the left have more rows.
static inline ulong tile_of(ulong part, ulong n_parts, ulong n) {
    return n * n_parts + (n % 2 == 0 ? part : n_parts - 1 - part);
}

// dk and dv of a part of the tiles of keys of a head of k and v, of each head of q that shares it, and their share of
// dq: `dq` (n_parts,B,NH,T,4 CHUNKS). The part's tile n = 0 is the leftmost: below it, all of its dq is written.
kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
attention_backward_keys(ulong T, ulong NH, ulong NKV, IN(int, starts), ulong key, uint threshold, float drop_scale,
                        IN(data, dy), IN(data, qkv), IN(kept_value, lse), IN(uint, rng_step), IN(float, D),
                        OUT(float, dq), OUT(data, dqkv)) {
    local float rows[ROWS * LD] __attribute__((aligned(16)));
    local float drows[ROWS * LD] __attribute__((aligned(16)));
    local float keys[KEYS * LD] __attribute__((aligned(16)));
    local float values[KEYS * LD] __attribute__((aligned(16)));
    local float weights[ROWS * WEIGHTS_LD] __attribute__((aligned(16)));
#if DROPOUT
    local float kept[ROWS * WEIGHTS_LD];
#else
    local float *kept = weights; // not used
#endif
    const ulong sharing = NH / NKV;
    const ulong first_head = get_group_id(0) * sharing;
    const ulong n_parts = get_num_groups(1);
    const mask drop = make_mask(key, threshold, drop_scale, rng_step + rng_step_at);
    dq += dq_at + get_group_id(1) * get_num_groups(0) * sharing * row_start(T, CHUNKS * 4);
    for (ulong head = first_head; DOCUMENTS && head < first_head + sharing; head++) {
        const place p = find_place(head, T, NH, NKV, starts + starts_at);
        clear_dq(&p, get_group_id(1) * KEYS / ROWS * ROWS, dq);
    }
    for (ulong n = 0; tile_of(get_group_id(1), n_parts, n) * KEYS < T; n++) {
        place p = find_place(first_head, T, NH, NKV, starts + starts_at);
        const ulong first_key = tile_of(get_group_id(1), n_parts, n) * KEYS;
        const ulong end_row = end_of_rows(p.starts, T, min(first_key + KEYS, T) - 1);
        const global data *of_keys = qkv + qkv_at + qkv_start(&p, first_key);
        float4 dk[OWN_KEYS][CHUNKS_EACH];
        float4 dv[OWN_KEYS][CHUNKS_EACH];
        clear_sums(dk);
        clear_sums(dv);
        barrier(CLK_LOCAL_MEM_FENCE);
        stage(of_keys + p.k, p.ld, T - first_key, KEYS, 1.0f, keys);
        stage(of_keys + p.v, p.ld, T - first_key, KEYS, 1.0f, values);
        for (ulong head = first_head; head < first_head + sharing; head++) {
            p = find_place(head, T, NH, NKV, starts + starts_at);
            for (ulong first_row = first_key / ROWS * ROWS; first_row < end_row; first_row += ROWS) {
                float score[ROWS_EACH][KEYS_EACH];
                float dweight[ROWS_EACH][KEYS_EACH];
                float4 dq_rows[ROWS_EACH][CHUNKS_EACH];
                const row_facts facts = read_row_facts(lse + lse_at, D + D_at, &p, first_row);
                barrier(CLK_LOCAL_MEM_FENCE);
                stage(qkv + qkv_at + qkv_start(&p, first_row) + p.q, p.ld, T - first_row, ROWS, SCALE, rows);
                stage(dy + dy_at + y_start(&p, first_row), p.C, T - first_row, ROWS, 1.0f, drows);
                draw_tile(&drop, &p, first_row, first_key, kept);
                barrier(CLK_LOCAL_MEM_FENCE);
                multiply_rows(rows + p.y * LD, keys + p.x * LD, score);
                put_weights(lse + lse_at, &p, &facts, first_row, first_key, score, kept, weights);
                multiply_rows(drows + p.y * LD, values + p.x * LD, dweight);
                finish_dweight(&p, &facts, drop_scale, kept, weights, dweight);
                barrier(CLK_LOCAL_MEM_FENCE);
                add_gathered(weights + p.y * 4, drows, p.x, dv);
                barrier(CLK_LOCAL_MEM_FENCE);
                put_dweight(&p, dweight, weights);
                read_dq(dq, &p, first_row, !DOCUMENTS && n == 0, dq_rows);
                barrier(CLK_LOCAL_MEM_FENCE);
                add_gathered(weights + p.y * 4, rows, p.x, dk); // these rows are q / sqrt(HS)
                add_weighted(weights + p.y * WEIGHTS_LD, keys, p.x, dq_rows);
                write_dq(dq_rows, &p, first_row, dq);
            }
        }
        UNROLLED for (uint i = 0; i < OWN_KEYS; i++) {
            const ulong s = first_key + i / 4 * (ITEMS_Y * 4) + p.y * 4 + i % 4;
            UNROLLED for (uint j = 0; j < CHUNKS_EACH; j++) {
                if (s < T && has_chunk(p.x, j)) {
                    global data *to = dqkv + dqkv_at + qkv_start(&p, s);
                    write_chunk(dk[i][j], to + p.k, chunk_of(p.x, j));
                    write_chunk(dv[i][j], to + p.v, chunk_of(p.x, j));
                }
            }
        }
    }
}

// dq: the sum of its parts, of which part n begins with key n KEYS. An item a chunk.
kernel void attention_backward_queries(ulong T, ulong NH, ulong NKV, IN(int, starts), ulong n_parts, IN(float, parts),
                                       OUT(data, dqkv)) {
    const ulong t = get_global_id(0) / CHUNKS;
    const uint c = (uint)(get_global_id(0) % CHUNKS);
    if (t >= T) {
        return;
    }
    const place p = find_place(get_group_id(1), T, NH, NKV, starts + starts_at);
    const ulong n = min(n_parts, t / KEYS + 1);
    const global float *part = parts + parts_at + row_start(p.head_row + t, CHUNKS * 4) + c * 4;
    float4 sum = (float4)(0.0f);
    for (ulong i = 0; i < n; i++) {
        sum += *(const global float4 *)(part + i * get_num_groups(1) * row_start(T, CHUNKS * 4));
    }
    write_chunk(sum * SCALE, dqkv + dqkv_at + qkv_start(&p, t) + p.q, c);
}
#endif
