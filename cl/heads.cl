// heads.cl: what the kernels of attention on matrix units share (attention_tensor.cl, attention_units.cl), before which
// the host puts this text: where a head's rows lie, and which of them are a work-group's.

#ifndef HS
#define HS 64 // channels of a head: a multiple of 8
#endif
#ifndef SCALE
#define SCALE 0.125f // 1 / sqrt(HS)
#endif
#ifndef DROPOUT
#define DROPOUT 0
#endif
#ifndef PART
#define PART 0 // the kernel that is compiled; 0: forward, 1: dq, 2: dk and dv. Each has its own best sizes
#endif

// Arrays of an item are registers only where all that handles them is part of the kernel.
#define inlined static inline __attribute__((always_inline))

#define LOG2E 1.44269504f

typedef struct {
    uint T;
    ulong head_row;    // of [b,h,0] among rows of lse
    ulong first_token; // b T
    uint q, k, v;      // the head's first channels in a row of qkv; q also in a row of y
    uint ld, C;        // elements of a row of qkv, of y
} place;

// head: b NH + h
inlined place find_place(uint head, ulong T, ulong NH, ulong NKV) {
    place p;
    p.T = (uint)T;
    p.head_row = head * T;
    p.first_token = head / (uint)NH * T;
    p.q = head % (uint)NH * HS;
    p.k = ((uint)NH + head % (uint)NH / (uint)(NH / NKV)) * HS;
    p.v = p.k + (uint)NKV * HS;
    p.ld = (uint)(NH + 2 * NKV) * HS;
    p.C = (uint)NH * HS;
    return p;
}

inlined ulong qkv_start(const place *p, uint t) { return (p->first_token + t) * p->ld; }
inlined ulong y_start(const place *p, uint t) { return (p->first_token + t) * p->C + p->q; }

// Maps this work-group to a head and a tile: tiles of some heads lie side by side, tile 0 of each first. The keys of so
// many heads fit a card's second level.
inlined void find_tile(uint n_heads, uint n_tiles, uint T, uint *head, uint *tile) {
    const uint fits = (4u << 20) / (T * HS);
    const uint together = fits < 8 ? 8 : min(fits, n_heads < 64 ? 64u : 32u);
    const uint group = (uint)get_group_id(0);
    const uint first = group / (together * n_tiles) * together;
    const uint n = min(n_heads - first, together);
    const uint left = group - first * n_tiles;
    *tile = left / n;
    *head = first + left % n;
}
