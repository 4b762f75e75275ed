// matmul_wgmma.cl: matrix products on matrix units that four warps drive together and that read local memory themselves
// (wgmma), fed by copies of whole tiles (TMA: the tensor memory accelerator). PTX ISA, "Asynchronous warpgroup level
// matrix instructions" and "cp.async.bulk.tensor"; the design is that of CUTLASS's persistent kernels for Hopper.
//
//   C = A' B', or C += A' B'      as in matmul_tensor.cl
//
// The numbers are bf16 (DATA_BF16), fp16 (DATA_F16), or tf32. B' of tf32 lies along K, rounded, which a launch before
// this one sees to (cl/nvidia/operand_tensor.cl). So does A', or with A_RAW it is floats as they are, which pass
// through registers on their way to the units and are rounded there. With SPLIT (tf32x3) A' is cut in registers in
// large and small parts, B' comes as two, and sums of 32 of K at a time are added in fp32, as in matmul_tensor.cl.
// With FP8_A and FP8_B (e4m3 or e5m2) the operands are bytes along K, two of which count as one number of 16 bits, so K
// is half as long; the sums are divided by both operands' scales, powers of two (cl/nvidia/cast_fp8.cl).
//
//   one work-group a unit, which walks tiles of C (TILE_M x TILE_N):
//
//     producer   one item of four warps asks for tiles of A' and B', 128 bytes of K at a time, STAGES of them ahead;
//                the registers of these warps go to the consumers
//     consumers  CONSUMERS groups of four warps: each multiplies 64 rows of a tile, and stores them by way of local memory
//     sums       with COLUMN_SUMS, the producer's other three warps add up the columns of B', of 16-bit numbers along C
//
// Barriers in local memory tell that a stage is full, by the bytes that came, or empty, by the consumers' warps. A
// tensor map (128 bytes, backends/opencl/nvidia/tensor_map.c) says where a matrix is and how tiles of it lie in local
// memory: rows of 128 bytes, whose chunks of 16 bytes are exchanged by the row's number. Numbers outside of a matrix
// are read as zeros and not written.
//
// With SPARING, a work-group takes no more registers than its sums need, so that groups of other launches find room
// beside it.
//
// The sums are registers of PTX by name (cl/nvidia/wgmma.cl). With SPLIT or CAREFUL, t00 to t3f are what is added up of them.

#ifndef STAGES
#define STAGES 4 // tiles of operands in local memory
#endif
#ifndef BESIDE
#define BESIDE 0 // what may be done beside the product: BIAS and ADD are said once more by an argument
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
#ifndef A_RAW
#define A_RAW 0 // 1: floats of A come as they are, and are rounded (or cut in two) in registers
#endif
#ifndef CAREFUL
#define CAREFUL 0 // 1: sums of 128 of K are added up in fp32: the units keep about 14 bits of sums of bytes
#endif
#ifndef COLUMN_SUMS
#define COLUMN_SUMS 0 // 1: strips of sums of the columns of B' are stored, too
#endif
#ifndef SQUARES
#define SQUARES 0 // 1: sums of squares of C are stored, too: of 64 columns, each warp's of a tile
#endif

#define INLINE static inline __attribute__((always_inline)) // else sums would pass through memory

#if defined(DATA_F16)
#define pack_numbers pack_f16
#define unpack_numbers unpack_f16
#elif defined(DATA_BF16)
#define pack_numbers pack_bf16
#define unpack_numbers unpack_bf16
#endif

// Sums are stored as floats with C_REAL, else as numbers.
#if defined(C_REAL) || !DATA_IS_NARROW
#define C_IS_NARROW 0
#else
#define C_IS_NARROW 1
#endif

// Flags of the epilogue, as in backends/opencl/binders/family.h. They are literal numbers, since BESIDE is known when
// this is compiled.
#define ADD           1
#define BIAS          2
#define ACT          4
#define ACT_BACKWARD 8

#define TILE_M      (CONSUMERS * GROUP_M)
#define TILE_K      (DATA_IS_NARROW ? 64 : 32)     // 128 bytes
#define GROUP_M     64                             // rows of a consumer
#ifndef CONSUMERS
#define CONSUMERS   2
#endif
#define CONSUMER_WARPS 4
#define SUM_WARPS   (COLUMN_SUMS ? CONSUMER_WARPS - 1 : 0)
#define ITEMS       ((CONSUMERS + 1) * CONSUMER_WARPS * WARP)
#define A_BYTES     (TILE_M * 128)
#define B_BYTES     (TILE_N * 128)
#define STAGE_BYTES (A_BYTES + B_BYTES * (SPLIT ? 2 : 1))
#define SMALL_B_AT  (A_BYTES + B_BYTES)            // in a stage: the tile of B's small parts
#define BOX_BLOCKS  (C_IS_NARROW ? 2 : 1)          // blocks of 32 columns of C that a box has
#define OUTPUTS     (BESIDE & ACT ? 2 : 1)
#define STORE_AT    (STAGES * STAGE_BYTES)         // two boxes of each output a consumer
#define BARRIERS_AT (STORE_AT + CONSUMERS * 2 * OUTPUTS * BOX_BYTES) // full and empty of each stage
#define LOCAL_BYTES (BARRIERS_AT + STAGES * 2 * 8)
#define N_BLOCKS    (TILE_N / 32)
// Registers of an item at first, and of a consumer, after the others have left them all but 40.
#if defined(SPARING) && TILE_N <= 128
#define REGISTERS          "//registers: 104\n"
#define CONSUMER_REGISTERS "136"
#elif defined(SPARING) && TILE_N == 192
#define REGISTERS          "//registers: 128\n"
#define CONSUMER_REGISTERS "168"
#else
#define REGISTERS          "" // 168
#define CONSUMER_REGISTERS "232"
#endif
#define PRE_BLOCKS  (2 * BOX_BLOCKS)               // of ACT_BACKWARD's pre: blocks that a stage has room for

// A product's tensor maps.
enum { MAP_A, MAP_B, MAP_C, MAP_SIDE, MAP_SMALL_B }; // MAP_SIDE: act, or pre

// --- tiles ----------------------------------------------------------------------------------------------

// A tile of an operand, 64 of K: one box where K lies along rows, else a box for every 128 bytes of rows or columns of
// C.
static inline void bring_tile(uint to, const global uchar *map, uint k, uint outer, uint n_outer, int along_c,
                              uint barrier) {
    if (!along_c) {
        bring_box(to, map, k, outer, barrier);
        return;
    }
    UNROLLED for (uint i = 0; i < n_outer / TILE_K; i++) {
        bring_box(to + i * TILE_K * 128, map, outer + i * TILE_K, k, barrier);
    }
}

// --- walking the tiles ------------------------------------------------------------------------------------

// A band of `band` rows of tiles is walked column by column; parts of K, one after the other.
typedef struct {
    uint m, n, part, k_first, k_end; // of C; of K in steps
} tile_place;

typedef struct {
    uint n_rows, n_cols, n_parts, n_steps, band;
} tile_grid;

static inline tile_place find_tile(const tile_grid *g, uint index) {
    tile_place p;
    const uint n_tiles = g->n_rows * g->n_cols;
    p.part = index / n_tiles;
    const uint in_part = index - p.part * n_tiles;
    const uint band = in_part / (g->band * g->n_cols);
    const uint in_band = in_part - band * g->band * g->n_cols;
    const uint height = min(g->band, g->n_rows - band * g->band);
    const uint col = in_band / height;
    p.m = (band * g->band + in_band - col * height) * TILE_M;
    p.n = col * TILE_N;
    p.k_first = g->n_steps * p.part / g->n_parts;
    p.k_end = g->n_steps * (p.part + 1) / g->n_parts;
    return p;
}

#define NEXT_STAGE(stage, parity)  \
    if (++(stage) == STAGES) {     \
        (stage) = 0;               \
        (parity) ^= 1;             \
    }

#if BESIDE & ACT_BACKWARD
// ACT_BACKWARD's pre comes as the operands do: boxes of TILE_M rows, two a stage.
INLINE void bring_pre(uint to, const global uchar *map, uint m, uint n, uint first_block, uint barrier) {
    UNROLLED for (uint i = 0; i < 2; i++) {
        if (first_block + i * BOX_BLOCKS < N_BLOCKS) {
            bring_box(to + i * A_BYTES, map, n + (first_block + i * BOX_BLOCKS) * 32, m, barrier);
        }
    }
}

// Bytes of these blocks.
#define pre_bytes(first_block) \
    ((N_BLOCKS - (first_block) < PRE_BLOCKS ? N_BLOCKS - (first_block) : PRE_BLOCKS) / BOX_BLOCKS * A_BYTES)
#endif

INLINE void produce(const tile_grid *g, uint tiles, const global uchar *maps) {
    const uint full = tiles + BARRIERS_AT;
    const uint empty = full + STAGES * 8;
    const uint n_tiles = g->n_rows * g->n_cols * g->n_parts;
    uint stage = 0;
    uint parity = 1; // a stage that nobody used yet counts as empty
    UNROLLED for (uint i = 0; i < (SPLIT ? 5 : 4); i++) {
        order_map(maps + i * MAP_BYTES);
    }
    for (uint index = (uint)get_group_id(0); index < n_tiles; index += (uint)get_num_groups(0)) {
        const tile_place p = find_tile(g, index);
#pragma unroll 1
        for (uint k = p.k_first; k < p.k_end; k++) {
            const uint to = tiles + stage * STAGE_BYTES;
            wait_bounded(empty + stage * 8, parity);
            arrive_with_bytes(full + stage * 8, STAGE_BYTES);
            bring_tile(to, maps + MAP_A * MAP_BYTES, k * TILE_K, p.m, TILE_M, A_ALONG_C, full + stage * 8);
            bring_tile(to + A_BYTES, maps + MAP_B * MAP_BYTES, k * TILE_K, p.n, TILE_N, B_ALONG_C, full + stage * 8);
#if SPLIT
            bring_tile(to + SMALL_B_AT, maps + MAP_SMALL_B * MAP_BYTES, k * TILE_K, p.n, TILE_N, 0,
                       full + stage * 8);
#endif
            NEXT_STAGE(stage, parity);
        }
#if BESIDE & ACT_BACKWARD
        UNROLLED for (uint h = 0; h < N_BLOCKS; h += PRE_BLOCKS) {
            wait_bounded(empty + stage * 8, parity);
            arrive_with_bytes(full + stage * 8, pre_bytes(h));
            bring_pre(tiles + stage * STAGE_BYTES, maps + MAP_SIDE * MAP_BYTES, p.m, p.n, h, full + stage * 8);
            NEXT_STAGE(stage, parity);
        }
#endif
    }
}

// --- the epilogue -------------------------------------------------------------------------------------------

// Address of a chunk of 16 bytes of a row in a box.
static inline uint place_chunk(uint box, uint row, uint chunk) { return box + row * 128 + ((chunk ^ row % 8) << 4); }

// 16 rows of a warp, 32 columns, to or from a box: of numbers, its first or its second half; of floats, all of it.
#if C_IS_NARROW
INLINE void put_block(const float x[16], uint box, uint half_box) {
    const uint row = MY_WARP % CONSUMER_WARPS * 16 + LANE % 16;
    UNROLLED for (uint i = 0; i < 16; i += 8) {
        const uint words[4] = {pack_numbers(x[i], x[i + 1]), pack_numbers(x[i + 2], x[i + 3]),
                               pack_numbers(x[i + 4], x[i + 5]), pack_numbers(x[i + 6], x[i + 7])};
        store_matrices(place_chunk(box, row, half_box * 4 + i / 4 + LANE / 16), words);
    }
}

#if BESIDE & ACT_BACKWARD
INLINE void get_block(float x[16], uint box, uint half_box) {
    const uint row = MY_WARP % CONSUMER_WARPS * 16 + LANE % 16;
    UNROLLED for (uint i = 0; i < 2; i++) {
        uint words[4];
        load_matrices(words, place_chunk(box, row, half_box * 4 + i * 2 + LANE / 16));
        UNROLLED for (uint w = 0; w < 4; w++) {
            const float2 two = unpack_numbers(words[w]);
            x[8 * i + 2 * w] = two.x;
            x[8 * i + 2 * w + 1] = two.y;
        }
    }
}
#endif
#else
// Two columns of two rows, 8 apart, for each 8 columns.
INLINE uint place_two(uint box, uint i) {
    return place_chunk(box, MY_WARP % CONSUMER_WARPS * 16 + LANE / 4, i * 2 + LANE % 4 / 2) + LANE % 2 * 8;
}

INLINE void put_block(const float x[16], uint box, uint half_box) {
    (void)half_box;
    UNROLLED for (uint i = 0; i < 4; i++) {
        store_two(x + 4 * i, place_two(box, i), 0);
        store_two(x + 4 * i + 2, place_two(box, i), 1024);
    }
}

#if BESIDE & ACT_BACKWARD
INLINE void get_block(float x[16], uint box, uint half_box) {
    (void)half_box;
    UNROLLED for (uint i = 0; i < 4; i++) {
        load_two(x + 4 * i, place_two(box, i), 0);
        load_two(x + 4 * i + 2, place_two(box, i), 1024);
    }
}
#endif
#endif

// A consumer's work on a tile whose sums are ready.
typedef struct {
    const global uchar *maps;
    uint beside;
    uint consumer, boxes; // of its boxes in local memory, the first
    uint m, n, part;
#ifdef FP8_A
    float scale; // of sums
#endif
    float squares;
} finisher;

// Block h: 32 columns. Two boxes of each output take turns. bias: of column LANE of the block; pre: sums' own places.
INLINE void finish_block(finisher *f, float x[16], uint h, float bias, const float pre[16]) {
    const bool is_first = get_local_id(0) % (CONSUMER_WARPS * WARP) == 0;
    const uint n = f->n + h * 32;
    const uint box = f->boxes + h / BOX_BLOCKS % 2 * OUTPUTS * BOX_BYTES;
    (void)bias;
    (void)pre;
#ifdef FP8_A
    UNROLLED for (uint i = 0; i < 16; i++) {
        x[i] *= f->scale;
    }
#endif
#if BESIDE & BIAS
    UNROLLED for (uint i = 0; i < 4; i++) {
        const float b0 = from_lane(bias, i * 8 + LANE % 4 * 2);
        const float b1 = from_lane(bias, i * 8 + LANE % 4 * 2 + 1);
        x[4 * i] += b0;
        x[4 * i + 1] += b1;
        x[4 * i + 2] += b0;
        x[4 * i + 3] += b1;
    }
#endif
#if BESIDE & ACT_BACKWARD
    UNROLLED for (uint i = 0; i < 16; i += 4) {
        float d[4];
        quick_slopes(d, pre + i);
        UNROLLED for (uint k = 0; k < 4; k++) {
            x[i + k] *= d[k];
        }
    }
#endif
    if (h % BOX_BLOCKS == 0) {
        if (is_first && h == 0) { // the tile before may have ended with this box
            send_wait_read(0);
        } else if (is_first) {
            send_wait_read(1);
        }
        wait_for_four_warps(1 + f->consumer);
    }
    put_block(x, box, h % BOX_BLOCKS);
#if SQUARES
    UNROLLED for (uint i = 0; i < 16; i++) {
        f->squares += x[i] * x[i];
    }
#endif
#if BESIDE & ACT
    float y[16];
    UNROLLED for (uint i = 0; i < 16; i += 4) {
        quick_activations(y + i, x + i);
    }
    put_block(y, box + BOX_BYTES, h % BOX_BLOCKS);
#endif
    if (h % BOX_BLOCKS == BOX_BLOCKS - 1) {
        const uint col = n - (BOX_BLOCKS - 1) * 32;
        order_bulk_copies();
        wait_for_four_warps(1 + f->consumer);
        if (is_first) {
#if C_IS_NARROW
            SEND_BOX(STORE_BOX, f->maps + MAP_C * MAP_BYTES, col, f->m, f->part, box);
#else
            if (f->beside & ADD) {
                SEND_BOX(ADD_BOX, f->maps + MAP_C * MAP_BYTES, col, f->m, f->part, box);
            } else {
                SEND_BOX(STORE_BOX, f->maps + MAP_C * MAP_BYTES, col, f->m, f->part, box);
            }
#endif
#if BESIDE & ACT
            SEND_BOX(STORE_BOX, f->maps + MAP_SIDE * MAP_BYTES, col, f->m, 0, box + BOX_BYTES);
#endif
            send_commit();
        }
    }
}

// --- the consumers --------------------------------------------------------------------------------------------

#if A_RAW
// A warp's 16 rows of A' in a stage, 32 of K: four fragments.
INLINE void load_fragments(uint a[16], uint tile, uint consumer) {
    UNROLLED for (uint s = 0; s < 4; s++) {
#if A_ALONG_C
        const uint first = consumer * GROUP_M + MY_WARP % CONSUMER_WARPS * 16; // of the tile's rows
        const uint box = tile + first / TILE_K * TILE_K * 128;
        UNROLLED for (uint w = 0; w < 4; w++) {
            const uint col = first % TILE_K + LANE / 4 + w % 2 * 8;
            a[4 * s + w] = load_word(place_chunk(box, s * 8 + LANE % 4 + w / 2 * 4, col / 4) + col % 4 * 4);
        }
#else
        const uint row = MY_WARP % CONSUMER_WARPS * 16 + LANE % 16;
        uint x[4];
        load_matrices(x, place_chunk(tile + consumer * BOX_BYTES, row, s * 2 + LANE / 16));
        UNROLLED for (uint w = 0; w < 4; w++) {
            a[4 * s + w] = x[w];
        }
#endif
    }
}

INLINE void round_numbers(uint a[16]) {
    UNROLLED for (uint i = 0; i < 16; i++) {
        a[i] = round_tf32(as_float(a[i]));
    }
}
#endif

// The products of A's last fragments of a stage, which run when the next stage begins.
#define STEP_OF_FRAGMENTS(a, k)                                         \
    {                                                                   \
        const uint at = tiles + stage * STAGE_BYTES;                    \
        wait_for(full + stage * 8, parity);                             \
        load_fragments(a, at, f->consumer);                             \
        round_numbers(a);                                               \
        MULTIPLY_BEGIN;                                                 \
        MULTIPLY_FRAGMENTS(a, PLACE(at + A_BYTES, 0), (k) != p.k_first ? 1 : 0); \
        MULTIPLY_END;                                                   \
        MULTIPLY_WAIT(1);                                               \
        if ((k) != p.k_first && LANE == 0) {                            \
            arrive(empty + last * 8);                                   \
        }                                                               \
        last = stage;                                                   \
        NEXT_STAGE(stage, parity);                                      \
    }

// squares (rows of tiles, N / 64, warps): a tile has the places of its first 64 columns.
INLINE void consume(const tile_grid *g, uint tiles, uint N, const global float *bias, global float *squares,
                    finisher *f) {
    const uint full = tiles + BARRIERS_AT;
    const uint empty = full + STAGES * 8;
    const uint n_tiles = g->n_rows * g->n_cols * g->n_parts;
    uint stage = 0;
    uint parity = 0;
    DECLARE_SUMS;
    (void)N;
    (void)bias;
    (void)squares;
    for (uint index = (uint)get_group_id(0); index < n_tiles; index += (uint)get_num_groups(0)) {
        const tile_place p = find_tile(g, index);
#if SPLIT || CAREFUL
        CLEAR_TOTALS;
#else
        uint last = 0; // the stage whose products may still go on
#endif
#if A_RAW && !SPLIT
        uint even[16]; // the fragments of a step stay until its products are done
        uint odd[16];
#pragma unroll 1
        for (uint k = p.k_first; k < p.k_end; k += 2) {
            STEP_OF_FRAGMENTS(even, k);
            if (k + 1 < p.k_end) {
                STEP_OF_FRAGMENTS(odd, k + 1);
            }
        }
#else
#pragma unroll 1
        for (uint k = p.k_first; k < p.k_end; k++) {
            const uint at = tiles + stage * STAGE_BYTES;
#if A_RAW
            const ulong b = PLACE(at + A_BYTES, B_ALONG_C);
            uint large[16];
            uint small[16];
            wait_for(full + stage * 8, parity);
            load_fragments(large, at, f->consumer);
            UNROLLED for (uint i = 0; i < 16; i++) {
                const float x = as_float(large[i]);
                large[i] = round_tf32(x);
                small[i] = round_tf32(x - as_float(large[i]));
            }
            MULTIPLY_BEGIN;
            MULTIPLY_FRAGMENTS(small, b, 0);
            MULTIPLY_FRAGMENTS(large, b + ((SMALL_B_AT - A_BYTES) >> 4), 1);
            MULTIPLY_FRAGMENTS(large, b, 1);
#else
            const ulong a = PLACE(at + f->consumer * BOX_BYTES, A_ALONG_C);
            const ulong b = PLACE(at + A_BYTES, B_ALONG_C);
            wait_for(full + stage * 8, parity);
            MULTIPLY_BEGIN;
            MULTIPLY_TILES(a, b, !CAREFUL && k != p.k_first ? 1 : 0);
#endif
            MULTIPLY_END;
#if SPLIT || CAREFUL
            MULTIPLY_WAIT(0);
            if (LANE == 0) {
                arrive(empty + stage * 8);
            }
            ADD_TO_TOTALS;
#else
            MULTIPLY_WAIT(1);
            if (k != p.k_first && LANE == 0) {
                arrive(empty + last * 8);
            }
            last = stage;
#endif
            NEXT_STAGE(stage, parity);
        }
#endif
        float biases[N_BLOCKS]; // brought while the last products go on
        UNROLLED for (uint i = 0; i < N_BLOCKS; i++) {
            biases[i] = BESIDE & f->beside & BIAS ? bias[min(p.n + i * 32 + LANE, N - 1)] : 0.0f;
        }
#if !SPLIT && !CAREFUL
        MULTIPLY_WAIT(0);
        if (LANE == 0) {
            arrive(empty + last * 8);
        }
#endif
        f->m = p.m + f->consumer * GROUP_M;
        f->n = p.n;
        f->part = p.part;
        f->squares = 0;
#if BESIDE & ACT_BACKWARD
#define GET_PRE(pre, h)                                                                                             \
    if (h % PRE_BLOCKS == 0) {                                                                                      \
        wait_for(full + stage * 8, parity);                                                                         \
    }                                                                                                               \
    get_block(pre,                                                                                                  \
              tiles + stage * STAGE_BYTES + h % PRE_BLOCKS / BOX_BLOCKS * A_BYTES + f->consumer * BOX_BYTES,        \
              h % BOX_BLOCKS);                                                                                      \
    if (h % PRE_BLOCKS == PRE_BLOCKS - 1 || h == N_BLOCKS - 1) {                                                    \
        wait_for_warp();                                                                                            \
        if (LANE == 0) {                                                                                            \
            arrive(empty + stage * 8);                                                                              \
        }                                                                                                           \
        NEXT_STAGE(stage, parity);                                                                                  \
    }
#else
#define GET_PRE(pre, h)
#endif
#define FINISH(h)                                      \
    {                                                  \
        float x[16];                                   \
        float pre[16];                                 \
        READ_SUMS(x, h);                               \
        GET_PRE(pre, h)                                \
        finish_block(f, x, h, biases[h], pre);         \
    }
        BLOCKS(FINISH)
#if SQUARES
        UNROLLED for (uint other = 1; other < WARP; other *= 2) {
            f->squares += exchange(f->squares, other);
        }
        if (LANE == 0) {
            squares[(p.m / TILE_M * (N / 64) + p.n / 64) * (CONSUMERS * CONSUMER_WARPS) + MY_WARP] = f->squares;
        }
#endif
    }
    send_wait_read(0); // the kernel's end waits for the writes
}

// --- sums of columns ------------------------------------------------------------------------------------------

#if COLUMN_SUMS
// The tiles of a column share its steps of K, so that together they add each row of B' once. Each warp adds every third
// row of a step; an item has two columns of each box. A tile's sums are three of the strips (part, row of tiles,
// warp), each with N columns.
INLINE void sum_columns(const tile_grid *g, uint tiles, uint N, global float *strips) {
    const uint full = tiles + BARRIERS_AT;
    const uint empty = full + STAGES * 8;
    const uint n_tiles = g->n_rows * g->n_cols * g->n_parts;
    const uint warp = MY_WARP - CONSUMERS * CONSUMER_WARPS - 1;
    uint stage = 0;
    uint parity = 0;
    for (uint index = (uint)get_group_id(0); index < n_tiles; index += (uint)get_num_groups(0)) {
        const tile_place p = find_tile(g, index);
        const uint row_of_tiles = p.m / TILE_M;
        float2 sums[TILE_N / 64];
        UNROLLED for (uint i = 0; i < TILE_N / 64; i++) {
            sums[i] = (float2)(0.0f, 0.0f);
        }
#pragma unroll 1
        for (uint k = p.k_first; k < p.k_end; k++) {
            wait_bounded(full + stage * 8, parity);
            if (k % g->n_rows == row_of_tiles) {
                const uint b = tiles + stage * STAGE_BYTES + A_BYTES;
#pragma unroll 1
                for (uint row = warp; row < TILE_K; row += SUM_WARPS) {
                    const uint at = place_chunk(b, row, LANE / 4) + LANE % 4 * 4;
                    UNROLLED for (uint i = 0; i < TILE_N / 64; i++) {
                        sums[i] += unpack_numbers(load_word(at + i * BOX_BYTES));
                    }
                }
            }
            wait_for_warp();
            if (LANE == 0) {
                arrive(empty + stage * 8);
            }
            NEXT_STAGE(stage, parity);
        }
        global float *strip = strips + ((ulong)(p.part * g->n_rows + row_of_tiles) * SUM_WARPS + warp) * N;
        UNROLLED for (uint i = 0; i < TILE_N / 64; i++) {
            const uint col = p.n + i * 64 + LANE * 2;
            if (col < N) { // rows of B' are whole chunks
                vstore2(sums[i], 0, strip + col);
            }
        }
    }
}
#endif

// beside: the flags of BESIDE that apply, and ADD. bias (N). With several parts, C is scratch (parts,M,N) of floats,
// and there is no epilogue. strips (3 x rows of tiles x parts, N).
kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
matmul(uint beside, uint M, uint N, uint K, uint n_parts, uint band, IN(uchar, maps), IN(float, bias)
#if COLUMN_SUMS
       ,
       OUT(float, strips)
#endif
#ifdef FP8_A
       ,
       IN(float, scale_a), IN(float, scale_b)
#endif
#if SQUARES
       ,
       OUT(float, squares)
#endif
) {
    local uchar tiles[LOCAL_BYTES] __attribute__((aligned(1024)));
    const uint at = local_address(tiles);
    tile_grid g;
    g.n_rows = (M + TILE_M - 1) / TILE_M;
    g.n_cols = (N + TILE_N - 1) / TILE_N;
    g.n_steps = (K + TILE_K - 1) / TILE_K;
    g.n_parts = n_parts;
    g.band = band;
    if (get_local_id(0) == 0) {
        for (uint i = 0; i < STAGES; i++) {
            make_barrier(at + BARRIERS_AT + i * 8, 1);
            make_barrier(at + BARRIERS_AT + (STAGES + i) * 8, CONSUMERS * CONSUMER_WARPS + SUM_WARPS);
        }
        show_barriers();
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (MY_WARP >= CONSUMERS * CONSUMER_WARPS) {
        LEAVE_REGISTERS(REGISTERS);
        if (get_local_id(0) == CONSUMERS * CONSUMER_WARPS * WARP) {
            produce(&g, at, maps + maps_at);
        }
#if COLUMN_SUMS
        if (MY_WARP > CONSUMERS * CONSUMER_WARPS) {
            sum_columns(&g, at, N, strips + strips_at);
        }
#endif
    } else {
        TAKE_REGISTERS(CONSUMER_REGISTERS);
        finisher f;
        f.maps = maps + maps_at;
        f.beside = beside;
#ifdef FP8_A
        f.scale = inverse_scale(scale_a[scale_a_at]) * inverse_scale(scale_b[scale_b_at]);
#endif
        f.consumer = MY_WARP / CONSUMER_WARPS;
        f.boxes = at + STORE_AT + f.consumer * 2 * OUTPUTS * BOX_BYTES;
#if SQUARES
        consume(&g, at, N, bias + bias_at, squares + squares_at, &f);
#else
        consume(&g, at, N, bias + bias_at, 0, &f);
#endif
    }
}
