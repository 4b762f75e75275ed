// attention_tensor.cl: causal multi-head attention on matrix units, for 16-bit data and fp32 rounded to tf32. The
// formulas, tensors and the order of work are those of attention_local.cl (Dao 2023, FlashAttention-2); the weights are
// never in global memory.
//
// A warp owns WARP_ROWS rows (forward, dq) or as many keys (dk, dv): fragments of 16, whose scores, weights and results
// it keeps in registers. The other operands come by tiles through local memory (attention_tiles.cl). Weights become the
// first operand of the next product where they are, in registers: the layout of a result is that of a first operand (16
// bits), or is with the summands in another order (tf32: pair's two columns, 2 pair and 2 pair + 1, stand for pair and
// pair + 4; the second operand's rows are taken in the same order).
//
// With documents (starts (B,T)) row t's keys begin with starts[t]: tiles of keys that no row sees, and of rows that see
// no key, are left out.
//
//   forward   s = q k^T,          y += att v               att (rows, keys)
//   dq        s = q k^T, dy v^T,  dq += ds k               ds  (rows, keys)
//   dk, dv    s^T = k q^T, v dy^T, dv += att^T dy, dk += ds^T q   both (keys, rows)

// --- operands ------------------------------------------------------------------------------------------------------

// Pads rows with an odd number of chunks by zeros, since the last step of a product reads one more chunk.
inlined void clear_ends(local uint4 *rows, uint n_rows) {
    if (CHUNKS % 2 != 0) {
        for (uint row = (uint)get_local_id(0); row < n_rows; row += ITEMS) {
            rows[row * (PITCH / 16) + CHUNKS] = (uint4)(0);
        }
    }
}

#if defined(DATA_BF16) || defined(DATA_F16) || SPLIT
#define ROUND(x)
#else
#define ROUND(x)                                 \
    for (uint round_i = 0; round_i < 4; round_i++) { \
        x[round_i] = round_tf32(as_float(x[round_i])); \
    }
#endif

#if defined(DATA_BF16)
#define pack pack_bf16
#else
#define pack pack_f16
#endif

// First operand: 16 of the own rows, from `first` on, step k of their channels.
inlined void load_a(uint a[4], uint rows, uint first, uint k) {
    load_matrices(a, rows + find_chunk(first + LANE % 16, 2 * k + LANE / 16, OWN));
    ROUND(a)
}

// Results of a product as the first operand of the next.
#if defined(DATA_BF16) || defined(DATA_F16)
#define SUM_STEPS (STEP / 16)
inlined void to_a(float c[STEP_TILES][4], uint k, uint a[4]) {
    a[0] = pack(c[2 * k][0], c[2 * k][1]);
    a[1] = pack(c[2 * k][2], c[2 * k][3]);
    a[2] = pack(c[2 * k + 1][0], c[2 * k + 1][1]);
    a[3] = pack(c[2 * k + 1][2], c[2 * k + 1][3]);
}
#else
#define SUM_STEPS (STEP / 8)
inlined void to_a(float c[STEP_TILES][4], uint k, uint a[4]) {
    a[0] = as_uint(c[k][0]);
    a[1] = as_uint(c[k][2]);
    a[2] = as_uint(c[k][1]);
    a[3] = as_uint(c[k][3]);
    ROUND(a)
}
#endif

// The owned rows' operand: in registers where `kept`, or read when needed.
typedef uint operand[FRAGMENTS][K_STEPS][4];

inlined void load_operand(operand o, bool kept, uint rows) {
    UNROLLED for (uint f = 0; kept && f < FRAGMENTS; f++) {
        UNROLLED for (uint k = 0; k < K_STEPS; k++) {
            load_a(o[f][k], rows, MY_FIRST + f * 16, k);
        }
    }
}

#define FILL(x, n, value)                                \
    _Pragma("unroll") for (uint fill_f = 0; fill_f < FRAGMENTS; fill_f++) { \
        _Pragma("unroll") for (uint fill_j = 0; fill_j < (n); fill_j++) { \
            _Pragma("unroll") for (uint fill_i = 0; fill_i < 4; fill_i++) { \
                x[fill_f][fill_j][fill_i] = (value);     \
            }                                            \
        }                                                \
    }

#if !WGMMA
inlined void multiply(float c[4], const uint a[4], uint b0, uint b1) {
#if defined(DATA_BF16)
    multiply_bf16(c, a, b0, b1);
#elif defined(DATA_F16)
    multiply_f16(c, a, b0, b1);
#elif SPLIT
    uint large[4];
    uint small[4];
    UNROLLED for (uint i = 0; i < 4; i++) {
        large[i] = round_tf32(as_float(a[i]));
        small[i] = round_tf32(as_float(a[i]) - as_float(large[i]));
    }
    const uint large0 = round_tf32(as_float(b0));
    const uint large1 = round_tf32(as_float(b1));
    multiply_tf32(c, small, large0, large1);
    multiply_tf32(c, large, round_tf32(as_float(b0) - as_float(large0)), round_tf32(as_float(b1) - as_float(large1)));
    multiply_tf32(c, large, large0, large1);
#else
    multiply_tf32(c, a, b0, b1);
#endif
}

// Second operand, transposed: 16 rows from `rows` on, as columns. Words 0 and 1 are of the first 8, 2 and 3 of the others.
inlined void load_b(uint b[4], uint rows, uint k) {
    load_matrices(b, rows + (LANE % 8 + LANE / 16 * 8) * PITCH + LANE / 8 % 2 * 16 + k * 32);
    ROUND(b)
}

// Second operand as it lies: summands are rows, of step k; columns channels 16 n and on, words as in load_b.
inlined void load_b_rows(uint b[4], uint rows, uint k, uint n) {
#if defined(DATA_BF16) || defined(DATA_F16)
    load_matrices_transposed(b, rows + (k * 16 + LANE % 16) * PITCH + LANE / 16 * 16 + n * 32);
#else
    const uint at = rows + (k * 8 + 2 * PAIR) * PITCH + (n * 16 + ROW) * 4;
    b[0] = load_word(at);
    b[1] = load_word(at + PITCH);
    b[2] = load_word(n * 2 + 1 < ROW_TILES ? at + 32 : at);
    b[3] = load_word(n * 2 + 1 < ROW_TILES ? at + PITCH + 32 : at);
    ROUND(b)
#endif
}

// score += a b^T: a the warp's rows (in registers where `kept`), b STEP rows
inlined void multiply_rows(operand o, bool kept, tile_name a_rows, tile_name b_rows,
                                 float score[FRAGMENTS][STEP_TILES][4]) {
    UNROLLED for (uint k = 0; k < K_STEPS; k++) {
        uint a[FRAGMENTS][4];
        UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
            if (kept) {
                UNROLLED for (uint i = 0; i < 4; i++) {
                    a[f][i] = o[f][k][i];
                }
            } else {
                load_a(a[f], a_rows, MY_FIRST + f * 16, k);
            }
        }
        UNROLLED for (uint j = 0; j < STEP_TILES; j += 2) {
            uint b[4];
            load_b(b, b_rows + j * 8 * PITCH, k);
            UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
                multiply(score[f][j], a[f], b[0], b[1]);
                multiply(score[f][j + 1], a[f], b[2], b[3]);
            }
        }
    }
}

// sum += w b: w (the warp's rows, STEP), b STEP rows
#if !SPLIT
inlined void add_weighted(float w[FRAGMENTS][STEP_TILES][4], tile_name b_rows, float sum[FRAGMENTS][ROW_TILES][4]) {
    UNROLLED for (uint k = 0; k < SUM_STEPS; k++) {
        uint a[FRAGMENTS][4];
        UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
            to_a(w[f], k, a[f]);
        }
        UNROLLED for (uint j = 0; j < ROW_TILES; j += 2) {
            uint b[4];
            load_b_rows(b, b_rows, k, j / 2);
            UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
                multiply(sum[f][j], a[f], b[0], b[1]);
                if (j + 1 < ROW_TILES) {
                    multiply(sum[f][(j + 1) % ROW_TILES], a[f], b[2], b[3]);
                }
            }
        }
    }
}
#else
// The units cut off what they add to large sums: those of a step begin at zero, and join the others by an addition.
inlined void add_weighted(float w[FRAGMENTS][STEP_TILES][4], tile_name b_rows, float sum[FRAGMENTS][ROW_TILES][4]) {
    UNROLLED for (uint j = 0; j < ROW_TILES; j += 2) {
        float part[FRAGMENTS][2][4];
        FILL(part, 2, 0.0f)
        UNROLLED for (uint k = 0; k < SUM_STEPS; k++) {
            uint b[4];
            load_b_rows(b, b_rows, k, j / 2);
            UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
                uint a[4];
                to_a(w[f], k, a);
                multiply(part[f][0], a, b[0], b[1]);
                multiply(part[f][1], a, b[2], b[3]);
            }
        }
        UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
            UNROLLED for (uint i = 0; i < 8; i++) {
                if (j + i / 4 < ROW_TILES) {
                    sum[f][(j + i / 4) % ROW_TILES][i % 4] += part[f][i / 4][i % 4];
                }
            }
        }
    }
}
#endif

// Products may be on their way until they are awaited: n_left of them, a literal number, still are then.
#define await_products(score, n_left) (void)(score)

#if PART != 0
inlined void multiply_rows_twice(operand o, bool kept, tile_name a_rows, tile_name b_rows,
                                 float score[FRAGMENTS][STEP_TILES][4], operand o2, bool kept2, tile_name a2_rows,
                                 tile_name b2_rows, float score2[FRAGMENTS][STEP_TILES][4]) {
    multiply_rows(o, kept, a_rows, b_rows, score);
    multiply_rows(o2, kept2, a2_rows, b2_rows, score2);
}
#endif

#if PART == 2
inlined void add_weighted_twice(float w[FRAGMENTS][STEP_TILES][4], tile_name b_rows, float sum[FRAGMENTS][ROW_TILES][4],
                                float w2[FRAGMENTS][STEP_TILES][4], tile_name b2_rows,
                                float sum2[FRAGMENTS][ROW_TILES][4]) {
    add_weighted(w, b_rows, sum);
    add_weighted(w2, b2_rows, sum2);
}
#endif

#else
#define MULTIPLY_STEP JOIN(multiply_by_rows_, STEP)
#define MULTIPLY_HEAD JOIN(multiply_by_columns_, HS)
#define SETTLE_STEP   JOIN(settle_, STEP)
#define SETTLE_HEAD   JOIN(settle_, HS)

// The same, of 64 rows by four warps, both operands in local memory: the assembler takes a first operand's registers
// for free after its product. The units' results must be settled before the units are given any registers.
inlined void begin_rows(tile_name a_rows, tile_name b_rows, float score[FRAGMENTS][STEP_TILES][4]) {
    UNROLLED for (uint k = 0; k < K_STEPS; k++) {
        MULTIPLY_STEP(score[0], a_rows + FURTHER(k / 4 * (OWN * 128) + k % 4 * 32),
                      b_rows + FURTHER(k / 4 * (TILE * 128) + k % 4 * 32));
    }
}

inlined void pack_weights(float w[FRAGMENTS][STEP_TILES][4], uint a[SUM_STEPS][4]) {
    UNROLLED for (uint k = 0; k < SUM_STEPS; k++) {
        to_a(w[0], k, a[k]);
    }
}

inlined void begin_weighted(uint a[SUM_STEPS][4], tile_name b_rows, float sum[FRAGMENTS][ROW_TILES][4]) {
    UNROLLED for (uint k = 0; k < SUM_STEPS; k++) {
        MULTIPLY_HEAD(sum[0], a[k], b_rows + FURTHER(k * (16 * 128)));
    }
}

inlined void multiply_rows(operand o, bool kept, tile_name a_rows, tile_name b_rows,
                           float score[FRAGMENTS][STEP_TILES][4]) {
    (void)o;
    (void)kept;
    SETTLE_STEP(score[0]);
    give_registers();
    begin_rows(a_rows, b_rows, score);
    end_products();
}

#define await_products(score, n_left) \
    wait_for_products(n_left);        \
    SETTLE_STEP((score)[0])

#if PART != 0
inlined void multiply_rows_twice(operand o, bool kept, tile_name a_rows, tile_name b_rows,
                                 float score[FRAGMENTS][STEP_TILES][4], operand o2, bool kept2, tile_name a2_rows,
                                 tile_name b2_rows, float score2[FRAGMENTS][STEP_TILES][4]) {
    (void)o2;
    (void)kept2;
    SETTLE_STEP(score2[0]);
    multiply_rows(o, kept, a_rows, b_rows, score);
    begin_rows(a2_rows, b2_rows, score2);
    end_products();
}
#endif

inlined void add_packed(uint a[SUM_STEPS][4], tile_name b_rows, float sum[FRAGMENTS][ROW_TILES][4]) {
    SETTLE_HEAD(sum[0]);
    give_registers();
    begin_weighted(a, b_rows, sum);
    end_products();
    wait_for_products(0);
    SETTLE_HEAD(sum[0]);
}

#define add_weighted(w, b_rows, sum)      \
    {                                     \
        uint packed[SUM_STEPS][4];        \
        pack_weights(w, packed);          \
        add_packed(packed, b_rows, sum);  \
    }

#if PART == 2
inlined void add_weighted_twice(float w[FRAGMENTS][STEP_TILES][4], tile_name b_rows, float sum[FRAGMENTS][ROW_TILES][4],
                                float w2[FRAGMENTS][STEP_TILES][4], tile_name b2_rows,
                                float sum2[FRAGMENTS][ROW_TILES][4]) {
    uint a[SUM_STEPS][4];
    uint a2[SUM_STEPS][4];
    pack_weights(w, a);
    pack_weights(w2, a2);
    SETTLE_HEAD(sum[0]);
    SETTLE_HEAD(sum2[0]);
    give_registers();
    begin_weighted(a, b_rows, sum);
    begin_weighted(a2, b2_rows, sum2);
    end_products();
    wait_for_products(0);
    SETTLE_HEAD(sum[0]);
    SETTLE_HEAD(sum2[0]);
}
#endif
#endif

// The warp's results times a factor a row, by way of its own rows of a tile in local memory: to the work-group's
// rows, the first of which is `first`, of ld elements; `to` is row 0.
inlined void write_rows(float sum[FRAGMENTS][ROW_TILES][4], float factor[FRAGMENTS][2], local uint4 *rows,
                        global data *to, uint ld, uint first, uint T) {
#if WGMMA
    wait_for_four_warps(1 + OUR); // until none multiplies these rows
#else
    wait_for_warp();
#endif
    UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
        UNROLLED for (uint h = 0; h < 2; h++) {
            const uint row = MY_FIRST + f * 16 + h * 8 + ROW;
            UNROLLED for (uint j = 0; j < ROW_TILES; j++) {
                const float x = sum[f][j][2 * h] * factor[f][h];
                const float z = sum[f][j][2 * h + 1] * factor[f][h];
#if defined(DATA_BF16) || defined(DATA_F16)
                ((local uint *)(rows + find_chunk(row, j, OWN) / 16))[PAIR] = pack(x, z);
#else
                local float *chunk = (local float *)(rows + find_chunk(row, 2 * j + PAIR / 2, OWN) / 16);
                chunk[PAIR % 2 * 2] = x;
                chunk[PAIR % 2 * 2 + 1] = z;
#endif
            }
        }
    }
    wait_for_warp();
#pragma unroll 4
    for (uint e = LANE; e < WARP_ROWS * CHUNKS; e += WARP) {
        const uint row = MY_FIRST + e / CHUNKS;
        const uint c = e % CHUNKS;
        if (first + row < T) {
            *(global uint4 *)(to + (ulong)(first + row) * ld + c * CHUNK) = rows[find_chunk(row, c, OWN) / 16];
        }
    }
}

#if PART != 0
inlined void write_scaled(float sum[FRAGMENTS][ROW_TILES][4], float scale, local uint4 *rows, global data *to, uint ld,
                          uint first, uint T) {
    float factor[FRAGMENTS][2];
    UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
        factor[f][0] = factor[f][1] = scale;
    }
    write_rows(sum, factor, rows, to, ld, first, T);
}
#endif

#if PART != 2
// --- rows of scores -----------------------------------------------------------------------------------------------

inlined float sum_of_four(float x) {
    x += exchange(x, 1);
    return x + exchange(x, 2);
}

// Dropout of (t, s) and (t, s + 1), mostly from one draw.
inlined void drop_two(const mask *m, const place *p, uint t, uint s, float weight[2]) {
    const ulong e = (p->head_row + t) * p->T + s;
    const uint4 words = philox(m->key, e / 4, m->step);
    const uint at = (uint)e % 4;
    const uint first = at == 0 ? words.x : at == 1 ? words.y : at == 2 ? words.z : words.w;
    const float factor = first >= m->threshold ? m->scale : 0.0f;
    float next;
    if (at == 3) {
        next = keep_factor(m->key, m->step, e + 1, m->threshold, m->scale);
    } else {
        const uint second = at == 0 ? words.y : at == 1 ? words.z : words.w;
        next = second >= m->threshold ? m->scale : 0.0f;
    }
    weight[0] *= factor;
    weight[1] *= next;
}

// The first key that each of this item's rows sees, and the first that any, and that all, of the warp's rows see.
typedef struct {
    uint of_row[FRAGMENTS][2];
    uint first, last;
} key_starts;

inlined key_starts find_starts(const global int *starts, uint T, uint my_row, uint our_row) {
    key_starts k;
    k.first = (uint)first_key_of(starts, min(our_row, T - 1));
    k.last = (uint)first_key_of(starts, min(my_row + WARP_ROWS, T) - 1);
    UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
        UNROLLED for (uint h = 0; h < 2; h++) {
            k.of_row[f][h] = (uint)first_key_of(starts, min(my_row + f * 16 + h * 8 + ROW, T - 1));
        }
    }
    return k;
}

// Scores of keys before a row's document become -infinity.
inlined void hide_past(const key_starts *k, uint first_key, float score[FRAGMENTS][STEP_TILES][4]) {
    if (k->last <= first_key) {
        return;
    }
    UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
        UNROLLED for (uint j = 0; j < STEP_TILES; j++) {
            UNROLLED for (uint i = 0; i < 4; i++) {
                score[f][j][i] =
                    first_key + 2 * PAIR + j * 8 + i % 2 < k->of_row[f][i / 2] ? -INFINITY : score[f][j][i];
            }
        }
    }
}

// Scores of keys that a row does not see become -infinity; for the whole warp, `first_key` is of the step.
inlined void hide_keys(const key_starts *k, uint first_row, uint first_key, float score[FRAGMENTS][STEP_TILES][4]) {
    if (DOCUMENTS) {
        hide_past(k, first_key, score);
    }
    if (first_key + STEP <= first_row + 1) {
        return;
    }
    const int ahead = (int)(first_key + 2 * PAIR) - (int)(first_row + ROW);
    UNROLLED for (int f = 0; f < FRAGMENTS; f++) {
        UNROLLED for (int j = 0; j < STEP_TILES; j++) {
            UNROLLED for (int i = 0; i < 4; i++) {
                score[f][j][i] = ahead + j * 8 + i % 2 > f * 16 + i / 2 * 8 ? -INFINITY : score[f][j][i];
            }
        }
    }
}

#endif

#if PART == 0
// --- forward -------------------------------------------------------------------------------------------------------

inlined float largest_of_four(float x) {
    x = fmax(x, exchange(x, 1));
    return fmax(x, exchange(x, 2));
}

// The largest score of each row so far, or one that is at most 2^8 times smaller in weight. True where a weight would
// become larger than that, which is seldom: then what there is of the result must shrink.
inlined bool find_largest(float score[FRAGMENTS][STEP_TILES][4], float largest[FRAGMENTS][2], float total[FRAGMENTS][2],
                          float shrink[FRAGMENTS][2]) {
    const float most = 8.0f / (SCALE * LOG2E);
    float x[FRAGMENTS][2];
    bool grows = false;
    UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
        UNROLLED for (uint h = 0; h < 2; h++) {
            x[f][h] = fmax(score[f][0][2 * h], score[f][0][2 * h + 1]);
            UNROLLED for (uint j = 1; j < STEP_TILES; j++) {
                x[f][h] = fmax(x[f][h], fmax(score[f][j][2 * h], score[f][j][2 * h + 1]));
            }
            x[f][h] = fmax(largest[f][h], largest_of_four(x[f][h]));
            grows = grows || x[f][h] > largest[f][h] + most;
        }
    }
    if (!is_any(grows)) {
        return false;
    }
    UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
        UNROLLED for (uint h = 0; h < 2; h++) {
            shrink[f][h] = fast_exp2((largest[f][h] - x[f][h]) * (SCALE * LOG2E));
            largest[f][h] = x[f][h];
            total[f][h] *= shrink[f][h];
        }
    }
    return true;
}

inlined void shrink_rows(float result[FRAGMENTS][ROW_TILES][4], float shrink[FRAGMENTS][2]) {
    UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
        UNROLLED for (uint j = 0; j < ROW_TILES; j++) {
            UNROLLED for (uint i = 0; i < 4; i++) {
                result[f][j][i] *= shrink[f][i / 2];
            }
        }
    }
}

// score becomes the weights, not yet divided by their total.
inlined void make_weights(float score[FRAGMENTS][STEP_TILES][4], float largest[FRAGMENTS][2],
                          float total[FRAGMENTS][2], const mask *drop, const place *p, uint first_row, uint first_key) {
    UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
        UNROLLED for (uint h = 0; h < 2; h++) {
            const float offset = largest[f][h] * (SCALE * LOG2E);
            UNROLLED for (uint j = 0; j < STEP_TILES; j++) {
                UNROLLED for (uint i = 2 * h; i < 2 * h + 2; i++) {
                    score[f][j][i] = fast_exp2(fma(score[f][j][i], SCALE * LOG2E, -offset));
                    total[f][h] += score[f][j][i];
                }
                if (DROPOUT) {
                    drop_two(drop, p, first_row + f * 16 + h * 8 + ROW, first_key + j * 8 + 2 * PAIR,
                             score[f][j] + 2 * h);
                }
            }
        }
    }
}

// Rows first_row.. are the work-group's, my_row.. the warp's.
kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
attention_forward(ulong T_, ulong NH, ulong NKV, ulong n_heads, IN(int, starts), ulong key, uint threshold,
                  float drop_scale, MAPS_ARGS IN(data, qkv), IN(uint, rng_step), OUT(data, y), OUT(float, lse)) {
    local uint4 rows[OWN_BYTES / 16] __attribute__((aligned(1024)));
    local uint4 tiles[RING_BYTES / 16] __attribute__((aligned(1024))); // a stage: keys, values
    const uint T = (uint)T_;
    const uint n_tiles = (T + OWN - 1) / OWN;
    uint head, tile;
    find_tile((uint)n_heads, n_tiles, T, &head, &tile);
    const place p = find_place(head, T, NH, NKV);
    const mask drop = make_mask(key, DROPOUT ? threshold : 0, drop_scale, rng_step + rng_step_at);
    const uint first_row = (n_tiles - 1 - tile) * OWN; // those with most to do first
    const uint my_row = first_row + MY_WARP * WARP_ROWS;
    const uint our_row = first_row + OUR * (TOGETHER * WARP_ROWS);
    const uint n_keys = min(T, first_row + OWN); // that any of the rows sees
    const global int *first_keys = starts + starts_at + p.first_token;
    const key_starts seen = find_starts(first_keys, T, my_row, our_row);
    const uint start_key = (uint)first_key_of(first_keys, first_row) / TILE * TILE;
    const source of_qkv = SOURCE_QKV(p);
    open_source(&of_qkv);
    ring r = make_ring(tiles);
    const tile_name stages = name_tile(r.tiles);
    const tile_name own_q = name_own(local_address(rows));
    float largest[FRAGMENTS][2];
    float total[FRAGMENTS][2]; // of this item's keys
    float shrink[FRAGMENTS][2];
    float result[FRAGMENTS][ROW_TILES][4];
    operand q;
    UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
        largest[f][0] = largest[f][1] = LEAST_SCORE;
        total[f][0] = total[f][1] = 0.0f;
    }
    FILL(result, ROW_TILES, 0.0f)
    clear_ends(rows, OWN);
    clear_ends(tiles, 2 * STAGES * TILE);
    bring_own(&r, &of_qkv, p.q, first_row, T, local_address(rows));
    for (uint i = 0; i < AHEAD; i++) {
        fill(&r, &of_qkv, p.k, &of_qkv, p.v, start_key + i * TILE, n_keys, T);
    }
    await_stage(&r);
    load_operand(q, IN_REGISTERS > 0, local_address(rows));
#if OVERLAPS
    const uint my_end = min(n_keys, our_row + TOGETHER * WARP_ROWS);
    float score[FRAGMENTS][STEP_TILES][4];
    uint weights[SUM_STEPS][4];
    fill(&r, &of_qkv, p.k, &of_qkv, p.v, start_key + AHEAD * TILE, n_keys, T);
    FILL(score, STEP_TILES, 0.0f)
    multiply_rows(q, false, own_q, stages + r.now * FURTHER(STAGE_BYTES), score);
    await_products(score, 0);
    hide_keys(&seen, my_row, start_key, score);
    find_largest(score, largest, total, shrink);
    make_weights(score, largest, total, &drop, &p, my_row, start_key);
    pack_weights(score, weights);
#pragma unroll 1
    for (uint first_key = start_key + TILE; first_key < my_end; first_key += TILE) {
        if (HS == 64) {
            fill(&r, &of_qkv, p.k, &of_qkv, p.v, first_key + AHEAD * TILE, n_keys, T);
        }
        const ring next = await_next(&r);
        FILL(score, STEP_TILES, 0.0f)
        SETTLE_HEAD(result[0]);
        multiply_rows(q, false, own_q, stages + next.now * FURTHER(STAGE_BYTES), score);
        begin_weighted(weights, stages + r.now * FURTHER(STAGE_BYTES) + FURTHER(TILE_BYTES), result);
        end_products();
        await_products(score, 1);
        hide_keys(&seen, my_row, first_key, score);
        const bool shrinks = find_largest(score, largest, total, shrink);
        make_weights(score, largest, total, &drop, &p, my_row, first_key);
        SETTLE_STEP(score[0]);
        if (HS != 64) { // its branch keeps the arithmetic above from moving behind the wait; heads of 64 lose 2% by it
            fill(&r, &of_qkv, p.k, &of_qkv, p.v, first_key + AHEAD * TILE, n_keys, T);
        }
        wait_for_products(0);
        SETTLE_HEAD(result[0]);
        leave_stage(&r);
        if (shrinks) {
            shrink_rows(result, shrink);
        }
        pack_weights(score, weights);
    }
    add_packed(weights, stages + r.now * FURTHER(STAGE_BYTES) + FURTHER(TILE_BYTES), result);
    leave_stage(&r);
#else
#pragma unroll 1
    for (uint first_key = start_key; first_key < n_keys; first_key += TILE) {
        const tile_name at = stages + r.now * FURTHER(STAGE_BYTES);
        fill(&r, &of_qkv, p.k, &of_qkv, p.v, first_key + AHEAD * TILE, n_keys, T);
#pragma unroll 1
        for (uint s = 0; s < TILE; s += STEP) {
            if (first_key + s < our_row + TOGETHER * WARP_ROWS && first_key + s + STEP > seen.first) {
                float score[FRAGMENTS][STEP_TILES][4];
                FILL(score, STEP_TILES, 0.0f)
                multiply_rows(q, IN_REGISTERS > 0, own_q, at + FURTHER(s * ROW_BYTES), score);
                await_products(score, 0);
                hide_keys(&seen, my_row, first_key + s, score);
                if (find_largest(score, largest, total, shrink)) {
                    shrink_rows(result, shrink);
                }
                make_weights(score, largest, total, &drop, &p, my_row, first_key + s);
                add_weighted(score, at + FURTHER(TILE_BYTES + s * ROW_BYTES), result);
            }
        }
        leave_stage(&r);
        if (first_key + TILE < n_keys) {
            await_stage(&r);
        }
    }
#endif
    float factor[FRAGMENTS][2];
    UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
        UNROLLED for (uint h = 0; h < 2; h++) {
            const uint t = my_row + f * 16 + h * 8 + ROW;
            const float sum = sum_of_four(total[f][h]);
            factor[f][h] = 1.0f / sum;
            if (PAIR == 0 && t < T) {
                lse[lse_at + p.head_row + t] = largest[f][h] * SCALE + log(sum);
            }
        }
    }
    write_rows(result, factor, rows, y + y_at + y_start(&p, 0), p.C, first_row, T);
}

#endif

#if PART == 1
// --- backward: dq ------------------------------------------------------------------------------------------------------

// Sum of the products of two words' numbers.
inlined float multiply_words(uint a, uint b, float sum) {
#if defined(DATA_BF16)
    const float2 x = unpack_bf16(a);
    const float2 z = unpack_bf16(b);
    return fma(x.x, z.x, fma(x.y, z.y, sum));
#elif defined(DATA_F16)
    const float2 x = unpack_f16(a);
    const float2 z = unpack_f16(b);
    return fma(x.x, z.x, fma(x.y, z.y, sum));
#else
    return fma(as_float(a), as_float(b), sum);
#endif
}

// D = sum_c dy y of the warp's rows, each by four items.
inlined void sum_rows(const global data *dy, const global data *y, const place *p, uint first_row,
                            float sum[FRAGMENTS][2]) {
    UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
        UNROLLED for (uint h = 0; h < 2; h++) {
            const uint t = first_row + f * 16 + h * 8 + ROW;
            float x = 0.0f;
            if (t < p->T) {
                const global uint4 *a = (const global uint4 *)(dy + y_start(p, t));
                const global uint4 *b = (const global uint4 *)(y + y_start(p, t));
                for (uint c = PAIR; c < CHUNKS; c += 4) {
                    x = multiply_words(a[c].x, b[c].x, x);
                    x = multiply_words(a[c].y, b[c].y, x);
                    x = multiply_words(a[c].z, b[c].z, x);
                    x = multiply_words(a[c].w, b[c].w, x);
                }
            }
            sum[f][h] = sum_of_four(x);
        }
    }
}

// Scores become weights.
inlined void weigh_rows(float score[FRAGMENTS][STEP_TILES][4], float log_total[FRAGMENTS][2]) {
    UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
        UNROLLED for (uint j = 0; j < STEP_TILES; j++) {
            UNROLLED for (uint i = 0; i < 4; i++) {
                score[f][j][i] = fast_exp2(fma(score[f][j][i], SCALE * LOG2E, -log_total[f][i / 2]));
            }
        }
    }
}

// The weights' gradients become the scores'.
inlined void slope_rows(float score[FRAGMENTS][STEP_TILES][4], float dweight[FRAGMENTS][STEP_TILES][4],
                        float sum[FRAGMENTS][2], const mask *drop, const place *p, uint my_row, uint first_key) {
    UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
        UNROLLED for (uint j = 0; j < STEP_TILES; j++) {
            UNROLLED for (uint h = 0; h < 2; h++) {
                if (DROPOUT) {
                    drop_two(drop, p, my_row + f * 16 + h * 8 + ROW, first_key + j * 8 + 2 * PAIR,
                             dweight[f][j] + 2 * h);
                }
                UNROLLED for (uint i = 2 * h; i < 2 * h + 2; i++) {
                    dweight[f][j][i] = (dweight[f][j][i] - sum[f][h]) * score[f][j][i];
                }
            }
        }
    }
}

// dq of OWN rows, and D for dk and dv, which are computed after it.
kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
attention_backward_rows(ulong T_, ulong NH, ulong NKV, ulong n_heads, IN(int, starts), ulong key, uint threshold,
                        float drop_scale, MAPS_ARGS IN(data, dy), IN(data, qkv), IN(float, lse), IN(uint, rng_step),
                        IN(data, y), OUT(float, D), OUT(data, dqkv)) {
    local uint4 rows[2 * OWN_BYTES / 16] __attribute__((aligned(1024)));   // q, dy
    local uint4 tiles[RING_BYTES / 16] __attribute__((aligned(1024))); // a stage: keys, values
    const uint T = (uint)T_;
    const uint n_tiles = (T + OWN - 1) / OWN;
    uint head, tile;
    find_tile((uint)n_heads, n_tiles, T, &head, &tile);
    const place p = find_place(head, T, NH, NKV);
    const mask drop = make_mask(key, DROPOUT ? threshold : 0, drop_scale, rng_step + rng_step_at);
    const uint first_row = (n_tiles - 1 - tile) * OWN; // those with most to do first
    const uint my_row = first_row + MY_WARP * WARP_ROWS;
    const uint our_row = first_row + OUR * (TOGETHER * WARP_ROWS);
    const uint n_keys = min(T, first_row + OWN);
    const global int *first_keys = starts + starts_at + p.first_token;
    const key_starts seen = find_starts(first_keys, T, my_row, our_row);
    const uint start_key = (uint)first_key_of(first_keys, first_row) / TILE * TILE;
    const source of_qkv = SOURCE_QKV(p);
    const source of_dy = SOURCE_DY(p);
    open_source(&of_qkv);
    open_source(&of_dy);
    ring r = make_ring(tiles);
    const tile_name stages = name_tile(r.tiles);
    const tile_name own_q = name_own(local_address(rows));
    const tile_name own_dy = own_q + FURTHER(OWN_BYTES);
    float sum[FRAGMENTS][2];
    float log_total[FRAGMENTS][2]; // to base 2
    float dq[FRAGMENTS][ROW_TILES][4];
    operand q, d;
    clear_ends(rows, 2 * OWN);
    clear_ends(tiles, 2 * STAGES * TILE);
    bring_own(&r, &of_qkv, p.q, first_row, T, local_address(rows));
    bring_own(&r, &of_dy, p.q, first_row, T, local_address(rows) + OWN_BYTES);
    for (uint i = 0; i < AHEAD; i++) {
        fill(&r, &of_qkv, p.k, &of_qkv, p.v, start_key + i * TILE, n_keys, T);
    }
    sum_rows(dy + dy_at, y + y_at, &p, my_row, sum);
    UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
        UNROLLED for (uint h = 0; h < 2; h++) {
            const uint t = my_row + f * 16 + h * 8 + ROW;
            log_total[f][h] = t < T ? lse[lse_at + p.head_row + t] * LOG2E : 0.0f;
            if (PAIR == 0 && t < T) {
                D[D_at + p.head_row + t] = sum[f][h];
            }
        }
    }
    FILL(dq, ROW_TILES, 0.0f)
    await_stage(&r);
    load_operand(q, IN_REGISTERS > 0, local_address(rows));
    load_operand(d, IN_REGISTERS > 1, local_address(rows) + OWN_BYTES);
#if OVERLAPS
    const uint my_end = min(n_keys, our_row + TOGETHER * WARP_ROWS);
    float score[FRAGMENTS][STEP_TILES][4], dweight[FRAGMENTS][STEP_TILES][4];
    uint slopes[SUM_STEPS][4];
    const tile_name first = stages + r.now * FURTHER(STAGE_BYTES);
    fill(&r, &of_qkv, p.k, &of_qkv, p.v, start_key + AHEAD * TILE, n_keys, T);
    FILL(score, STEP_TILES, 0.0f)
    FILL(dweight, STEP_TILES, 0.0f)
    multiply_rows_twice(q, false, own_q, first, score, d, false, own_dy, first + FURTHER(TILE_BYTES), dweight);
    await_products(score, 1);
    hide_keys(&seen, my_row, start_key, score);
    weigh_rows(score, log_total);
    await_products(dweight, 0);
    slope_rows(score, dweight, sum, &drop, &p, my_row, start_key);
    pack_weights(dweight, slopes);
#pragma unroll 1
    for (uint first_key = start_key + TILE; first_key < my_end; first_key += TILE) {
        const tile_name now = stages + r.now * FURTHER(STAGE_BYTES);
        const ring next = await_next(&r);
        const tile_name at = stages + next.now * FURTHER(STAGE_BYTES);
        FILL(score, STEP_TILES, 0.0f)
        FILL(dweight, STEP_TILES, 0.0f)
        SETTLE_STEP(dweight[0]);
        SETTLE_HEAD(dq[0]);
        multiply_rows(q, false, own_q, at, score);
        begin_weighted(slopes, now, dq);
        end_products();
        begin_rows(own_dy, at + FURTHER(TILE_BYTES), dweight);
        end_products();
        await_products(score, 2);
        hide_keys(&seen, my_row, first_key, score);
        weigh_rows(score, log_total);
        SETTLE_STEP(score[0]);
        fill(&r, &of_qkv, p.k, &of_qkv, p.v, first_key + AHEAD * TILE, n_keys, T);
        await_products(dweight, 0);
        SETTLE_HEAD(dq[0]);
        leave_stage(&r);
        slope_rows(score, dweight, sum, &drop, &p, my_row, first_key);
        pack_weights(dweight, slopes);
    }
    add_packed(slopes, stages + r.now * FURTHER(STAGE_BYTES), dq);
    leave_stage(&r);
#else
#pragma unroll 1
    for (uint first_key = start_key; first_key < n_keys; first_key += TILE) {
        const tile_name at = stages + r.now * FURTHER(STAGE_BYTES);
        fill(&r, &of_qkv, p.k, &of_qkv, p.v, first_key + AHEAD * TILE, n_keys, T);
#pragma unroll 1
        for (uint s = 0; s < TILE; s += STEP) {
            if (first_key + s < our_row + TOGETHER * WARP_ROWS && first_key + s + STEP > seen.first) {
                float score[FRAGMENTS][STEP_TILES][4];
                float dweight[FRAGMENTS][STEP_TILES][4];
                FILL(score, STEP_TILES, 0.0f)
                FILL(dweight, STEP_TILES, 0.0f)
                multiply_rows_twice(q, IN_REGISTERS > 0, own_q, at + FURTHER(s * ROW_BYTES), score, //
                                    d, IN_REGISTERS > 1, own_dy, at + FURTHER(TILE_BYTES + s * ROW_BYTES), dweight);
                await_products(score, 1);
                hide_keys(&seen, my_row, first_key + s, score);
                weigh_rows(score, log_total);
                await_products(dweight, 0);
                slope_rows(score, dweight, sum, &drop, &p, my_row, first_key + s);
                add_weighted(dweight, at + FURTHER(s * ROW_BYTES), dq);
            }
        }
        leave_stage(&r);
        if (first_key + TILE < n_keys) {
            await_stage(&r);
        }
    }
#endif
    write_scaled(dq, SCALE, rows, dqkv + dqkv_at + qkv_start(&p, 0) + p.q, p.ld, first_row, T);
}

#endif

#if PART == 2
// --- backward: dk and dv --------------------------------------------------------------------------------------------

// Scores of rows whose document begins after a key.
inlined void hide_later(const global int *starts, uint T, uint first_key, uint first_row,
                        float score[FRAGMENTS][STEP_TILES][4]) {
    if (first_key_of(starts, min(first_row + STEP, T) - 1) <= first_key) {
        return;
    }
    UNROLLED for (uint j = 0; j < STEP_TILES; j++) {
        UNROLLED for (uint i = 0; i < 2; i++) {
            const uint start = (uint)first_key_of(starts, min(first_row + 2 * PAIR + j * 8 + i, T - 1));
            UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
                UNROLLED for (uint h = 0; h < 2; h++) {
                    score[f][j][2 * h + i] =
                        first_key + f * 16 + h * 8 + ROW < start ? -INFINITY : score[f][j][2 * h + i];
                }
            }
        }
    }
}

// Scores of rows that do not see a key; here a fragment's rows are keys.
inlined void hide_rows(const global int *starts, uint T, uint first_key, uint first_row,
                       float score[FRAGMENTS][STEP_TILES][4]) {
    if (DOCUMENTS) {
        hide_later(starts, T, first_key, first_row, score);
    }
    if (first_key + WARP_ROWS <= first_row + 1) {
        return;
    }
    const int ahead = (int)(first_key + ROW) - (int)(first_row + 2 * PAIR);
    UNROLLED for (int f = 0; f < FRAGMENTS; f++) {
        UNROLLED for (int j = 0; j < STEP_TILES; j++) {
            UNROLLED for (int i = 0; i < 4; i++) {
                score[f][j][i] = ahead + f * 16 + i / 2 * 8 > j * 8 + i % 2 ? -INFINITY : score[f][j][i];
            }
        }
    }
}

inlined float keep(const mask *m, const place *p, uint t, uint s) {
    return keep_factor(m->key, m->step, (p->head_row + t) * p->T + s, m->threshold, m->scale);
}

// Each of these warps has sums of its own, of which an item keeps some.
#define SUM_WARPS (WGMMA ? TOGETHER : WARPS)
#define SUM_GROUP (WGMMA ? OUR : 0)
#define SUM_ITEMS (SUM_WARPS * WARP)
#define SUM_ITEM  ((uint)get_local_id(0) % SUM_ITEMS)
#define SUMS_EACH ((2 * TILE + SUM_ITEMS - 1) / SUM_ITEMS)

// A tile of rows of a head of q.
typedef struct {
    uint row, q;    // the first; the head's first channel
    ulong head_row; // of the head's row 0 among rows of lse
} row_place;

// The next tile: the heads' rows come one after the other.
inlined void step_rows(row_place *at, uint start_row, uint end_row, uint T) {
    at->row += TILE;
    if (at->row >= end_row) {
        at->row = start_row;
        at->q += HS;
        at->head_row += T;
    }
}

// This item's of such a tile's TILE values of lse, and as many of D; any row's beyond T, where q and dy are 0.
inlined void load_sums(const global float *lse, const global float *D, const row_place *at, uint T,
                       float sums[SUMS_EACH]) {
    UNROLLED for (uint e = 0; e < SUMS_EACH; e++) {
        const uint i = SUM_ITEM + e * SUM_ITEMS;
        sums[e] = (i < TILE ? lse : D)[at->head_row + min(at->row + i % TILE, T - 1)];
    }
}

// They become -lse, to base 2, and -D here: next to the load, that would wait for it before the products begin.
inlined void keep_sums(const float from[SUMS_EACH], local float *sums) {
    UNROLLED for (uint e = 0; e < SUMS_EACH; e++) {
        const uint i = SUM_ITEM + e * SUM_ITEMS;
        if (i < 2 * TILE) {
            sums[i] = from[e] * (i < TILE ? -LOG2E : -1.0f);
        }
    }
#if WGMMA
    wait_for_four_warps(1 + OUR);
#endif
}

// dv's product runs next to the vector arithmetic of the slopes: heads of 128 gain 6% by it, those of 64 lose 2%.
#define DV_FIRST (WGMMA && HS == 128 && !DROPOUT)

// dk and dv of OWN keys of a head of k and v: of each head of q that shares it, all rows.
kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
attention_backward_keys(ulong T_, ulong NH, ulong NKV, ulong n_heads, IN(int, starts), ulong key, uint threshold,
                        float drop_scale, MAPS_ARGS IN(data, dy), IN(data, qkv), IN(float, lse), IN(uint, rng_step),
                        IN(float, D), OUT(data, dqkv)) {
    local uint4 keys[2 * OWN_BYTES / 16] __attribute__((aligned(1024)));   // k, v
    local uint4 tiles[RING_BYTES / 16] __attribute__((aligned(1024))); // a stage: q, dy
    local float sums[WARPS / SUM_WARPS * 4 * TILE] __attribute__((aligned(8))); // -lse, -D of a tile; of the next
    const uint T = (uint)T_;
    uint shared_head, tile;
    find_tile((uint)n_heads, (T + OWN - 1) / OWN, T, &shared_head, &tile);
    const uint n_sharing = (uint)(NH / NKV);
    const uint first_head = shared_head * n_sharing;
    place p = find_place(first_head, T, NH, NKV);
    const mask drop = make_mask(key, DROPOUT ? threshold : 0, drop_scale, rng_step + rng_step_at);
    const uint first_key = tile * OWN; // those with most to do first
    const uint my_key = first_key + MY_WARP * WARP_ROWS;
    const uint our_key = first_key + OUR * (TOGETHER * WARP_ROWS);
    const uint start_row = first_key / TILE * TILE; // the tile on the diagonal
    const global int *first_keys = starts + starts_at + p.first_token;
    const uint end_row = (uint)end_of_rows(first_keys, T, min(first_key + OWN, T) - 1);
    const source of_qkv = SOURCE_QKV(p);
    const source of_dy = SOURCE_DY(p);
    open_source(&of_qkv);
    open_source(&of_dy);
    ring r = make_ring(tiles);
    const tile_name stages = name_tile(r.tiles);
    const tile_name own_k = name_own(local_address(keys));
    const tile_name own_v = own_k + FURTHER(OWN_BYTES);
    float dk[FRAGMENTS][ROW_TILES][4];
    float dv[FRAGMENTS][ROW_TILES][4];
    operand k, v;
    clear_ends(keys, 2 * OWN);
    clear_ends(tiles, 2 * STAGES * TILE);
    const uint tiles_a_head = (end_row - start_row + TILE - 1) / TILE;
    const uint n_steps = tiles_a_head * n_sharing;
    row_place at_row = {start_row, p.q, p.head_row};
    row_place wanted = at_row; // the next that is brought
    bring_own(&r, &of_qkv, p.k, first_key, T, local_address(keys));
    bring_own(&r, &of_qkv, p.v, first_key, T, local_address(keys) + OWN_BYTES);
    for (uint i = 0; i < AHEAD; i++) {
        fill(&r, &of_qkv, wanted.q, &of_dy, wanted.q, wanted.row, i < n_steps ? end_row : 0, T);
        step_rows(&wanted, start_row, end_row, T);
    }
    local float *our_sums = sums + SUM_GROUP * 4 * TILE;
    float next_sums[SUMS_EACH];
    load_sums(lse + lse_at, D + D_at, &at_row, T, next_sums);
    keep_sums(next_sums, our_sums);
    FILL(dk, ROW_TILES, 0.0f)
    FILL(dv, ROW_TILES, 0.0f)
    await_stage(&r);
    load_operand(k, IN_REGISTERS > 0, local_address(keys));
    load_operand(v, IN_REGISTERS > 1, local_address(keys) + OWN_BYTES);
#pragma unroll 1
    for (uint i = 0; i < n_steps; i++) {
        const tile_name at = stages + r.now * FURTHER(STAGE_BYTES);
        const uint first_row = at_row.row;
        const local float *sums_now = our_sums + i % 2 * 2 * TILE;
        fill(&r, &of_qkv, wanted.q, &of_dy, wanted.q, wanted.row, i + AHEAD < n_steps ? end_row : 0, T);
        p.head_row = at_row.head_row;
        step_rows(&at_row, start_row, end_row, T);
        if (i + 1 < n_steps) {
            load_sums(lse + lse_at, D + D_at, &at_row, T, next_sums);
        }
#pragma unroll 1
        for (uint s = 0; s < TILE; s += STEP) {
            const bool is_seen = !DOCUMENTS || first_key_of(first_keys, min(first_row + s, T - 1)) <
                                                   our_key + TOGETHER * WARP_ROWS;
            if (first_row + s + STEP > our_key && is_seen) {
                const local float2 *lse_at_s = (const local float2 *)(sums_now + s) + PAIR;
                const local float2 *D_at_s = lse_at_s + TILE / 2;
                float score[FRAGMENTS][STEP_TILES][4];
                float dweight[FRAGMENTS][STEP_TILES][4];
                FILL(score, STEP_TILES, 0.0f)
                FILL(dweight, STEP_TILES, 0.0f)
                multiply_rows_twice(k, IN_REGISTERS > 0, own_k, at + FURTHER(s * ROW_BYTES), score, //
                                    v, IN_REGISTERS > 1, own_v, at + FURTHER(TILE_BYTES + s * ROW_BYTES), dweight);
                await_products(score, 1);
                hide_rows(first_keys, T, my_key, first_row + s, score);
                UNROLLED for (uint j = 0; j < STEP_TILES; j++) {
                    const float2 two = lse_at_s[j * 4];
                    const float minus_log_total[2] = {two.x, two.y};
                    UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
                        UNROLLED for (uint i = 0; i < 4; i++) {
                            score[f][j][i] = fast_exp2(fma(score[f][j][i], SCALE * LOG2E, minus_log_total[i % 2]));
                        }
                    }
                }
#if DV_FIRST
                uint weights[SUM_STEPS][4];
                pack_weights(score, weights);
                SETTLE_HEAD(dv[0]);
#endif
                await_products(dweight, 0);
#if DV_FIRST
                give_registers();
                begin_weighted(weights, at + FURTHER(TILE_BYTES + s * ROW_BYTES), dv);
                end_products();
#endif
                UNROLLED for (uint j = 0; j < STEP_TILES; j++) {
                    const float2 two = D_at_s[j * 4];
                    const float minus_D[2] = {two.x, two.y};
                    UNROLLED for (uint f = 0; f < FRAGMENTS; f++) {
                        UNROLLED for (uint i = 0; i < 4; i++) {
                            const float att = score[f][j][i];
                            if (DROPOUT) {
                                const float factor = keep(&drop, &p, first_row + s + j * 8 + 2 * PAIR + i % 2,
                                                          my_key + f * 16 + i / 2 * 8 + ROW);
                                score[f][j][i] *= factor;
                                dweight[f][j][i] *= factor;
                            }
                            dweight[f][j][i] = (dweight[f][j][i] + minus_D[i % 2]) * att;
                        }
                    }
                }
#if DV_FIRST
                add_weighted(dweight, at + FURTHER(s * ROW_BYTES), dk)
                SETTLE_HEAD(dv[0]);
#else
                add_weighted_twice(score, at + FURTHER(TILE_BYTES + s * ROW_BYTES), dv, //
                                   dweight, at + FURTHER(s * ROW_BYTES), dk);
#endif
            }
        }
        step_rows(&wanted, start_row, end_row, T);
        keep_sums(next_sums, our_sums + (i + 1) % 2 * 2 * TILE);
        leave_stage(&r);
        if (i + 1 < n_steps) {
            await_stage(&r);
        }
    }
    global data *to = dqkv + dqkv_at + qkv_start(&p, 0);
    write_scaled(dk, SCALE, keys, to + p.k, p.ld, first_key, T);
    write_scaled(dv, 1.0f, keys, to + p.v, p.ld, first_key, T);
}
#endif
