// attention_tiles.cl: sizes of attention on matrix units (attention_tensor.cl), and how its operands come: by tiles
// through local memory, STAGES of them. While one is used, the next AHEAD are on their way: brought by TMA (tma.cl),
// which one item asks for, for products by four warps together; otherwise copied by all items (cp.async).

#ifndef WARPS
#define WARPS 4 // of a work-group
#endif
#ifndef FRAGMENTS
#define FRAGMENTS 2 // of 16 rows (or keys) that a warp owns
#endif
#ifndef TILE
#define TILE 64 // keys (forward, dq) or rows (dk, dv) of a tile in local memory
#endif
#ifndef STEP
#define STEP TILE // of them at a time in registers: a multiple of 16
#endif
#ifndef IN_REGISTERS
#define IN_REGISTERS 0 // operands of the owned rows that are kept there: 0, 1 or 2; by wgmma none
#endif
#ifndef WGMMA
#define WGMMA 0 // 1: products by four warps together (attention_wgmma.cl); HS is 64 or 128
#endif
#ifndef SPLIT
#define SPLIT 0 // 1: floats are multiplied as sums of two tf32 numbers, by three products; for fp32's accuracy
#endif

#define ELEM       ((int)sizeof(data))     // bytes
#define CHUNK      (16 / ELEM)             // elements of a copy
#define CHUNKS     (HS / CHUNK)            // of a row
#define K_STEPS    ((CHUNKS + 1) / 2)      // a product takes two chunks of a row at a time
#define PITCH      (((2 * K_STEPS) | 1) * 16) // bytes of a row in local memory: odd in chunks, against bank conflicts
#define ROW_TILES  (HS / 8)                // a result's row: tiles of 8 channels
#define STEP_TILES (STEP / 8)
#if WGMMA
#ifndef STAGES
#define STAGES 4
#endif
#ifndef GROUPS
#define GROUPS 1 // work-groups that a unit has registers for
#endif
#define ROW_BYTES     128
#define TILE_BYTES    (TILE * HS * 2)
#define OWN_BYTES     (OWN * HS * 2)
#define TOGETHER      4            // warps that multiply together
#define AHEAD         (STAGES > 2 ? STAGES - 2 : 1) // so that four warps may be a tile behind others
#define BARRIER_BYTES (STAGES * 16)
// A tile's sums are multiplied with the scores of the next, if there are registers and the one who brings is far ahead.
#define OVERLAPS (STAGES > 2 && STAGES > WARPS / TOGETHER && (PART == 0 || (PART == 1 && GROUPS * WARPS <= 12)))
#else
#define STAGES        2
#define ROW_BYTES     PITCH
#define TILE_BYTES    (TILE * PITCH)
#define OWN_BYTES     (OWN * PITCH)
#define TOGETHER      1
#define AHEAD         1
#define BARRIER_BYTES 0
#endif
#define STAGE_BYTES (2 * TILE_BYTES) // of two operands
#define RING_BYTES  (STAGES * STAGE_BYTES + BARRIER_BYTES)

#define ITEMS      (WARPS * WARP)
#define WARP_ROWS  (16 * FRAGMENTS)
#define MY_FIRST   (MY_WARP * WARP_ROWS)   // of the work-group's rows or keys
#define OWN        (WARPS * WARP_ROWS)     // rows or keys that a work-group owns

#define ROW  (LANE / 4) // this item's place in a fragment of a result: rows ROW and ROW + 8,
#define PAIR (LANE % 4) // columns 2 PAIR and the next
// Number of the warps that multiply together.
#define OUR  (TOGETHER == 1 ? MY_WARP : WARPS == TOGETHER ? 0 : first_lane(MY_WARP / TOGETHER))

// --- operands come by tiles ---------------------------------------------------------------------------------------

// Offset of chunk c of a row in a tile of n_rows in local memory, in bytes.
inlined uint find_chunk(uint row, uint c, uint n_rows) {
    return WGMMA ? c / 8 * (n_rows * 128) + row * 128 + (c % 8 ^ row % 8) * 16 : row * PITCH + c * 16;
}

// The stages of tiles in local memory, at `tiles`: the one in use, and the one to be filled next.
typedef struct {
    uint tiles, barriers;
    uint now, now_parity; // of the phase of the stage's barrier
    uint next, next_parity;
} ring;

inlined void advance(uint *stage, uint *parity) {
    *stage += 1;
    if (*stage == STAGES) {
        *stage = 0;
        *parity ^= 1;
    }
}

inlined uint next_stage(const ring *r) { return r->tiles + r->next * STAGE_BYTES; }

#if WGMMA
// A tensor (B,T,channels), of which one item brings boxes of 64 rows and 64 channels. Each stage has two barriers:
// full, by the bytes that came, and empty, by the warps that left it.
typedef struct {
    const global uchar *map;
    uint sequence;
} source;

enum { MAP_QKV, MAP_DY };
#define MAPS_ARGS       const global uchar *maps, ulong maps_at,
#define SOURCE_QKV(p)   {((void)qkv, (void)qkv_at, maps + maps_at + MAP_QKV * MAP_BYTES), (uint)((p).first_token / (p).T)}
#define SOURCE_DY(p)    {((void)dy, (void)dy_at, maps + maps_at + MAP_DY * MAP_BYTES), (uint)((p).first_token / (p).T)}
#define BRINGS          (get_local_id(0) == 0)
#define FULL(r, stage)  ((r)->barriers + (stage) * 8)
#define EMPTY(r, stage) ((r)->barriers + (STAGES + (stage)) * 8)

inlined ring make_ring(const local uint4 *tiles) {
    const uint at = local_address(tiles);
    const ring r = {at, at + STAGES * STAGE_BYTES, 0, 0, 0, 1};
    __asm__ volatile("//groups a unit: " TEXT(GROUPS));
    if (BRINGS) {
        for (uint i = 0; i < STAGES; i++) {
            make_barrier(FULL(&r, i), 1);
            make_barrier(EMPTY(&r, i), WARPS);
        }
        show_barriers();
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return r;
}

inlined void bring(const ring *r, const source *from, uint channel, uint first, uint T, uint n_rows, uint to) {
    (void)T;
    UNROLLED for (uint c = 0; c < HS; c += 64) {
        UNROLLED for (uint row = 0; row < n_rows; row += 64) {
            bring_box_of(to + c * n_rows * 2 + row * 128, from->map, channel + c, first + row, from->sequence,
                         FULL(r, r->next));
        }
    }
}

// Before anything is brought.
inlined void open_source(const source *from) {
    if (BRINGS) {
        order_map(from->map);
    }
}

// Own rows, which come with the tiles of the first stage.
inlined void bring_own(const ring *r, const source *from, uint channel, uint first, uint T, uint to) {
    if (BRINGS) {
        expect_bytes(FULL(r, r->next), OWN_BYTES);
        bring(r, from, channel, first, T, OWN, to);
    }
}

// Fills the next stage with rows from `first` on of two operands; with nothing from row `end` on.
inlined void fill(ring *r, const source *a, uint a_channel, const source *b, uint b_channel, uint first, uint end,
                  uint T) {
    if (BRINGS && first < end) {
        wait_for(EMPTY(r, r->next), r->next_parity);
        arrive_with_bytes(FULL(r, r->next), STAGE_BYTES);
        bring(r, a, a_channel, first, T, TILE, next_stage(r));
        bring(r, b, b_channel, first, T, TILE, next_stage(r) + TILE_BYTES);
    }
    advance(&r->next, &r->next_parity);
}

inlined void await_stage(const ring *r) { wait_for(FULL(r, r->now), r->now_parity); }

// Waits for the stage after the one in use.
inlined ring await_next(const ring *r) {
    ring next = *r;
    advance(&next.now, &next.now_parity);
    await_stage(&next);
    return next;
}

inlined void leave_stage(ring *r) {
    if (LANE == 0) {
        arrive(EMPTY(r, r->now));
    }
    advance(&r->now, &r->now_parity);
}
#else
// The rows of a sequence, ld elements each, which all items copy.
typedef struct {
    const global data *rows;
    uint ld;
} source;

#define MAPS_ARGS
#define open_source(from)
#define SOURCE_QKV(p) {qkv + qkv_at + qkv_start(&(p), 0), (p).ld}
#define SOURCE_DY(p)  {dy + dy_at + y_start(&(p), 0) - (p).q, (p).C}

inlined ring make_ring(const local uint4 *tiles) {
    const ring r = {local_address(tiles), 0, 0, 0, 0, 0};
    return r;
}

// n_rows rows, from row `first` of T on; zeros in the place of those beyond.
inlined void bring(const ring *r, const source *from, uint channel, uint first, uint T, uint n_rows, uint to) {
    (void)r;
    UNROLLED for (uint i = 0; i < (n_rows * CHUNKS + ITEMS - 1) / ITEMS; i++) {
        const uint e = (uint)get_local_id(0) + i * ITEMS;
        const uint row = e / CHUNKS;
        const uint c = e % CHUNKS;
        if (n_rows * CHUNKS % ITEMS == 0 || row < n_rows) {
            const uint t = first + row;
            copy16_async_part(to + find_chunk(row, c, n_rows),
                              from->rows + channel + (ulong)min(t, T - 1) * from->ld + c * CHUNK, t < T ? 16u : 0u);
        }
    }
}

inlined void bring_own(const ring *r, const source *from, uint channel, uint first, uint T, uint to) {
    bring(r, from, channel, first, T, OWN, to);
}

inlined void fill(ring *r, const source *a, uint a_channel, const source *b, uint b_channel, uint first, uint end,
                  uint T) {
    if (first < end) {
        bring(r, a, a_channel, first, T, TILE, next_stage(r));
        bring(r, b, b_channel, first, T, TILE, next_stage(r) + TILE_BYTES);
    }
    copy_async_commit();
    advance(&r->next, &r->next_parity);
}

inlined void await_stage(const ring *r) {
    (void)r;
    copy_async_wait(0);
    barrier(CLK_LOCAL_MEM_FENCE);
}

inlined void leave_stage(ring *r) { advance(&r->now, &r->now_parity); }
#endif

// The name of a tile for products, and of its part n_bytes further on: wgmma takes a descriptor.
#if WGMMA
typedef ulong tile_name;
#define FURTHER(n_bytes) ((n_bytes) / 16)
inlined tile_name name_tile(uint address) { return describe_tile(address, TILE * 128); }
inlined tile_name name_own(uint address) { return describe_tile(address + OUR * (TOGETHER * WARP_ROWS * 128), 16); }
#else
typedef uint tile_name;
#define FURTHER(n_bytes) (n_bytes)
inlined tile_name name_tile(uint address) { return address; }
inlined tile_name name_own(uint address) { return address; }
#endif
