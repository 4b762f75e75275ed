// matmul_wgmma.cl: matrix products on matrix units that four warps drive together and that read local memory themselves
// (wgmma), fed by copies of whole tiles (TMA: the tensor memory accelerator). PTX ISA, "Asynchronous warpgroup level
// matrix instructions" and "cp.async.bulk.tensor"; the design is that of CUTLASS's persistent kernels for Hopper.
//
// A driver's compiler takes these instructions only for a target that it does not choose itself. They stand here as
// comments, "//@" before them; the host takes that away from the PTX that the compiler makes, and names the target
// (backends/opencl/opencl_retarget.c).
//
//   C = A' B', or C += A' B'      as in matmul_tensor.cl; numbers of 16 bits
//
//   one work-group a unit, which walks tiles of C (128 x TILE_N):
//
//     producer   one warp: one item asks for tiles of A' and B', 64 of K at a time, STAGES of them ahead
//     consumers  two groups of four warps: each multiplies 64 rows of a tile, and stores them by way of local memory
//
// Barriers in local memory tell that a stage is full, by the bytes that came, or empty, by the consumers' warps. A tensor
// map (128 bytes, backends/opencl/opencl_tensor_map.c) says where a matrix is and how tiles of it lie in local memory:
// rows of 128 bytes, whose chunks of 16 bytes are exchanged by the row's number. What is outside of a matrix is read as
// zeros and not written.
//
// The sums are registers of PTX by name, c00 to c7f, not variables of this text: so the units add to them in place. Those
// of block h, 32 columns, are ch0 to chf: an item has (row, 8 i + 2 pair) and the next, and the same of row + 8, in
// ch(4i) to ch(4i + 3); row = LANE / 4, pair = LANE % 4.

#ifndef TILE_N
#define TILE_N 256 // columns of C per tile: 128, 192 or 256
#endif
#ifndef STAGES
#define STAGES 4 // tiles of operands in local memory
#endif

#define INLINE static inline __attribute__((always_inline)) // else sums would pass through memory

#ifdef DATA_F16
#define NUMBER "f16"
#define pack_numbers pack_f16
#define unpack_numbers unpack_f16
#else
#define NUMBER "bf16"
#define pack_numbers pack_bf16
#define unpack_numbers unpack_bf16
#endif

#define TILE_M     128
#define TILE_K     64
#define GROUP_M    64                             // rows of a consumer
#define BLOCK_COLS (128 / C_ELEM_BYTES)           // columns of C that are stored at a time: 128 bytes of a row
#define A_BYTES    (TILE_M * TILE_K * 2)
#define B_BYTES    (TILE_N * TILE_K * 2)
#define BOX_BYTES  (64 * 128)                     // 64 rows of 128 bytes
#define STAGE_BYTES (A_BYTES + B_BYTES)
#define STORE_AT   (STAGES * STAGE_BYTES)         // two boxes a consumer
#define BARRIERS_AT (STORE_AT + 4 * BOX_BYTES)    // full and empty of each stage
#define LOCAL_BYTES (BARRIERS_AT + STAGES * 2 * 8)
#define CONSUMERS  2
#define CONSUMER_WARPS 4
#define ITEMS      ((CONSUMERS * CONSUMER_WARPS + 1) * WARP)

// Sums are floats with C_REAL, else numbers.
#ifdef C_REAL
#define C_ELEM_BYTES 4
#else
#define C_ELEM_BYTES 2
#endif

// Whether neighbours in memory differ in k (0) or in the row or column of C (1).
#ifdef A_TRANSPOSED
#define A_ALONG_C 1
#else
#define A_ALONG_C 0
#endif
#ifdef B_TRANSPOSED
#define B_ALONG_C 0
#else
#define B_ALONG_C 1
#endif

// What is to be done beside the product; as in backends/opencl/opencl_bind.h.
enum { ADD = 1, BIAS = 2, GELU = 4, GELU_BACKWARD = 8 };

// A product's tensor maps.
enum { MAP_A, MAP_B, MAP_C, MAP_ACT, MAP_BYTES = 128 };

// --- barriers in local memory -----------------------------------------------------------------------------

static inline void make_barrier(uint barrier, uint n_arrivals) {
    __asm__ volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(n_arrivals) : "memory");
}

static inline void arrive(uint barrier) {
    __asm__ volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(barrier) : "memory");
}

static inline void arrive_with_bytes(uint barrier, uint n_bytes) {
    __asm__ volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(n_bytes) : "memory");
}

// Waits until the phase of that parity is over.
#define wait_for(barrier, parity)                                                                              \
    __asm__ volatile("{\n.reg .pred done;\nWAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"   \
                     "@!done bra WAIT;\n}" ::"r"(barrier),                                                     \
                     "r"(parity)                                                                               \
                     : "memory")

// The same, but ends the kernel with an error when that does not come: then the device is not lost. (In the consumers it
// would cost registers.)
#define wait_bounded(barrier, parity)                                                                          \
    __asm__ volatile("{\n.reg .pred done;\n.reg .u32 n;\nmov.u32 n, 0;\n"                                      \
                     "WAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra DONE;\n"       \
                     "add.u32 n, n, 1;\nsetp.lt.u32 done, n, 4000000;\n@done bra WAIT;\ntrap;\nDONE:\n}" ::"r"( \
                         barrier),                                                                             \
                     "r"(parity)                                                                               \
                     : "memory")

static inline void order_bulk_copies(void) { __asm__ volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A barrier of one consumer's items.
static inline void consumer_barrier(uint consumer) {
    __asm__ volatile("bar.sync %0, 128;" ::"r"(1 + consumer) : "memory");
}

// --- tiles ----------------------------------------------------------------------------------------------

static inline void order_map(const global uchar *map) {
    __asm__ volatile("//@fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

// A box of a matrix from column x, row y on; its bytes are counted by the barrier.
static inline void bring_box(uint to, const global uchar *map, uint x, uint y, uint barrier) {
    __asm__ volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                     "[%4];" ::"r"(to),
                     "l"(map), "r"(x), "r"(y), "r"(barrier)
                     : "memory");
}

// A tile of an operand, 64 of K: one box where K lies along rows, else a box for every 64 rows or columns of C.
static inline void bring_tile(uint to, const global uchar *map, uint k, uint outer, uint n_outer, int along_c,
                              uint barrier) {
    if (!along_c) {
        bring_box(to, map, k, outer, barrier);
        return;
    }
#pragma unroll
    for (uint i = 0; i < n_outer / 64; i++) {
        bring_box(to + i * BOX_BYTES, map, outer + i * 64, k, barrier);
    }
}

// A box of C, or of sums of a part: stored, or added to what is there.
#define SEND_BOX(instruction, map, x, y, part, from)                                               \
    __asm__ volatile(instruction " [%0, {%1, %2, %3}], [%4];" ::"l"(map), "r"(x), "r"(y), "r"(part), \
                     "r"(from)                                                                     \
                     : "memory")
#define STORE_BOX "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group"
#define ADD_BOX   "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.bulk_group"

static inline void send_commit(void) { __asm__ volatile("cp.async.bulk.commit_group;" ::: "memory"); }
#define send_wait_read(n) __asm__ volatile("cp.async.bulk.wait_group.read " TEXT(n) ";" ::: "memory")
static inline void send_wait(void) { __asm__ volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// --- the sums ---------------------------------------------------------------------------------------------

#define SUMS_OF(h)                                                                                                 \
    "c" #h "0, c" #h "1, c" #h "2, c" #h "3, c" #h "4, c" #h "5, c" #h "6, c" #h "7, c" #h "8, c" #h "9, c" #h     \
    "a, c" #h "b, c" #h "c, c" #h "d, c" #h "e, c" #h "f"
#define SUMS_128 SUMS_OF(0) ", " SUMS_OF(1) ", " SUMS_OF(2) ", " SUMS_OF(3)
#if TILE_N == 128
#define SUMS         SUMS_128
#define BLOCKS(each) each(0) each(1) each(2) each(3)
#elif TILE_N == 192
#define SUMS         SUMS_128 ", " SUMS_OF(4) ", " SUMS_OF(5)
#define BLOCKS(each) each(0) each(1) each(2) each(3) each(4) each(5)
#else
#define SUMS         SUMS_128 ", " SUMS_OF(4) ", " SUMS_OF(5) ", " SUMS_OF(6) ", " SUMS_OF(7)
#define BLOCKS(each) each(0) each(1) each(2) each(3) each(4) each(5) each(6) each(7)
#endif
#define DECLARE_SUMS __asm__ volatile(".reg .f32 " SUMS ";")

// The 16 sums of block h.
#define READ_SUMS(x, h)                                                                                          \
    __asm__ volatile("mov.f32 %0, c" #h "0; mov.f32 %1, c" #h "1; mov.f32 %2, c" #h "2; mov.f32 %3, c" #h "3;"     \
                     "mov.f32 %4, c" #h "4; mov.f32 %5, c" #h "5; mov.f32 %6, c" #h "6; mov.f32 %7, c" #h "7;"     \
                     "mov.f32 %8, c" #h "8; mov.f32 %9, c" #h "9; mov.f32 %10, c" #h "a; mov.f32 %11, c" #h "b;"   \
                     "mov.f32 %12, c" #h "c; mov.f32 %13, c" #h "d; mov.f32 %14, c" #h "e; mov.f32 %15, c" #h "f;" \
                     : "=f"((x)[0]), "=f"((x)[1]), "=f"((x)[2]), "=f"((x)[3]), "=f"((x)[4]), "=f"((x)[5]),         \
                       "=f"((x)[6]), "=f"((x)[7]), "=f"((x)[8]), "=f"((x)[9]), "=f"((x)[10]), "=f"((x)[11]),       \
                       "=f"((x)[12]), "=f"((x)[13]), "=f"((x)[14]), "=f"((x)[15]))

// Where a tile lies, for the units: address, and distances of 1024 bytes between 8 rows and of a box between 64 columns,
// in units of 16 bytes; rows of 128 bytes with exchanged chunks.
#define PLACE(at, along_c) \
    (1UL << 62 | (1024UL >> 4) << 32 | ((along_c) ? BOX_BYTES >> 4 : 1UL) << 16 | (ulong)((at) >> 4))
#define NEXT_K16(along_c) ((along_c) ? 2048 >> 4 : 32 >> 4) // from 16 of K to the next

// sums = A' B' + (add ? sums : 0), of 64 rows and 16 of K; it is only begun.
#define MULTIPLY(a, b, add)                                                                                        \
    __asm__ volatile("//@{ .reg .pred add; setp.ne.b32 add, %2, 0; wgmma.mma_async.sync.aligned.m64n" TEXT(TILE_N) \
                     "k16.f32." NUMBER "." NUMBER " {" SUMS "}, %0, %1, add, 1, 1, " TEXT(A_ALONG_C) ", " TEXT(    \
                         B_ALONG_C) "; }" ::"l"(a),                                                                \
                     "l"(b), "r"(add)                                                                              \
                     : "memory")
#define MULTIPLY_BEGIN  __asm__ volatile("//@wgmma.fence.sync.aligned;" ::: "memory")
#define MULTIPLY_END    __asm__ volatile("//@wgmma.commit_group.sync.aligned;" ::: "memory")
#define MULTIPLY_WAIT(n) __asm__ volatile("//@wgmma.wait_group.sync.aligned " #n ";" ::: "memory") // n may go on

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

INLINE void produce(const tile_grid *g, uint tiles, const global uchar *maps) {
    const uint full = tiles + BARRIERS_AT;
    const uint empty = full + STAGES * 8;
    const uint n_tiles = g->n_rows * g->n_cols * g->n_parts;
    uint stage = 0;
    uint parity = 1; // a stage that nobody used yet counts as empty
    order_map(maps + MAP_A * MAP_BYTES);
    order_map(maps + MAP_B * MAP_BYTES);
    for (uint index = (uint)get_group_id(0); index < n_tiles; index += (uint)get_num_groups(0)) {
        const tile_place p = find_tile(g, index);
#pragma unroll 1
        for (uint k = p.k_first; k < p.k_end; k++) {
            const uint to = tiles + stage * STAGE_BYTES;
            wait_bounded(empty + stage * 8, parity);
            arrive_with_bytes(full + stage * 8, STAGE_BYTES);
            bring_tile(to, maps + MAP_A * MAP_BYTES, k * TILE_K, p.m, TILE_M, A_ALONG_C, full + stage * 8);
            bring_tile(to + A_BYTES, maps + MAP_B * MAP_BYTES, k * TILE_K, p.n, TILE_N, B_ALONG_C, full + stage * 8);
            if (++stage == STAGES) {
                stage = 0;
                parity ^= 1;
            }
        }
    }
}

// --- what is done beside the product ------------------------------------------------------------------------

// Where a chunk of 16 bytes of a row lies in a box.
static inline uint place_chunk(uint box, uint row, uint chunk) { return box + row * 128 + ((chunk ^ row % 8) << 4); }

// A consumer's work on a tile whose sums are ready.
typedef struct {
    uint beside, M, N;
    const global float *bias;
    const global ushort *pre;
    const global uchar *maps;
    uint consumer, boxes; // of the two boxes in local memory, the first
    uint m, n, part;
} finisher;

#ifndef C_REAL
INLINE void apply(const finisher *f, float x[16], uint n) {
    if (f->beside & (BIAS | GELU_BACKWARD)) {
        const ulong row = f->m + MY_WARP % CONSUMER_WARPS * 16 + LANE / 4;
#pragma unroll
        for (uint i = 0; i < 4; i++) {
            const uint col = min(n + i * 8 + LANE % 4 * 2, f->N - 2);
            if (f->beside & BIAS) {
                const float2 b = *(const global float2 *)(f->bias + col);
                x[4 * i] += b.x;
                x[4 * i + 1] += b.y;
                x[4 * i + 2] += b.x;
                x[4 * i + 3] += b.y;
            }
            if (f->beside & GELU_BACKWARD) {
                const float2 u = unpack_numbers(*(const global uint *)(f->pre + min(row, (ulong)f->M - 1) * f->N + col));
                const float2 v =
                    unpack_numbers(*(const global uint *)(f->pre + min(row + 8, (ulong)f->M - 1) * f->N + col));
                x[4 * i] *= quick_gelu_derivative(u.x);
                x[4 * i + 1] *= quick_gelu_derivative(u.y);
                x[4 * i + 2] *= quick_gelu_derivative(v.x);
                x[4 * i + 3] *= quick_gelu_derivative(v.y);
            }
        }
    }
}

// 16 rows of a warp, 32 columns, as numbers: columns 0-31 or 32-63 of a box.
INLINE void put_numbers(const float x[16], uint box, uint half_box) {
    const uint row = MY_WARP % CONSUMER_WARPS * 16 + LANE % 16;
#pragma unroll
    for (uint i = 0; i < 2; i++) {
        __asm__ volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                             place_chunk(box, row, half_box * 4 + i * 2 + LANE / 16)),
                         "r"(pack_numbers(x[8 * i], x[8 * i + 1])), "r"(pack_numbers(x[8 * i + 2], x[8 * i + 3])),
                         "r"(pack_numbers(x[8 * i + 4], x[8 * i + 5])), "r"(pack_numbers(x[8 * i + 6], x[8 * i + 7]))
                         : "memory");
    }
}
#else

// The same as floats: a whole box.
INLINE void put_floats(const float x[16], uint box) {
    const uint row = MY_WARP % CONSUMER_WARPS * 16 + LANE / 4;
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        const uint at = place_chunk(box, row, i * 2 + LANE % 4 / 2) + LANE % 2 * 8;
        __asm__ volatile("st.shared.v2.f32 [%0], {%1, %2};\nst.shared.v2.f32 [%0+1024], {%3, %4};" ::"r"(at), "f"(x[4 * i]),
                         "f"(x[4 * i + 1]), "f"(x[4 * i + 2]), "f"(x[4 * i + 3])
                         : "memory");
    }
}
#endif

// Block h: 32 columns. Two boxes take turns; where GELU's result goes too, one is for it.
INLINE void finish_block(const finisher *f, float x[16], uint h) {
    const bool is_first = get_local_id(0) % (CONSUMER_WARPS * WARP) == 0;
    const uint n = f->n + h * 32;
#ifdef C_REAL
    const uint box = f->boxes + h % 2 * BOX_BYTES;
    if (is_first) {
        send_wait_read(1);
    }
    consumer_barrier(f->consumer);
    put_floats(x, box);
    order_bulk_copies();
    consumer_barrier(f->consumer);
    if (is_first) {
        if (f->beside & ADD) {
            SEND_BOX(ADD_BOX, f->maps + MAP_C * MAP_BYTES, n, f->m, f->part, box);
        } else {
            SEND_BOX(STORE_BOX, f->maps + MAP_C * MAP_BYTES, n, f->m, f->part, box);
        }
        send_commit();
    }
#else
    const bool has_act = (f->beside & GELU) != 0;
    const uint box = f->boxes + (has_act ? 0 : h / 2 % 2 * BOX_BYTES);
    const uint act_box = f->boxes + BOX_BYTES;
    if (h % 2 == 0) {
        if (is_first) {
            if (has_act) {
                send_wait_read(0);
            } else {
                send_wait_read(1);
            }
        }
        consumer_barrier(f->consumer);
    }
    apply(f, x, n);
    put_numbers(x, box, h % 2);
    if (has_act) {
#pragma unroll
        for (uint i = 0; i < 16; i++) {
            x[i] = quick_gelu(x[i]);
        }
        put_numbers(x, act_box, h % 2);
    }
    if (h % 2 == 1) {
        order_bulk_copies();
        consumer_barrier(f->consumer);
        if (is_first) {
            SEND_BOX(STORE_BOX, f->maps + MAP_C * MAP_BYTES, n - 32, f->m, 0, box);
            if (has_act) {
                SEND_BOX(STORE_BOX, f->maps + MAP_ACT * MAP_BYTES, n - 32, f->m, 0, act_box);
            }
            send_commit();
        }
    }
#endif
}

INLINE void consume(const tile_grid *g, uint tiles, finisher *f) {
    const uint full = tiles + BARRIERS_AT;
    const uint empty = full + STAGES * 8;
    const uint n_tiles = g->n_rows * g->n_cols * g->n_parts;
    uint stage = 0;
    uint parity = 0;
    uint last = 0; // the stage whose products may still go on
    DECLARE_SUMS;
    order_map(f->maps + MAP_C * MAP_BYTES);
    order_map(f->maps + MAP_ACT * MAP_BYTES);
    for (uint index = (uint)get_group_id(0); index < n_tiles; index += (uint)get_num_groups(0)) {
        const tile_place p = find_tile(g, index);
#pragma unroll 1
        for (uint k = p.k_first; k < p.k_end; k++) {
            const uint at = tiles + stage * STAGE_BYTES;
            const ulong a = PLACE(at + f->consumer * BOX_BYTES, A_ALONG_C);
            const ulong b = PLACE(at + A_BYTES, B_ALONG_C);
            wait_for(full + stage * 8, parity);
            MULTIPLY_BEGIN;
            MULTIPLY(a, b, k != p.k_first ? 1 : 0);
            MULTIPLY(a + NEXT_K16(A_ALONG_C), b + NEXT_K16(B_ALONG_C), 1);
            MULTIPLY(a + 2 * NEXT_K16(A_ALONG_C), b + 2 * NEXT_K16(B_ALONG_C), 1);
            MULTIPLY(a + 3 * NEXT_K16(A_ALONG_C), b + 3 * NEXT_K16(B_ALONG_C), 1);
            MULTIPLY_END;
            MULTIPLY_WAIT(1);
            if (k != p.k_first && LANE == 0) {
                arrive(empty + last * 8);
            }
            last = stage;
            if (++stage == STAGES) {
                stage = 0;
                parity ^= 1;
            }
        }
        MULTIPLY_WAIT(0);
        if (LANE == 0) {
            arrive(empty + last * 8);
        }
        f->m = p.m + f->consumer * GROUP_M;
        f->n = p.n;
        f->part = p.part;
#define FINISH(h)                 \
    {                             \
        float x[16];              \
        READ_SUMS(x, h);          \
        finish_block(f, x, 0x##h); \
    }
        BLOCKS(FINISH)
    }
    send_wait();
}

// bias (N); pre (M,N) is GELU_BACKWARD's. With several parts, C is scratch (parts,M,N) of floats and beside 0.
kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
matmul(uint beside, uint M, uint N, uint K, uint n_parts, uint band, const global uchar *maps, ulong maps_at,
       const global float *bias, ulong bias_at, const global ushort *pre, ulong pre_at) {
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
            make_barrier(at + BARRIERS_AT + (STAGES + i) * 8, CONSUMERS * CONSUMER_WARPS);
        }
        __asm__ volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        order_bulk_copies();
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (MY_WARP == CONSUMERS * CONSUMER_WARPS) {
        if (LANE == 0) {
            produce(&g, at, maps + maps_at);
        }
    } else {
        finisher f;
        f.beside = beside;
        f.M = M;
        f.N = N;
        f.bias = bias + bias_at;
        f.pre = pre + pre_at;
        f.maps = maps + maps_at;
        f.consumer = MY_WARP / CONSUMER_WARPS;
        f.boxes = at + STORE_AT + f.consumer * 2 * BOX_BYTES;
        consume(&g, at, &f);
    }
}
