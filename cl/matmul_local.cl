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
// The epilogue (bias, GELU, derivative of GELU) is applied to the sums before they are stored.

#ifndef TILE_M
#define TILE_M 128 // rows of C per work-group
#endif
#ifndef TILE_N
#define TILE_N 128 // columns of C per work-group
#endif
#ifndef TILE_K
#define TILE_K 16 // of K at a time
#endif
#ifndef WORK_M
#define WORK_M 8 // rows of C per work-item: 4 or a multiple
#endif
#ifndef WORK_N
#define WORK_N 8 // columns of C per work-item
#endif
#ifndef LOAD
#define LOAD 1 // floats a load: 4 where rows of all operands begin at multiples of 4 floats
#endif
#ifndef LANES_N
#define LANES_N 8 // neighbours that lie side by side along N, before the next row of items
#endif
#define PAD     4 // floats between rows in local memory, against bank conflicts
#define ITEMS_M (TILE_M / WORK_M)
#define ITEMS_N (TILE_N / WORK_N)
#define ITEMS   (ITEMS_M * ITEMS_N)
#define PART_A  (TILE_M * TILE_K / ITEMS) // floats of a tile that an item brings
#define PART_B  (TILE_N * TILE_K / ITEMS)

#ifdef A_TRANSPOSED
#define A_ALONG_K 0 // neighbours in memory differ in k
#else
#define A_ALONG_K 1
#endif
#ifdef B_TRANSPOSED
#define B_ALONG_K 1
#else
#define B_ALONG_K 0
#endif

// What is to be done beside the product; as in backends/opencl/opencl_bind.h.
enum { ADD = 1, BIAS = 2, GELU = 4, GELU_BACKWARD = 8 };

// Which elements an item brings of a tile of `outer` rows (or columns) by TILE_K.
#define PLACE_OUTER(e, outer, along_k) ((along_k) ? (e) / (TILE_K / LOAD) : (e) % ((outer) / LOAD) * LOAD)
#define PLACE_K(e, outer, along_k)     ((along_k) ? (e) % (TILE_K / LOAD) * LOAD : (e) / ((outer) / LOAD))

// Brings this item's part of a tile that begins at `from`; zeros beyond n_outer and n_k.
static inline void fetch(const global float *from, ulong ld, ulong n_outer, ulong n_k, uint item, uint outer,
                         int along_k, uint n_part, float *part) {
#pragma unroll
    for (uint i = 0; i < n_part; i += LOAD) {
        const uint e = item + i / LOAD * ITEMS;
        const uint o = PLACE_OUTER(e, outer, along_k);
        const uint k = PLACE_K(e, outer, along_k);
        const bool inside = o < n_outer && k < n_k;
        const global float *at = from + (along_k ? row_start(o, ld) + k : row_start(k, ld) + o);
#if LOAD == 4
        const float4 x = inside ? *(const global float4 *)at : (float4)(0.0f);
        part[i] = x.x;
        part[i + 1] = x.y;
        part[i + 2] = x.z;
        part[i + 3] = x.w;
#else
        part[i] = inside ? *at : 0.0f;
#endif
    }
}

// Puts the part where all items find it: tile (TILE_K, outer + PAD).
static inline void put(const float *part, uint item, uint outer, int along_k, uint n_part, local float *tile) {
#pragma unroll
    for (uint i = 0; i < n_part; i += LOAD) {
        const uint e = item + i / LOAD * ITEMS;
        const uint o = PLACE_OUTER(e, outer, along_k);
        const uint k = PLACE_K(e, outer, along_k);
#pragma unroll
        for (uint j = 0; j < LOAD; j++) {
            tile[along_k ? (k + j) * (outer + PAD) + o : k * (outer + PAD) + o + j] = part[i + j];
        }
    }
}

static inline float4 load4(const global float *p, ulong n) {
#if LOAD == 4
    return n > 0 ? *(const global float4 *)p : (float4)(0.0f);
#else
    return (float4)(n > 0 ? p[0] : 0.0f, n > 1 ? p[1] : 0.0f, n > 2 ? p[2] : 0.0f, n > 3 ? p[3] : 0.0f);
#endif
}

static inline void store4(float4 x, global float *p, ulong n) {
#if LOAD == 4
    if (n > 0) {
        *(global float4 *)p = x;
    }
#else
    const float part[4] = {x.x, x.y, x.z, x.w};
    for (uint i = 0; i < 4 && i < n; i++) {
        p[i] = part[i];
    }
#endif
}

static inline float4 gelu4(float4 x) {
    return (float4)(gelu(to_vec(x.x)), gelu(to_vec(x.y)), gelu(to_vec(x.z)), gelu(to_vec(x.w)));
}

static inline float4 gelu_derivative4(float4 x) {
    return (float4)(gelu_derivative(x.x), gelu_derivative(x.y), gelu_derivative(x.z), gelu_derivative(x.w));
}

// sum += one TILE_K of both operands: a (TILE_K, TILE_M + PAD), b (TILE_K, TILE_N + PAD), from the item's place on
static inline void multiply_tiles(const local float *a, const local float *b, float sum[WORK_M][WORK_N]) {
#pragma unroll
    for (uint i = 0; i < TILE_K; i++) {
        float x[WORK_M];
        float y[WORK_N];
#pragma unroll
        for (uint r = 0; r < WORK_M; r++) {
            x[r] = a[i * (TILE_M + PAD) + r / 4 * (ITEMS_M * 4) + r % 4];
        }
#pragma unroll
        for (uint s = 0; s < WORK_N; s++) {
            y[s] = b[i * (TILE_N + PAD) + s / 4 * (ITEMS_N * 4) + s % 4];
        }
#pragma unroll
        for (uint r = 0; r < WORK_M; r++) {
#pragma unroll
            for (uint s = 0; s < WORK_N; s++) {
                sum[r][s] = multiply_add(x[r], y[s], sum[r][s]);
            }
        }
    }
}

// Four sums side by side in a row, at element `at` of C; n columns are left in the row.
static inline void finish_sums(uint todo, float4 x, ulong at, ulong n, global float *c, const global float *bias,
                               const global float *pre, global float *act) {
    if (todo & ADD) {
        x += load4(c + at, n);
    }
    if (todo & BIAS) {
        x += load4(bias, n);
    }
    if (todo & GELU_BACKWARD) {
        x *= gelu_derivative4(load4(pre + at, n));
    }
    store4(x, c + at, n);
    if (todo & GELU) {
        store4(gelu4(x), act + at, n);
    }
}

// side: the bias (N), or GELU_BACKWARD's pre (M,N); act (M,N): where GELU's result goes.
kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
matmul(uint todo, ulong M, ulong N, ulong K, const global float *a, ulong a_at, const global float *b, ulong b_at,
       global float *c, ulong c_at, const global float *side, ulong side_at, global float *act, ulong act_at) {
    local float tile_a[2][TILE_K * (TILE_M + PAD)] __attribute__((aligned(16)));
    local float tile_b[2][TILE_K * (TILE_N + PAD)] __attribute__((aligned(16)));
    const uint item = (uint)get_local_id(0);
    const uint item_n = item % LANES_N + item / (LANES_N * ITEMS_M) * LANES_N;
    const uint item_m = item / LANES_N % ITEMS_M;
    const ulong m_first = get_group_id(1) * (ulong)TILE_M;
    const ulong n_first = get_group_id(0) * (ulong)TILE_N;
    const ulong a_ld = A_ALONG_K ? K : M;
    const ulong b_ld = B_ALONG_K ? K : N;
    const global float *from_a = a + a_at + (A_ALONG_K ? row_start(m_first, a_ld) : m_first);
    const global float *from_b = b + b_at + (B_ALONG_K ? row_start(n_first, b_ld) : n_first);
    float part_a[PART_A];
    float part_b[PART_B];
    float sum[WORK_M][WORK_N];
#pragma unroll
    for (uint i = 0; i < WORK_M; i++) {
#pragma unroll
        for (uint j = 0; j < WORK_N; j++) {
            sum[i][j] = 0.0f;
        }
    }
    fetch(from_a, a_ld, M - m_first, K, item, TILE_M, A_ALONG_K, PART_A, part_a);
    fetch(from_b, b_ld, N - n_first, K, item, TILE_N, B_ALONG_K, PART_B, part_b);
    uint now = 0;
    for (ulong k = 0; k < K; k += TILE_K) {
        put(part_a, item, TILE_M, A_ALONG_K, PART_A, tile_a[now]);
        put(part_b, item, TILE_N, B_ALONG_K, PART_B, tile_b[now]);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (k + TILE_K < K) {
            from_a += A_ALONG_K ? TILE_K : row_start(TILE_K, a_ld);
            from_b += B_ALONG_K ? TILE_K : row_start(TILE_K, b_ld);
            fetch(from_a, a_ld, M - m_first, K - k - TILE_K, item, TILE_M, A_ALONG_K, PART_A, part_a);
            fetch(from_b, b_ld, N - n_first, K - k - TILE_K, item, TILE_N, B_ALONG_K, PART_B, part_b);
        }
        multiply_tiles(tile_a[now] + item_m * 4, tile_b[now] + item_n * 4, sum);
        now = 1 - now; // the other half was last read before the barrier above
    }
#pragma unroll
    for (uint r = 0; r < WORK_M; r++) {
#pragma unroll
        for (uint s = 0; s < WORK_N; s += 4) {
            const ulong m = m_first + r / 4 * (ITEMS_M * 4) + item_m * 4 + r % 4;
            const ulong n = n_first + s / 4 * (ITEMS_N * 4) + item_n * 4;
            if (m < M && n < N) {
                const float4 x = (float4)(sum[r][s], sum[r][s + 1], sum[r][s + 2], sum[r][s + 3]);
                finish_sums(todo, x, row_start(m, N) + n, N - n, c + c_at, side + side_at + n, side + side_at,
                            act + act_at);
            }
        }
    }
}
