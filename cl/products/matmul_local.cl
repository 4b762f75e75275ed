// matmul_local.cl: the products of a linear layer for cards: a work-group owns a tile of C, its operands pass
// through local memory, and each work-item keeps a block of sums in registers.
//
//   C = A' B', or C += A' B'      C (M,N); A' (M,K) is A, or the transpose of A (K,M) with A_TRANSPOSED;
//                                 B' (K,N) is B, or the transpose of B (N,K) with B_TRANSPOSED
//
//                     <------ TILE_N ------>           local memory, twice: while one TILE_K of both operands is
//             TILE_K  |         B'         |           used, the next is on its way, in registers
//                     +--------------------+
//    TILE_K   +-----+ |...4...   ...4...   |
//      A'     |     | |4  item          item  4        a work-item has WORK_M x WORK_N sums, in blocks of
//    TILE_M   |     | |:        :          |           4 x 4 that lie TILE_M / (WORK_M/4) rows and
//             |     | |4  item          item           TILE_N / (WORK_N/4) columns apart, so that items side by
//             +-----+ +--------------------+           side read and write side by side
//
// The epilogue (bias, activation, its derivative) is applied to the sums before they are stored; each has a program of
// its own (BESIDE), as branches over what else may be beside a product keep its loads apart. Where C has too
// few tiles to keep the device busy, K is cut into parts: `matmul` then leaves the sums of each part in scratch,
// and `matmul_sum` adds them up, always in the same order, and applies the epilogue. Operands are widened on their way
// into local memory.

#ifndef TILE_M
#define TILE_M 64 // rows of C per work-group
#endif
#ifndef TILE_N
#define TILE_N 128 // columns of C per work-group
#endif
#ifndef TILE_K
#define TILE_K 8 // of K at a time
#endif
#ifndef WORK_M
#define WORK_M 8 // rows of C per work-item: 4 or a multiple
#endif
#ifndef WORK_N
#define WORK_N 8 // columns of C per work-item: 4 or a multiple
#endif
#ifndef LOAD
#define LOAD 1 // elements a load: 4 where rows of all operands begin at multiples of 4 elements
#endif
#ifndef K_TAIL
#define K_TAIL 1 // 0 where K is a multiple of TILE_K: spares the check
#endif
#ifndef LANES_N
#define LANES_N 8 // neighbours that lie side by side along N, before the next row of items
#endif
#ifndef BAND
#define BAND 8 // rows of tiles that are walked column by column, so that groups at work share operands
#endif
#ifndef PAD
#define PAD 4 // floats between rows in local memory, against bank conflicts: a multiple of 4
#endif
#ifndef BESIDE
#define BESIDE 0 // what is always beside the product, where `matmul` is built for that alone; 0: its argument says
#endif
#ifndef PRE_AHEAD
#define PRE_AHEAD 4 // fours of ACT_BACKWARD's pre that are on their way while the ones before them are used
#endif
#define ITEMS_M (TILE_M / WORK_M)
#define ITEMS_N (TILE_N / WORK_N)
#define ITEMS   (ITEMS_M * ITEMS_N)
#define FOURS   (WORK_M * WORK_N / 4) // of sums side by side in a row, an item's
#define ROW_A   (TILE_M + PAD)
#define ROW_B   (TILE_N + PAD)
#define LOADS_A (TILE_M * TILE_K / ITEMS / LOAD) // loads that bring an item's part of a tile
#define LOADS_B (TILE_N * TILE_K / ITEMS / LOAD)

#if LOAD == 4
typedef data4 piece;
#define widen_piece(x) widen4(x)
typedef float4 wide_piece;
#else
typedef data piece;
#define widen_piece(x) widen(x)
typedef float wide_piece;
#endif

// Work to do besides the product; as in backends/opencl/binders/family.h.
enum { ADD = 1, BIAS = 2, ACT = 4, ACT_BACKWARD = 8 };

// Load i of an item brings this element of a tile of `outer` rows (or columns) by TILE_K.
static inline uint place_outer(uint item, uint i, uint outer, int along_k) {
    const uint e = item + i * ITEMS;
    return along_k ? e / (TILE_K / LOAD) : e % (outer / LOAD) * LOAD;
}

static inline uint place_k(uint item, uint i, uint outer, int along_k) {
    const uint e = item + i * ITEMS;
    return along_k ? e % (TILE_K / LOAD) * LOAD : e / (outer / LOAD);
}

// The address of load i for the first tile. Rows (or columns) beyond the last repeat the last: their results are not
// stored.
static inline const global data *find(const global data *from, ulong ld, ulong n_outer, uint item, uint i, uint outer,
                                       int along_k) {
    const ulong last = n_outer - (along_k ? 1 : LOAD);
    const ulong o = min((ulong)place_outer(item, i, outer, along_k), last);
    const ulong k = place_k(item, i, outer, along_k);
    return from + (along_k ? row_start(o, ld) + k : row_start(k, ld) + o);
}

// Zeros where the element's k is not below n_k.
static inline piece fetch(const global data *from, uint k, ulong n_k) {
    return !K_TAIL || k < n_k ? *(const global piece *)from : (piece)(0);
}

// Puts load i where all items find it: tile (TILE_K, outer + PAD).
static inline void put(piece narrow_x, uint item, uint i, uint outer, int along_k, local float *tile) {
    const wide_piece x = widen_piece(narrow_x);
    local float *to = tile + place_k(item, i, outer, along_k) * (outer + PAD) + place_outer(item, i, outer, along_k);
#if LOAD == 4
    if (along_k) {
        to[0] = x.x;
        to[outer + PAD] = x.y;
        to[2 * (outer + PAD)] = x.z;
        to[3 * (outer + PAD)] = x.w;
    } else {
        *(local float4 *)to = x;
    }
#else
    *to = x;
#endif
}

// Up to four elements of a row: all four, where rows begin at multiples of four.
#if LOAD == 4
#define LOAD4(load4, element, element4, widen, widen4)                         \
    static inline float4 load4(const global element *p, ulong n) {             \
        return n > 0 ? widen4(*(const global element4 *)p) : (float4)(0.0f);   \
    }
#define STORE4(store4, element, element4, narrow, narrow4)                     \
    static inline void store4(float4 x, global element *p, ulong n) {          \
        if (n > 0) {                                                           \
            *(global element4 *)p = narrow4(x);                                \
        }                                                                      \
    }
#else
#define LOAD4(load4, element, element4, widen, widen4)                         \
    static inline float4 load4(const global element *p, ulong n) {             \
        return (float4)(n > 0 ? widen(p[0]) : 0.0f, n > 1 ? widen(p[1]) : 0.0f, \
                        n > 2 ? widen(p[2]) : 0.0f, n > 3 ? widen(p[3]) : 0.0f); \
    }
#define STORE4(store4, element, element4, narrow, narrow4)                     \
    static inline void store4(float4 x, global element *p, ulong n) {          \
        const float part[4] = {x.x, x.y, x.z, x.w};                            \
        for (uint i = 0; i < 4 && i < n; i++) {                                \
            p[i] = narrow(part[i]);                                            \
        }                                                                      \
    }
#endif
LOAD4(load4, float, float4, same, same)
LOAD4(load_data4, data, data4, widen, widen4)
LOAD4(load_result4, result, result4, widen_result, widen_result4)
STORE4(store_data4, data, data4, narrow, narrow4)
STORE4(store_result4, result, result4, narrow_result, narrow_result4)

// sum += one TILE_K of both operands: a (TILE_K, ROW_A), b (TILE_K, ROW_B), from the item's place on
static inline void multiply_tiles(const local float *a, const local float *b, float4 sum[WORK_M][WORK_N / 4]) {
    UNROLLED for (uint k = 0; k < TILE_K; k++) {
        float x[WORK_M];
        float4 y[WORK_N / 4];
        UNROLLED for (uint r = 0; r < WORK_M; r += 4) {
            const float4 four = *(const local float4 *)(a + k * ROW_A + r * ITEMS_M);
            x[r] = four.x;
            x[r + 1] = four.y;
            x[r + 2] = four.z;
            x[r + 3] = four.w;
        }
        UNROLLED for (uint s = 0; s < WORK_N / 4; s++) {
            y[s] = *(const local float4 *)(b + k * ROW_B + s * 4 * ITEMS_N);
        }
        UNROLLED for (uint r = 0; r < WORK_M; r++) {
            UNROLLED for (uint s = 0; s < WORK_N / 4; s++) {
                sum[r][s] = multiply_add((float4)(x[r]), y[s], sum[r][s]);
            }
        }
    }
}

// Four sums side by side in a row, at element `at` of C, in column n of N.
static inline void finish_sums(uint beside, float4 x, ulong at, ulong n, ulong N, global result *c,
                               const global void *side, ulong side_at, global data *act) {
    if (beside & ADD) {
        x += load_result4(c + at, N - n);
    }
    if (beside & BIAS) {
        x += load4((const global float *)side + side_at + n, N - n);
    }
    if (beside & ACT_BACKWARD) {
        x *= activation_slope(load_data4((const global data *)side + side_at + at, N - n));
    }
    store_result4(x, c + at, N - n);
    if (beside & ACT) {
        store_data4(activation(x), act + at, N - n);
    }
}

// An item's sums are FOURS times four: where number i begins in C.
static inline ulong row_of(product_tile place, uint item_m, uint i) {
    const uint r = i / (WORK_N / 4);
    return place.m + r / 4 * (ITEMS_M * 4) + item_m * 4 + r % 4;
}

static inline ulong column_of(product_tile place, uint item_n, uint i) {
    return place.n + (i % (WORK_N / 4) * ITEMS_N + item_n) * 4;
}

static inline void finish_tile(uint beside, product_tile place, uint item_m, uint item_n,
                               float4 sum[WORK_M][WORK_N / 4], ulong M, ulong N, global result *c,
                               const global void *side, ulong side_at, global data *act) {
    UNROLLED for (uint i = 0; i < FOURS; i++) {
        const ulong m = row_of(place, item_m, i);
        const ulong n = column_of(place, item_n, i);
        if (m < M && n < N) {
            const float4 x = sum[i / (WORK_N / 4)][i % (WORK_N / 4)];
            finish_sums(beside, x, row_start(m, N) + n, n, N, c, side, side_at, act);
        }
    }
}

// Four of pre (M,N), or, beyond its last row or column, four that are of no use but may be read.
static inline float4 load_pre(const global data *pre, ulong m, ulong n, ulong M, ulong N) {
    const ulong inside = min(n, N - LOAD);
    const global data *from = pre + row_start(min(m, M - 1), N) + inside;
#if LOAD == 4
    return widen4(*(const global data4 *)from);
#else
    return load_data4(from, N - inside);
#endif
}

// finish_tile with ACT_BACKWARD alone. Compilers move no load past a store before it; so the next fours of pre are
// asked for here before the one that has come is used.
static inline void finish_tile_by_pre(product_tile place, uint item_m, uint item_n, float4 sum[WORK_M][WORK_N / 4],
                                      ulong M, ulong N, global result *c, const global data *pre) {
    float4 ahead[PRE_AHEAD];
    UNROLLED for (uint i = 0; i < PRE_AHEAD; i++) {
        ahead[i] = load_pre(pre, row_of(place, item_m, i), column_of(place, item_n, i), M, N);
    }
    UNROLLED for (uint i = 0; i < FOURS; i++) {
        const uint next = i + PRE_AHEAD;
        const ulong m = row_of(place, item_m, i);
        const ulong n = column_of(place, item_n, i);
        const float4 here = ahead[i % PRE_AHEAD];
        if (next < FOURS) {
            ahead[i % PRE_AHEAD] = load_pre(pre, row_of(place, item_m, next), column_of(place, item_n, next), M, N);
        }
        const float4 x = sum[i / (WORK_N / 4)][i % (WORK_N / 4)] * activation_slope(here);
        if (m < M && n < N) {
            store_result4(x, c + row_start(m, N) + n, N - n);
        }
    }
}

// side: the bias (N), or ACT_BACKWARD's pre (M,N); act (M,N): where ACT's result goes. K is cut into parts of
// k_part, a multiple of TILE_K; with more than one, c is scratch (parts,M,N), with C_REAL, and beside 0.
kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
matmul(uint beside, ulong M, ulong N, ulong K, ulong k_part, IN(data, a), IN(data, b), OUT(result, c), IN(void, side),
       OUT(data, act)) {
    local float tile_a[2][TILE_K * ROW_A] __attribute__((aligned(16)));
    local float tile_b[2][TILE_K * ROW_B] __attribute__((aligned(16)));
    const uint item = (uint)get_local_id(0);
    const uint item_n = item % LANES_N + item / (LANES_N * ITEMS_M) * LANES_N;
    const uint item_m = item / LANES_N % ITEMS_M;
    const product_tile place = find_product_tile(M, TILE_M, TILE_N, BAND);
    const ulong k_first = place.part * k_part;
    const ulong k_end = min(K, k_first + k_part);
    const ulong a_ld = A_ALONG_K ? K : M;
    const ulong b_ld = B_ALONG_K ? K : N;
    const ulong a_step = A_ALONG_K ? TILE_K : row_start(TILE_K, a_ld);
    const ulong b_step = B_ALONG_K ? TILE_K : row_start(TILE_K, b_ld);
    const global data *from_a[LOADS_A];
    const global data *from_b[LOADS_B];
    piece part_a[LOADS_A];
    piece part_b[LOADS_B];
    float4 sum[WORK_M][WORK_N / 4];
    a += a_at + (A_ALONG_K ? row_start(place.m, a_ld) + k_first : row_start(k_first, a_ld) + place.m);
    b += b_at + (B_ALONG_K ? row_start(place.n, b_ld) + k_first : row_start(k_first, b_ld) + place.n);
    UNROLLED for (uint r = 0; r < WORK_M; r++) {
        UNROLLED for (uint s = 0; s < WORK_N / 4; s++) {
            sum[r][s] = (float4)(0.0f);
        }
    }
    UNROLLED for (uint i = 0; i < LOADS_A; i++) {
        from_a[i] = find(a, a_ld, M - place.m, item, i, TILE_M, A_ALONG_K);
        part_a[i] = fetch(from_a[i], place_k(item, i, TILE_M, A_ALONG_K), k_end - k_first);
    }
    UNROLLED for (uint i = 0; i < LOADS_B; i++) {
        from_b[i] = find(b, b_ld, N - place.n, item, i, TILE_N, B_ALONG_K);
        part_b[i] = fetch(from_b[i], place_k(item, i, TILE_N, B_ALONG_K), k_end - k_first);
    }
    uint now = 0;
    for (ulong k = k_first; k < k_end; k += TILE_K) {
        UNROLLED for (uint i = 0; i < LOADS_A; i++) {
            put(part_a[i], item, i, TILE_M, A_ALONG_K, tile_a[now]);
        }
        UNROLLED for (uint i = 0; i < LOADS_B; i++) {
            put(part_b[i], item, i, TILE_N, B_ALONG_K, tile_b[now]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (k + TILE_K < k_end) {
            UNROLLED for (uint i = 0; i < LOADS_A; i++) {
                from_a[i] += a_step;
                part_a[i] = fetch(from_a[i], place_k(item, i, TILE_M, A_ALONG_K), k_end - k - TILE_K);
            }
            UNROLLED for (uint i = 0; i < LOADS_B; i++) {
                from_b[i] += b_step;
                part_b[i] = fetch(from_b[i], place_k(item, i, TILE_N, B_ALONG_K), k_end - k - TILE_K);
            }
        }
        multiply_tiles(tile_a[now] + item_m * 4, tile_b[now] + item_n * 4, sum);
        now = 1 - now; // the other half was last read before the barrier above
    }
    c += c_at + row_start(place.part * M, N);
    if (BESIDE == ACT_BACKWARD) {
        finish_tile_by_pre(place, item_m, item_n, sum, M, N, c, (const global data *)side + side_at);
    } else {
        finish_tile(BESIDE != 0 ? BESIDE : beside, place, item_m, item_n, sum, M, N, c, side, side_at, act + act_at);
    }
}

// C from the sums of the parts (parts,M,N): an item has four of a row.
kernel void matmul_sum(uint beside, ulong M, ulong N, ulong n_parts, IN(float, parts), OUT(result, c), IN(void, side),
                       OUT(data, act)) {
    const ulong n = get_global_id(0) * 4;
    const ulong m = get_global_id(1);
    if (m >= M || n >= N) {
        return;
    }
    const ulong at = row_start(m, N) + n;
    float4 x = load4(parts + parts_at + at, N - n);
    for (ulong p = 1; p < n_parts; p++) {
        x += load4(parts + parts_at + row_start(p * M, N) + at, N - n);
    }
    finish_sums(beside, x, at, n, N, c + c_at, side, side_at, act + act_at);
}
