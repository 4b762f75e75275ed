// matmul_tensor.cl: matrix products on matrix units that a warp drives (mma.sync), one tile of C per work-group.
//
//   C = A' B', or C += A' B'      C (M,N); A' (M,K) is A, or the transpose of A (K,M) with A_TRANSPOSED;
//                                 B' (K,N) is B, or the transpose of B (N,K) with B_TRANSPOSED
//
//                    <----- TILE_N ----->        local memory, STAGES times: while one TILE_K of both operands is
//            TILE_K  |        B'        |        used, the next ones are on their way, without passing registers
//                    +------------------+
//   TILE_K   +-----+ | warp     warp    |        a warp has WARP_M x WARP_N sums, in fragments of 16 x 8; an item has
//     A'     |     | |                  |        four of each (cl/nvidia/tensor.cl)
//   TILE_M   |     | | warp     warp    |
//            +-----+ +------------------+
//
// The numbers are bf16 (DATA_BF16), fp16 (DATA_F16), or floats that are rounded to tf32; with SPLIT (tf32x3) each float
// is cut in two numbers of tf32, large and small, and three products of these give what one of fp32 does:
// a b = large large + large small + small large. Units add up with fewer digits than fp32 has, so with SPLIT the sums
// of one TILE_K at a time are added in fp32.
//
// Every row of the operands begins at a multiple of 16 bytes. A tile lies in local memory as it does in global memory,
// in rows of chunks of 16 bytes, whose places are exchanged so that the 8 rows of a fragment are in different banks.

#ifndef TILE_M
#define TILE_M 128 // rows of C per work-group
#endif
#ifndef TILE_N
#define TILE_N 128 // columns of C per work-group
#endif
#ifndef WARP_M
#define WARP_M 64 // rows of C per warp: a multiple of 16
#endif
#ifndef WARP_N
#define WARP_N 64 // columns of C per warp: a multiple of 16
#endif
#ifndef K_BYTES
#define K_BYTES 128 // of K at a time: 64 or 128 bytes of a row
#endif
#ifndef STAGES
#define STAGES 3 // tiles of operands in local memory
#endif
#if STAGES == 2 // the others on their way while one is in use, as a literal number
#define STAGES_ON_THEIR_WAY 0
#elif STAGES == 3
#define STAGES_ON_THEIR_WAY 1
#elif STAGES == 4
#define STAGES_ON_THEIR_WAY 2
#endif
#ifndef K_TAIL
#define K_TAIL 1 // 0 where every part of K is a multiple of TILE_K: spares the check
#endif
#ifndef BAND
#define BAND 8 // rows of tiles that are walked column by column, so that groups at work share operands
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
#ifndef SUM_ONLY
#define SUM_ONLY 0 // 1: no kernel but matmul_sum
#endif

#if DATA_IS_NARROW
#define NUMBER_BYTES 2
#else
#define NUMBER_BYTES 4
#endif

#define TILE_K      (K_BYTES / NUMBER_BYTES)
#define CHUNK       16                     // bytes of a copy
#define CHUNK_ELEMS (CHUNK / NUMBER_BYTES)
#define WARPS_N     (TILE_N / WARP_N)
#define ITEMS       (TILE_M / WARP_M * WARPS_N * WARP)
#define FRAGMENTS_M (WARP_M / 16)
#define FRAGMENTS_N (WARP_N / 8)
#define STEP_BYTES  32                     // of K in a fragment: 16 numbers of 16 bits, 8 of tf32
#define STEPS       (K_BYTES / STEP_BYTES)
#define A_BYTES     (TILE_M * K_BYTES)
#define B_BYTES     (TILE_N * K_BYTES)
#define STAGE_BYTES (A_BYTES + B_BYTES)
#define COPIES_A    (A_BYTES / CHUNK / ITEMS)
#define COPIES_B    (B_BYTES / CHUNK / ITEMS)

// Flags of the epilogue, as in backends/opencl/binders/family.h.
enum { ADD = 1, BIAS = 2, ACT = 4, ACT_BACKWARD = 8 };

#if !SUM_ONLY

// --- a tile in local memory -------------------------------------------------------------------------------

// Bytes from one row of a tile to the next: K_BYTES of a row or column of C, or what is at one k.
#define row_bytes(outer, along_k) ((along_k) ? K_BYTES : (outer) * NUMBER_BYTES)

// Offset of a chunk of a row in a tile, in bytes.
static inline uint place_chunk(uint row, uint chunk, uint outer, int along_k) {
    const int by_words = NUMBER_BYTES == 4; // fragments along rows are read by words, at 4 k at a time
    const int is_short = K_BYTES == 64;
    const uint exchange = along_k ? (is_short ? row / 2 % 4 : row % 8) : (by_words ? 2 * (row % 4) : row % 8);
    return row * row_bytes(outer, along_k) + (chunk ^ exchange) * CHUNK;
}

// Copy i of an item brings this chunk of this row.
static inline uint copy_row(uint i, uint outer, int along_k) {
    return ((uint)get_local_id(0) + i * ITEMS) / (row_bytes(outer, along_k) / CHUNK);
}

static inline uint copy_chunk(uint i, uint outer, int along_k) {
    return ((uint)get_local_id(0) + i * ITEMS) % (row_bytes(outer, along_k) / CHUNK);
}

// Start of copy i for the first tile, in bytes from the operand's. Rows (or chunks) beyond the last are clamped to the
// last: their results are not stored.
static inline uint copy_from(uint i, ulong ld, ulong n_outer, uint outer, int along_k) {
    const uint row = copy_row(i, outer, along_k);
    const uint at = copy_chunk(i, outer, along_k) * CHUNK_ELEMS;
    const ulong from = along_k ? min((ulong)row, n_outer - 1) * ld + at : row * ld + min((ulong)at, n_outer - CHUNK_ELEMS);
    return (uint)(from * NUMBER_BYTES);
}

// Zeros where the element's k is not below n_k.
static inline void copy(uint tile, const global uchar *from, uint i, ulong n_k, uint outer, int along_k) {
    const uint row = copy_row(i, outer, along_k);
    const uint chunk = copy_chunk(i, outer, along_k);
    const uint to = tile + place_chunk(row, chunk, outer, along_k);
    if (K_TAIL) {
        const bool is_there = (along_k ? chunk * CHUNK_ELEMS : row) < n_k;
        copy16_async_part(to, from, is_there ? CHUNK : 0);
    } else {
        copy16_async(to, from);
    }
}

// --- fragments --------------------------------------------------------------------------------------------

typedef struct {
    uint a[FRAGMENTS_M][4];
    uint b[FRAGMENTS_N / 2][4]; // two fragments of B, side by side
} fragments;

// Step `step` of TILE_K, of the warp's rows of A' from row m on.
static inline void load_a(fragments *f, uint tile, uint m, uint step) {
    UNROLLED for (uint i = 0; i < FRAGMENTS_M; i++) {
#if A_ALONG_K
        load_matrices(f->a[i], tile + place_chunk(m + i * 16 + LANE % 16, step * 2 + LANE / 16, TILE_M, 1));
#elif NUMBER_BYTES == 2
        load_matrices_transposed(f->a[i], tile + place_chunk(step * 16 + LANE % 8 + LANE / 16 * 8,
                                                             m / 8 + i * 2 + LANE / 8 % 2, TILE_M, 0));
#else
        UNROLLED for (uint w = 0; w < 4; w++) {
            const uint row = m + i * 16 + w % 2 * 8 + LANE / 4;
            f->a[i][w] = load_word(tile + place_chunk(step * 8 + w / 2 * 4 + LANE % 4, row / 4, TILE_M, 0) + row % 4 * 4);
        }
#endif
    }
}

// Loads fragments of the warp's columns of B' from column n on.
static inline void load_b(fragments *f, uint tile, uint n, uint step) {
    UNROLLED for (uint j = 0; j < FRAGMENTS_N / 2; j++) {
#if B_ALONG_K
        load_matrices(f->b[j], tile + place_chunk(n + j * 16 + LANE % 8 + LANE / 16 * 8, step * 2 + LANE / 8 % 2, TILE_N, 1));
#elif NUMBER_BYTES == 2
        load_matrices_transposed(f->b[j],
                                 tile + place_chunk(step * 16 + LANE % 16, n / 8 + j * 2 + LANE / 16, TILE_N, 0));
#else
        UNROLLED for (uint w = 0; w < 4; w++) {
            const uint col = n + j * 16 + w / 2 * 8 + LANE / 4;
            f->b[j][w] = load_word(tile + place_chunk(step * 8 + w % 2 * 4 + LANE % 4, col / 4, TILE_N, 0) + col % 4 * 4);
        }
#endif
    }
}

#if NUMBER_BYTES == 4 && !SPLIT
static inline void round_fragments(uint *x, uint n) {
    UNROLLED for (uint i = 0; i < n; i++) {
        x[i] = round_tf32(as_float(x[i]));
    }
}
#endif

// sum += the products of all fragments
static inline void multiply(fragments *f, float sum[FRAGMENTS_M][FRAGMENTS_N][4]) {
#if NUMBER_BYTES == 4 && SPLIT
    uint small_b[FRAGMENTS_N / 2][4];
    UNROLLED for (uint j = 0; j < FRAGMENTS_N / 2; j++) {
        UNROLLED for (uint w = 0; w < 4; w++) {
            const float x = as_float(f->b[j][w]);
            f->b[j][w] = round_tf32(x);
            small_b[j][w] = round_tf32(x - as_float(f->b[j][w]));
        }
    }
#elif NUMBER_BYTES == 4
    round_fragments(&f->a[0][0], FRAGMENTS_M * 4);
    round_fragments(&f->b[0][0], FRAGMENTS_N / 2 * 4);
#endif
    UNROLLED for (uint i = 0; i < FRAGMENTS_M; i++) {
#if NUMBER_BYTES == 4 && SPLIT
        uint small_a[4];
        UNROLLED for (uint w = 0; w < 4; w++) {
            const float x = as_float(f->a[i][w]);
            f->a[i][w] = round_tf32(x);
            small_a[w] = round_tf32(x - as_float(f->a[i][w]));
        }
        UNROLLED for (uint j = 0; j < FRAGMENTS_N; j++) {
            multiply_tf32(sum[i][j], small_a, f->b[j / 2][j % 2 * 2], f->b[j / 2][j % 2 * 2 + 1]);
        }
        UNROLLED for (uint j = 0; j < FRAGMENTS_N; j++) {
            multiply_tf32(sum[i][j], f->a[i], small_b[j / 2][j % 2 * 2], small_b[j / 2][j % 2 * 2 + 1]);
        }
#endif
        UNROLLED for (uint j = 0; j < FRAGMENTS_N; j++) {
            const uint b0 = f->b[j / 2][j % 2 * 2];
            const uint b1 = f->b[j / 2][j % 2 * 2 + 1];
#if defined(DATA_BF16)
            multiply_bf16(sum[i][j], f->a[i], b0, b1);
#elif defined(DATA_F16)
            multiply_f16(sum[i][j], f->a[i], b0, b1);
#else
            multiply_tf32(sum[i][j], f->a[i], b0, b1);
#endif
        }
    }
}

#endif

// --- what is done beside the product --------------------------------------------------------------------------

static inline float2 widen_pair(const global data *p) {
#if defined(DATA_BF16)
    return unpack_bf16(*(const global uint *)p);
#elif defined(DATA_F16)
    return unpack_f16(*(const global uint *)p);
#else
    return *(const global float2 *)p;
#endif
}

static inline void store_numbers(float2 x, global data *p) {
#if defined(DATA_BF16)
    *(global uint *)p = pack_bf16(x.x, x.y);
#elif defined(DATA_F16)
    *(global uint *)p = pack_f16(x.x, x.y);
#else
    *(global float2 *)p = x;
#endif
}

static inline float2 load_results(const global result *p) {
#ifdef C_REAL
    return *(const global float2 *)p;
#else
    return widen_pair(p);
#endif
}

static inline void store_results(float2 x, global result *p) {
#ifdef C_REAL
    *(global float2 *)p = x;
#else
    store_numbers(x, p);
#endif
}

// Two sums side by side in a row, at element `at` of C, in column n.
static inline void finish_sums(uint beside, float2 x, ulong at, ulong n, global result *c, const global float *bias,
                               const global data *pre, global data *act) {
    if (beside & ADD) {
        x += load_results(c + at);
    }
    if (beside & BIAS) {
        x += *(const global float2 *)(bias + n);
    }
    if (beside & ACT_BACKWARD) {
        const float2 u = widen_pair(pre + at);
        const float four[4] = {u.x, u.y, u.x, u.y};
        float d[4];
        quick_slopes(d, four);
        x *= (float2)(d[0], d[1]);
    }
    store_results(x, c + at);
    if (beside & ACT) {
        const float four[4] = {x.x, x.y, x.x, x.y};
        float y[4];
        quick_activations(y, four);
        store_numbers((float2)(y[0], y[1]), act + at);
    }
}

#if !SUM_ONLY

// bias (N); pre (M,N) is ACT_BACKWARD's; act (M,N): where ACT's result goes. K is cut into parts of k_part, a multiple
// of TILE_K; with more than one, c is scratch (parts,M,N) of floats and beside 0.
kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
matmul(uint beside, ulong M, ulong N, ulong K, ulong k_part, IN(data, a), IN(data, b), OUT(result, c), IN(float, bias),
       IN(data, pre), OUT(data, act)) {
    local uchar tiles[STAGES * STAGE_BYTES] __attribute__((aligned(128)));
    const product_tile place = find_product_tile(M, TILE_M, TILE_N, BAND);
    const ulong k_first = place.part * k_part;
    const ulong k_end = min(K, k_first + k_part);
    const ulong a_ld = A_ALONG_K ? K : M;
    const ulong b_ld = B_ALONG_K ? K : N;
    const ulong a_step = (A_ALONG_K ? TILE_K : row_start(TILE_K, a_ld)) * NUMBER_BYTES;
    const ulong b_step = (B_ALONG_K ? TILE_K : row_start(TILE_K, b_ld)) * NUMBER_BYTES;
    const uint n_steps = (uint)((k_end - k_first + TILE_K - 1) / TILE_K);
    const global uchar *from_a =
        (const global uchar *)(a + a_at + (A_ALONG_K ? row_start(place.m, a_ld) + k_first : row_start(k_first, a_ld) + place.m));
    const global uchar *from_b =
        (const global uchar *)(b + b_at + (B_ALONG_K ? row_start(place.n, b_ld) + k_first : row_start(k_first, b_ld) + place.n));
    const uint m = MY_WARP / WARPS_N * WARP_M;
    const uint n = MY_WARP % WARPS_N * WARP_N;
    const uint first_tile = local_address(tiles);
    ulong k_left = k_end - k_first; // of what is not on its way yet
    uint offset_a[COPIES_A];
    uint offset_b[COPIES_B];
    float sum[FRAGMENTS_M][FRAGMENTS_N][4];
    UNROLLED for (uint i = 0; i < COPIES_A; i++) {
        offset_a[i] = copy_from(i, a_ld, M - place.m, TILE_M, A_ALONG_K);
    }
    UNROLLED for (uint i = 0; i < COPIES_B; i++) {
        offset_b[i] = copy_from(i, b_ld, N - place.n, TILE_N, B_ALONG_K);
    }
    UNROLLED for (uint i = 0; i < FRAGMENTS_M; i++) {
        UNROLLED for (uint j = 0; j < FRAGMENTS_N; j++) {
            UNROLLED for (uint w = 0; w < 4; w++) {
                sum[i][j][w] = 0.0f;
            }
        }
    }
// Sends the next TILE_K of both operands on its way to a stage.
#define BRING(stage)                                                                                           \
    {                                                                                                          \
        const uint to = first_tile + (stage) * STAGE_BYTES;                                                    \
        _Pragma("unroll") for (uint i = 0; i < COPIES_A; i++) {                                                \
            copy(to, from_a + offset_a[i], i, k_left, TILE_M, A_ALONG_K);                                      \
        }                                                                                                      \
        _Pragma("unroll") for (uint i = 0; i < COPIES_B; i++) {                                                \
            copy(to + A_BYTES, from_b + offset_b[i], i, k_left, TILE_N, B_ALONG_K);                            \
        }                                                                                                      \
        from_a += a_step;                                                                                      \
        from_b += b_step;                                                                                      \
        k_left -= TILE_K;                                                                                      \
    }
    UNROLLED for (uint s = 0; s < STAGES - 1; s++) {
        if (s < n_steps) {
            BRING(s);
        }
        copy_async_commit();
    }
    uint now = 0;              // the stage in use
    uint free_stage = STAGES - 1; // was last read before the barrier
    for (uint s = 0; s < n_steps; s++) {
        copy_async_wait(STAGES_ON_THEIR_WAY);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (s + STAGES - 1 < n_steps) {
            BRING(free_stage);
        }
        copy_async_commit();
        const uint tile_a = first_tile + now * STAGE_BYTES;
        const uint tile_b = tile_a + A_BYTES;
#if SPLIT
        float part[FRAGMENTS_M][FRAGMENTS_N][4];
        UNROLLED for (uint i = 0; i < FRAGMENTS_M; i++) {
            UNROLLED for (uint j = 0; j < FRAGMENTS_N; j++) {
                UNROLLED for (uint w = 0; w < 4; w++) {
                    part[i][j][w] = 0.0f;
                }
            }
        }
        UNROLLED for (uint step = 0; step < STEPS; step++) {
            fragments f;
            load_a(&f, tile_a, m, step);
            load_b(&f, tile_b, n, step);
            multiply(&f, part);
        }
        UNROLLED for (uint i = 0; i < FRAGMENTS_M; i++) {
            UNROLLED for (uint j = 0; j < FRAGMENTS_N; j++) {
                UNROLLED for (uint w = 0; w < 4; w++) {
                    sum[i][j][w] += part[i][j][w];
                }
            }
        }
#else
        fragments f[2];
        load_a(&f[0], tile_a, m, 0);
        load_b(&f[0], tile_b, n, 0);
        UNROLLED for (uint step = 0; step < STEPS; step++) {
            if (step + 1 < STEPS) {
                load_a(&f[(step + 1) % 2], tile_a, m, step + 1);
                load_b(&f[(step + 1) % 2], tile_b, n, step + 1);
            }
            multiply(&f[step % 2], sum);
        }
#endif
        now = now + 1 == STAGES ? 0 : now + 1;
        free_stage = free_stage + 1 == STAGES ? 0 : free_stage + 1;
    }
    c += c_at + row_start(place.part * M, N);
    UNROLLED for (uint i = 0; i < FRAGMENTS_M; i++) {
        UNROLLED for (uint j = 0; j < FRAGMENTS_N; j++) {
            UNROLLED for (uint half_rows = 0; half_rows < 2; half_rows++) {
                const ulong row = place.m + m + i * 16 + half_rows * 8 + LANE / 4;
                const ulong col = place.n + n + j * 8 + LANE % 4 * 2;
                if (row < M && col < N) {
                    finish_sums(beside, (float2)(sum[i][j][half_rows * 2], sum[i][j][half_rows * 2 + 1]),
                                row_start(row, N) + col, col, c, bias + bias_at, pre + pre_at, act + act_at);
                }
            }
        }
    }
}

#endif

// C from the sums of the parts (parts,M,N): an item has two of a row.
kernel void matmul_sum(uint beside, ulong M, ulong N, ulong n_parts, IN(float, parts), OUT(result, c), IN(float, bias),
                       IN(data, pre), OUT(data, act)) {
    const ulong n = get_global_id(0) * 2;
    const ulong m = get_global_id(1);
    if (m >= M || n >= N) {
        return;
    }
    const ulong at = row_start(m, N) + n;
    float2 x = *(const global float2 *)(parts + parts_at + at);
    for (ulong p = 1; p < n_parts; p++) {
        x += *(const global float2 *)(parts + parts_at + row_start(p * M, N) + at);
    }
    finish_sums(beside, x, at, n, c + c_at, bias + bias_at, pre + pre_at, act + act_at);
}
