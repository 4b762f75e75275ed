// matmul_registers.cl: the products of a linear layer for processors: a work-item owns a tile of C that
// stays in vector registers.
//
//   C = A' B', or C += A' B'      C (M,N); A' (M,K) is A, or the transpose of A (K,M) with a_transposed;
//                                 B' (K,N) is B, or the transpose of B (N,K) with b_transposed
//
// First A' is packed: panels of TILE_M rows, an element of each row after the other. Then each
// work-group, which is one work-item, makes BLOCK_N columns of C. For every BLOCK_K of K it packs its
// part of B' into local memory (which stays in the second-level cache), panels of TILE_N columns; then
// it walks the panels of A' past it. Packing fills up with zeros, so that the inner loop knows no edges.
//
//            N:  |<---- BLOCK_N: one work-group ---->|
//                |<- TILE_N ->|
//   K:  BLOCK_K  +------------+------------+---------+      packed B': local memory
//                |            |            |         |
//   M:           +------------+------------+---------+
//    TILE_M rows | registers  |            |         |      TILE_M x TILE_N sums; for each k: the
//                +------------+------------+---------+      vecs of a row of B' times TILE_M scalars
//    TILE_M rows |            |            |         |      of the panel of A'
//                +------------+------------+---------+
//
// The epilogue is applied when the last of K has been added: bias, activation, or its derivative. Operands are
// widened when they are packed. Sums wait for the rest of K in `sums`: C itself, or scratch where C is narrow, so that
// an element is rounded once.

#ifndef TILE_M
#define TILE_M 6 // rows of C per register tile
#endif
#ifndef TILE_V
#define TILE_V 2 // vecs of a row of C per register tile
#endif
#ifndef BLOCK_TILES
#define BLOCK_TILES 2 // register tiles side by side in a work-group's columns
#endif
#ifndef BLOCK_K
#define BLOCK_K 256 // of K at a time
#endif
#define TILE_N  (TILE_V * VECTOR)
#define BLOCK_N (BLOCK_TILES * TILE_N)

// Work to do besides the product; as in backends/opencl/binders/family.h.
enum { ADD = 1, BIAS = 2, ACT = 4, ACT_BACKWARD = 8, LAST = 16 };

// A column of a panel of TILE_M rows: the first of a vec's elements. Not for other sizes than the host's.
#if 4 * TILE_M == 3 * VECTOR && VECTOR >= 8
#if VECTOR == 16
typedef float8 half_vec __attribute__((aligned(4)));
typedef float4 quarter_vec __attribute__((aligned(4)));
#else
typedef float4 half_vec __attribute__((aligned(4)));
typedef float2 quarter_vec __attribute__((aligned(4)));
#endif
#define store_column(x, p) \
    (*(global half_vec *)(p) = (x).lo, *(global quarter_vec *)((p) + VECTOR / 2) = (x).hi.lo)
#endif

// packed (panels, K, TILE_M) from rows [m_first, m_first + M) and columns [k_first, k_first + K) of A'.
// ld: elements from one row of A to the next. A work-item packs up to PACK_K columns of one panel; the next item takes
// what lies next to it in A.
#ifndef PACK_K
#define PACK_K 64
#endif
kernel void matmul_pack(uint a_transposed, ulong M, ulong K, ulong ld, IN(data, a), OUT(float, packed)) {
    const ulong x = get_global_id(0);
    const ulong y = get_global_id(1);
    const ulong first = (a_transposed ? y : x) * PACK_K;
    const ulong panel = a_transposed ? x : y;
    if (first >= K || panel * TILE_M >= M) {
        return;
    }
    const ulong end = min(K, first + PACK_K);
    const uint n_rows = (uint)min((ulong)TILE_M, M - panel * TILE_M);
    global float *out = packed + packed_at + row_start(panel, K * TILE_M);
    if (a_transposed) {
        const global data *from = a + a_at + panel * TILE_M;
        ulong k = first;
#ifdef store_column
        for (; panel * TILE_M + VECTOR <= M && k < end; k++) {
            const vec x = load_data(from + row_start(k, ld));
            store_column(x, out + k * TILE_M);
        }
#endif
        for (; k < end; k++) {
            for (uint r = 0; r < TILE_M; r++) {
                out[k * TILE_M + r] = r < n_rows ? widen(from[row_start(k, ld) + r]) : 0.0f;
            }
        }
        return;
    }
    const global data *from = a + a_at + row_start(panel * TILE_M, ld);
    ulong done = first;
#ifdef store_column
    for (; n_rows == TILE_M && done + VECTOR <= end; done += VECTOR) {
        vec x[VECTOR];
        UNROLLED for (uint r = 0; r < VECTOR; r++) { // those from TILE_M on are not stored
            x[r] = load_data(from + row_start(min(r, (uint)TILE_M - 1), ld) + done);
        }
        transpose(x);
        UNROLLED for (uint k = 0; k < VECTOR; k++) {
            store_column(x[k], out + (done + k) * TILE_M);
        }
    }
#endif
    for (uint r = 0; r < TILE_M; r++) {
        const global data *row = from + row_start(r, ld);
        for (ulong k = done; k < end; k++) {
            out[k * TILE_M + r] = r < n_rows ? widen(row[k]) : 0.0f;
        }
    }
}

// packed (K, TILE_N), VECTOR columns of it, from the first K elements of the first n_cols of VECTOR rows at b; zeros
// beyond n_cols.
static inline void pack_rows(const global data *b, ulong ld, uint K, uint n_cols, local float *out) {
    uint k = 0;
    for (; n_cols >= VECTOR && k + VECTOR <= K; k += VECTOR) {
        vec x[VECTOR];
        UNROLLED for (uint i = 0; i < VECTOR; i++) {
            x[i] = load_data(b + row_start(i, ld) + k);
        }
        transpose(x);
        UNROLLED for (uint i = 0; i < VECTOR; i++) {
            store(x[i], out + (k + i) * TILE_N);
        }
    }
    for (; k < K; k++) {
        for (uint i = 0; i < VECTOR; i++) {
            out[k * TILE_N + i] = i < n_cols ? widen(b[row_start(i, ld) + k]) : 0.0f;
        }
    }
}

// packed (BLOCK_TILES, K, TILE_N) from the first K rows and N columns of B', zeros beyond N.
static inline void pack_b(uint b_transposed, const global data *b, ulong ld, uint K, uint N, local float *packed) {
    if (b_transposed) {
        for (uint first = 0; first < min(N, (uint)BLOCK_N); first += VECTOR) {
            local float *out = packed + first / TILE_N * (K * TILE_N) + first % TILE_N;
            pack_rows(b + row_start(first, ld), ld, K, N - first, out);
        }
        return;
    }
    // Row by row: each row is another page.
    for (uint k = 0; k < K; k++) {
        for (uint first = 0; first < min(N, (uint)BLOCK_N); first += VECTOR) {
            const vec x = load_data_part(b + row_start(k, ld) + first, N - first, 0.0f);
            store(x, packed + first / TILE_N * (K * TILE_N) + k * TILE_N + first % TILE_N);
        }
    }
}

// Asks for a tile's lines, rows ld elements apart.
static inline void ask_tile(const global data *p, ulong ld) {
#pragma unroll 1
    for (uint r = 0; r < TILE_M; r++) {
        ask(p + row_start(r, ld));
        ask(p + row_start(r, ld) + TILE_N / 2);
    }
}

// The part of B that is packed next: n_rows of row_elems elements, of which `done` of the first are asked for.
typedef struct {
    const global data *at;
    ulong ld;
    uint n_rows, row_elems, done;
} next_part;

// Asks for its next line of 64 bytes; in the end for the last row's, again and again.
static inline void ask_line(next_part *p) {
    ask(p->at + p->done);
    p->done += 64 / (uint)sizeof(data);
    if (p->done >= p->row_elems && p->n_rows > 1) {
        p->n_rows--;
        p->at += p->ld;
        p->done = 0;
    }
}

// sum += a (K, TILE_M) transposed by b (K, TILE_N), and asks for next_a (K, TILE_M) and lines of next_b
static inline void multiply_tile(uint K, const global float *a, const local float *b, const global float *next_a,
                                 next_part *next_b, vec sum[TILE_M][TILE_V]) {
#pragma unroll 2
    for (uint k = 0; k < K; k++) {
        ask(next_a + k * TILE_M);
        if (k % 8 == 0) {
            ask_line(next_b);
        }
        vec row[TILE_V];
        UNROLLED for (uint v = 0; v < TILE_V; v++) {
            row[v] = load(b + v * VECTOR);
        }
        UNROLLED for (uint r = 0; r < TILE_M; r++) {
            UNROLLED for (uint v = 0; v < TILE_V; v++) {
                sum[r][v] = multiply_add(to_vec(a[r]), row[v], sum[r][v]);
            }
        }
        a += TILE_M;
        b += TILE_N;
    }
}

// The destination of results: columns [0, N) of rows of ld elements of C and act, and of sums_ld of the sums so far.
// The sums are C itself unless it is narrow.
typedef struct {
    ulong M, N, ld, sums_ld;
    global float *sums;
    global result *c;
    const global float *bias; // (N)
    const global data *pre;   // ACT_BACKWARD's
    global data *act;         // where ACT's result goes
} target;

// Whether sums are only stored, or added to those so far. (The last ones in `sums` are C, unless C is narrow.)
static inline bool is_plain(uint now) {
    const uint narrows = sizeof(result) == sizeof(float) ? 0 : LAST;
    return !(now & (BIAS | ACT | ACT_BACKWARD | narrows));
}

// Such a tile, where all of it is in C.
static inline void add_tile(uint now, const target *to, ulong m, ulong n, vec sum[TILE_M][TILE_V]) {
    const bool adds = (now & ADD) != 0;
    UNROLLED for (uint r = 0; r < TILE_M; r++) {
        global float *so_far = to->sums + row_start(m + r, to->sums_ld) + n;
        UNROLLED for (uint v = 0; v < TILE_V; v++) {
            store(adds ? sum[r][v] + load(so_far + v * VECTOR) : sum[r][v], so_far + v * VECTOR);
        }
    }
}

// Finishes and stores a tile's sums: `now` has the flags of the epilogue. The tile begins at (m, n) of C; is_whole: all
// of it is in C. The sums come in memory, a row of C after the other: this loop unrolled over registers would be most
// of the kernel, and of the time to build it.
static inline __attribute__((always_inline)) void finish_tile(bool is_whole, uint now, const target *to, ulong m,
                                                              ulong n, const vec sums[TILE_M * TILE_V]) {
    const ulong n_rows = is_whole ? TILE_M : min((ulong)TILE_M, to->M - m);
#pragma unroll 1
    for (ulong r = 0; r < n_rows; r++) {
        UNROLLED for (uint v = 0; v < TILE_V; v++) {
            const ulong col = n + v * VECTOR;
            if (!is_whole && col >= to->N) {
                break;
            }
            const ulong n_here = is_whole ? VECTOR : to->N - col;
            global float *so_far = to->sums + row_start(m + r, to->sums_ld) + col;
            vec x = sums[r * TILE_V + v];
            if (now & ADD) {
                x += load_part(so_far, n_here, 0.0f);
            }
            if (!(now & LAST)) {
                store_part(x, so_far, n_here);
                continue;
            }
            const ulong i = row_start(m + r, to->ld) + col;
            if (now & BIAS) {
                x += load_part(to->bias + col, n_here, 0.0f);
            }
            if (now & ACT_BACKWARD) {
                x *= activation_slope(load_data_part(to->pre + i, n_here, 0.0f));
            }
            store_result_part(x, to->c + i, n_here);
            if (now & ACT) {
                store_data_part(activation(x), to->act + i, n_here);
            }
        }
    }
}

// Rows [0, M) and columns [0, N) of C, whose rows are ld elements long. Work-group (i, j): column block i, and
// block_panels panels of A' from j block_panels on. side: the bias (N), or ACT_BACKWARD's pre (M,N); act (M,N): where
// ACT's result goes. last_beside: what is done when the last of this K is added. packed_b: BLOCK_K * BLOCK_N floats; as
// an array of the kernel, compilers of PoCL (3.1, 7.1) take what is stored in it to be never read.
kernel void matmul(uint b_transposed, uint beside, uint last_beside, ulong M, ulong N, ulong K, ulong block_panels,
                   IN(float, packed), ulong b_ld, IN(data, b), ulong sums_ld, OUT(float, sums), ulong ld,
                   OUT(result, c), IN(void, side), OUT(data, act), local float *packed_b) {
    const ulong n_first = get_group_id(0) * (ulong)BLOCK_N;
    const uint n_cols = (uint)min((ulong)BLOCK_N, N - n_first);
    const target to = {M, N, ld, sums_ld, sums + sums_at, c + c_at, (const global float *)side + side_at,
                       (const global data *)side + side_at, act + act_at};
    const ulong panel_end = min((get_group_id(1) + 1) * block_panels, (M + TILE_M - 1) / TILE_M);
    for (ulong k = 0; k < K; k += BLOCK_K) {
        const uint n_k = (uint)min((ulong)BLOCK_K, K - k);
        const ulong from = b_transposed ? row_start(n_first, b_ld) + k : row_start(k, b_ld) + n_first;
        pack_b(b_transposed, b + b_at + from, b_ld, n_k, n_cols, packed_b);
        const bool goes_on = k + BLOCK_K < K; // else the next group's columns follow, on this processor as a rule
        const ulong next_k = goes_on ? k + BLOCK_K : 0;
        const ulong next_n = n_first + (goes_on ? 0 : BLOCK_N);
        const uint next_n_k = (uint)min((ulong)BLOCK_K, K - next_k);
        next_part next = {.at = b + b_at + row_start(b_transposed ? next_n : next_k, b_ld) +
                                (b_transposed ? next_k : next_n),
                          .ld = b_ld,
                          .n_rows = b_transposed ? n_cols : next_n_k,
                          .row_elems = b_transposed ? next_n_k : n_cols};
        const uint now = (k > 0 ? ADD : beside) | (k + BLOCK_K >= K ? last_beside : 0);
        for (ulong panel = get_group_id(1) * block_panels; panel < panel_end; panel++) {
            const global float *a = packed + packed_at + row_start(panel, K * TILE_M) + k * TILE_M;
            for (uint tile = 0; tile * TILE_N < n_cols; tile++) {
                vec sum[TILE_M][TILE_V];
                UNROLLED for (uint r = 0; r < TILE_M; r++) {
                    UNROLLED for (uint v = 0; v < TILE_V; v++) {
                        sum[r][v] = to_vec(0.0f);
                    }
                }
                if (now & ACT_BACKWARD) {
                    ask_tile(to.pre + row_start(panel * TILE_M, ld) + n_first + tile * TILE_N, ld);
                }
                multiply_tile(n_k, a, packed_b + tile * (n_k * TILE_N), a + K * TILE_M, &next, sum);
                const ulong m = panel * TILE_M;
                const ulong n = n_first + tile * TILE_N;
                const bool is_whole = m + TILE_M <= M && n + TILE_N <= N;
                if (is_whole && is_plain(now)) {
                    add_tile(now, &to, m, n, sum);
                    continue;
                }
                vec tile_sums[TILE_M * TILE_V];
                UNROLLED for (uint s = 0; s < TILE_M * TILE_V; s++) {
                    tile_sums[s] = sum[s / TILE_V][s % TILE_V];
                }
                if (is_whole) {
                    finish_tile(true, now, &to, m, n, tile_sums);
                } else {
                    finish_tile(false, now, &to, m, n, tile_sums);
                }
            }
        }
    }
}
