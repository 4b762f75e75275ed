// matmul_units.cl: matrix products on matrix units (cl/units/units.cl), one tile of C per work-group.
//
//   C = A' B', or C += A' B'      C (M,N); A' (M,K) is A, or the transpose of A (K,M) with A_TRANSPOSED;
//                                 B' (K,N) is B, or the transpose of B (N,K) with B_TRANSPOSED
//
// A wave has FM x FN fragments of C. While TILE_K of both operands, in local memory, are multiplied, the next come to
// registers. With BLOCK_READS (Intel, sub-groups of 16) waves read fragments from global memory as the unit takes them,
// and there is neither local memory nor a barrier.
//
// Every row of the operands begins at a multiple of 16 bytes; with BLOCK_READS matrices begin at multiples of 64.

#ifndef FM
#define FM 2
#endif
#ifndef FN
#define FN 2
#endif
#ifndef WAVES_M
#define WAVES_M 2
#endif
#ifndef WAVES_N
#define WAVES_N 2
#endif
#ifndef BLOCK_READS
#define BLOCK_READS 0
#endif
#ifndef BAND
#define BAND 8 // rows of tiles that are walked column by column, so that groups at work share operands
#endif
#ifndef BESIDE
#define BESIDE 14 // what may be asked for beside the product and adding to C
#endif

#define TILE_M (FM * TM * WAVES_M)
#define TILE_N (FN * TN * WAVES_N)
#define TILE_K (64 / NUMBER_BYTES)
#define ITEMS  (WAVES_M * WAVES_N * WAVE)

// Flags of the epilogue, as in backends/opencl/binders/family.h.
enum { ADD = 1, BIAS = 2, ACT = 4, ACT_BACKWARD = 8 };

// Four sums of a column, in n_rows (of 4) rows side by side or every second one.
inlined void finish_sums(uint beside, float4 four, ulong at, ulong step, ulong n, uint n_rows, global result *c,
                         const global float *bias, const global data *pre, global data *act) {
    float x[4] = {four.x, four.y, four.z, four.w};
    if (beside & ADD) {
        UNROLLED for (uint i = 0; i < 4; i++) {
            x[i] += i < n_rows ? widen_result(c[at + i * step]) : 0.0f;
        }
    }
    if (beside & BESIDE & BIAS) {
        UNROLLED for (uint i = 0; i < 4; i++) {
            x[i] += bias[n];
        }
    }
    if (beside & BESIDE & ACT_BACKWARD) {
        float u[4];
        UNROLLED for (uint i = 0; i < 4; i++) {
            u[i] = i < n_rows ? widen(pre[at + i * step]) : 0.0f;
        }
        const float4 d = activation_slope((float4)(u[0], u[1], u[2], u[3]));
        x[0] *= d.x;
        x[1] *= d.y;
        x[2] *= d.z;
        x[3] *= d.w;
    }
    UNROLLED for (uint i = 0; i < 4; i++) {
        if (i < n_rows) {
            c[at + i * step] = narrow_result(x[i]);
        }
    }
    if (beside & BESIDE & ACT) {
        const float4 y = activation((float4)(x[0], x[1], x[2], x[3]));
        const float z[4] = {y.x, y.y, y.z, y.w};
        UNROLLED for (uint i = 0; i < 4; i++) {
            if (i < n_rows) {
                act[at + i * step] = narrow(z[i]);
            }
        }
    }
}

#ifndef SUM_ONLY

#define ZERO(sum)                               \
    _Pragma("unroll") for (uint i = 0; i < FM; i++) { \
        _Pragma("unroll") for (uint j = 0; j < FN; j++) { \
            sum[i][j] = (c_part)(0.0f);         \
        }                                       \
    }

#if !BLOCK_READS
// sum += the products of a step of both tiles
inlined void multiply_step(const local number *a, const local number *b, uint m, uint n, uint k,
                           c_part sum[FM][FN]) {
    raw_a ra[FM];
    raw_b rb[FN];
    a_part fa[FM][PER_LOAD];
    b_part fb[FN][PER_LOAD];
    UNROLLED for (uint i = 0; i < FM; i++) {
        ra[i] = load_a(a, m + i * TM, k, TILE_K);
    }
    UNROLLED for (uint j = 0; j < FN; j++) {
        rb[j] = load_b(b, n + j * TN, k, TILE_K);
    }
    UNROLLED for (uint way = SPLIT ? 0 : 2; way < 3; way++) { // small large, large small, large large
        UNROLLED for (uint i = 0; i < FM; i++) {
            parts_of_a(&ra[i], way == 0, fa[i]);
        }
        UNROLLED for (uint j = 0; j < FN; j++) {
            parts_of_b(&rb[j], way == 1, fb[j]);
        }
        UNROLLED for (uint p = 0; p < PER_LOAD; p++) {
            UNROLLED for (uint i = 0; i < FM; i++) {
                UNROLLED for (uint j = 0; j < FN; j++) {
                    MULTIPLY(sum[i][j], fa[i][p], fb[j][p]);
                }
            }
        }
    }
}
#endif

#if !BLOCK_READS
// sum += the products of both tiles. With SPLIT what units add to begins at zero: they may add with fewer digits than
// fp32 has.
inlined void multiply_tiles(const local number *a, const local number *b, uint m, uint n, c_part sum[FM][FN]) {
#if SPLIT
    c_part part[FM][FN];
    ZERO(part)
    UNROLLED for (uint s = 0; s < TILE_K; s += STEP) {
        multiply_step(a, b, m, n, s, part);
    }
    UNROLLED for (uint i = 0; i < FM; i++) {
        UNROLLED for (uint j = 0; j < FN; j++) {
            sum[i][j] += part[i][j];
        }
    }
#else
    UNROLLED for (uint s = 0; s < TILE_K; s += STEP) {
        multiply_step(a, b, m, n, s, sum);
    }
#endif
}
#endif

#if BLOCK_READS
#pragma OPENCL EXTENSION cl_intel_subgroup_2d_block_io : enable
// 32 of k of a wave's 32 rows of A and 32 columns of B; what lies beyond the matrices comes as zero.
inlined void multiply_blocks(const global data *a, const global data *b, uint M, uint N, uint K, uint m, uint n, uint k,
                             c_part sum[FM][FN]) {
    ushort xa[64]; // two of 16 k, each 32 rows
    uint xb[2][16]; // 16 columns each, of k 0 to 15 and the others
    intel_sub_group_2d_block_read_16b_32r16x2c((global void *)a, (int)K * 2, (int)M, (int)K * 2, (int2)((int)k, (int)m), xa);
#if B_ALONG_K
    UNROLLED for (uint s = 0; s < 2; s++) {
        UNROLLED for (uint j = 0; j < 2; j++) {
            intel_sub_group_2d_block_read_transpose_32b_16r8x1c((global void *)b, (int)K * 2, (int)N, (int)K * 2,
                                                                (int2)((int)(k / 2 + 8 * s), (int)(n + 16 * j)), xb[j] + 8 * s);
        }
    }
#else
    UNROLLED for (uint j = 0; j < 2; j++) {
        intel_sub_group_2d_block_read_transform_16b_32r16x1c((global void *)b, (int)N * 2, (int)K, (int)N * 2,
                                                             (int2)((int)(n + 16 * j), (int)k), xb[j]);
    }
#endif
    UNROLLED for (uint s = 0; s < 2; s++) {
        UNROLLED for (uint i = 0; i < FM; i++) {
            UNROLLED for (uint j = 0; j < FN; j++) {
                const short8 fa = as_short8(vload8(0, xa + 32 * s + 8 * i));
                const int8 fb = as_int8(vload8(s, xb[j]));
                MULTIPLY(sum[i][j], fa, fb);
            }
        }
    }
}
#endif

// bias (N); pre (M,N) is ACT_BACKWARD's; act (M,N): where ACT's result goes. K is cut into parts of k_part, a multiple
// of TILE_K; with more than one, c is scratch (parts,M,N) of floats and beside 0.
WAVES_ATTRIBUTE kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
matmul(uint beside, ulong M, ulong N, ulong K, ulong k_part, IN(data, a), IN(data, b), OUT(result, c), IN(float, bias),
       IN(data, pre), OUT(data, act)) {
    const product_tile place = find_product_tile(M, TILE_M, TILE_N, BAND);
    const ulong k_first = place.part * k_part;
    const ulong k_end = min(K, k_first + k_part);
    const uint m = MY_WAVE / WAVES_N * (FM * TM);
    const uint n = MY_WAVE % WAVES_N * (FN * TN);
    c_part sum[FM][FN];
    ZERO(sum)
    a += a_at;
    b += b_at;
#if BLOCK_READS
    for (ulong k = k_first; k < k_end; k += TILE_K) {
        multiply_blocks(a, b, (uint)M, (uint)N, (uint)K, (uint)place.m + m, (uint)place.n + n, (uint)k, sum);
    }
#else
    local number tile_a[A_ELEMS(TILE_M, TILE_K)] __attribute__((aligned(256)));
    local number tile_b[B_ELEMS(TILE_N, TILE_K)] __attribute__((aligned(256)));
    const ulong a_ld = A_ALONG_K ? K : M;
    const ulong b_ld = B_ALONG_K ? K : N;
    uint4 xa[TURNS(TILE_M, TILE_K, ITEMS, A_ALONG_K)];
    uint4 xb[TURNS(TILE_N, TILE_K, ITEMS, B_ALONG_K)];
    fetch(a, a_ld, place.m, M, k_first, k_end, TILE_M, TILE_K, ITEMS, A_ALONG_K, xa);
    fetch(b, b_ld, place.n, N, k_first, k_end, TILE_N, TILE_K, ITEMS, B_ALONG_K, xb);
    for (ulong k = k_first; k < k_end; k += TILE_K) {
        put(tile_a, xa, TILE_M, TILE_K, ITEMS, A_ALONG_K, 1);
        put(tile_b, xb, TILE_N, TILE_K, ITEMS, B_ALONG_K, 0);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (k + TILE_K < k_end) { // the next numbers come while these are multiplied
            fetch(a, a_ld, place.m, M, k + TILE_K, k_end, TILE_M, TILE_K, ITEMS, A_ALONG_K, xa);
            fetch(b, b_ld, place.n, N, k + TILE_K, k_end, TILE_N, TILE_K, ITEMS, B_ALONG_K, xb);
        }
        multiply_tiles(tile_a, tile_b, m, n, sum);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#endif
    c += c_at + row_start(place.part * M, N);
    UNROLLED for (uint i = 0; i < FM; i++) {
        UNROLLED for (uint j = 0; j < FN; j++) {
            const ulong col = place.n + n + j * TN + C_COL(LANE);
            float x[NC];
            JOIN(vstore, NC)(sum[i][j], 0, x);
            UNROLLED for (uint e = 0; e < NC; e += 4) {
                const uint step = C_ROW(LANE, e + 1) - C_ROW(LANE, e);
                const ulong row = place.m + m + i * TM + C_ROW(LANE, e);
                if (row < M && col < N) {
                    finish_sums(beside, (float4)(x[e], x[e + 1], x[e + 2], x[e + 3]), row_start(row, N) + col,
                                row_start(step, N), col, (uint)min((M - row + step - 1) / step, (ulong)4), c,
                                bias + bias_at, pre + pre_at, act + act_at);
                }
            }
        }
    }
}

#endif

// C from the sums of the parts (parts,M,N), in their order: an item has four of a column.
kernel void matmul_sum(uint beside, ulong M, ulong N, ulong n_parts, IN(float, parts), OUT(result, c), IN(float, bias),
                       IN(data, pre), OUT(data, act)) {
    const ulong n = get_global_id(0);
    const ulong m = get_global_id(1) * 4;
    if (m >= M || n >= N) {
        return;
    }
    const uint n_rows = (uint)min(M - m, (ulong)4);
    float x[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (ulong p = 0; p < n_parts; p++) {
        for (uint i = 0; i < n_rows; i++) {
            x[i] += parts[parts_at + row_start(p * M + m + i, N) + n];
        }
    }
    finish_sums(beside, (float4)(x[0], x[1], x[2], x[3]), row_start(m, N) + n, N, n, n_rows, c + c_at, bias + bias_at,
                pre + pre_at, act + act_at);
}
