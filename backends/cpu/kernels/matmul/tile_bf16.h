// tile_bf16.h: the tile of bf16 products in vector registers: by vdpbf16ps on pairs where there is avx512_bf16,
// elsewhere by multiply-adds on operands that were widened when they were packed; and by SME, of both.
//
// The tile is CPU_PRODUCT_ROWS x CPU_PRODUCT_COLS of the result; its sums stay in registers while k runs. A panel of
// a: for each packed step of k, CPU_PRODUCT_ROWS elements; a panel of b: CPU_PRODUCT_COLS.
#pragma once

#include "backends/cpu/common/ask.h"
#include "backends/cpu/kernels/matmul/pack_bf16.h"
#include "backends/cpu/common/tile_size.h"
#if CPU_SME
#include "backends/cpu/common/sme.h"
#endif

enum {
    CPU_PRODUCT_STEP_K = CPU_PACK_K, // k is padded to a multiple of this
    CPU_PRODUCT_SLICE_K = 3072,      // deepest slice of k
    CPU_PRODUCT_BLOCK_A = 1 << 30, // packed elements of a that tiles go over with one panel of b: as many as there are
    CPU_PRODUCT_OPERAND_COST = 16, // to fetch and pack a row or column takes as long as so many rows times columns
};

// Address of a tile's rows of a: element (r, j) is at data[r * row + j * step].
typedef cpu_packed cpu_lying __attribute__((may_alias)); // packed, or a pair of the operand's own elements
typedef struct {
    const cpu_lying *data;
    int64_t row;
    int64_t step;
} cpu_product_a;

static inline cpu_product_a cpu_product_packed_a(const cpu_packed *panel) {
    return (cpu_product_a){panel, 1, CPU_PRODUCT_ROWS};
}

// Pairs of bf16 that are contiguous along k need no packing, where rows fill whole tiles.
static inline bool cpu_product_reads_rows(int64_t m, int64_t k) {
    return CPU_PACK_K == 2 && !CPU_SME && m % CPU_PRODUCT_ROWS == 0 && k % CPU_PACK_K == 0;
}
static inline cpu_product_a cpu_product_rows_a(const cpu_data *rows, int64_t ld) {
    return (cpu_product_a){(const cpu_lying *)rows, ld / CPU_PACK_K, 1};
}

static inline void cpu_product_begin(void) {}
static inline void cpu_product_end(void) {}

// Panel of rows of a that are contiguous along k.
static inline void cpu_pack_a_lines(const cpu_data *from, int64_t ld, int64_t n, int64_t k, cpu_packed *to) {
    cpu_pack_lines(from, ld, n, k, to, CPU_PRODUCT_ROWS);
}

// Panels of a whose rows are contiguous across k; the panels lie panel_elems apart. A step of k touches a page of its
// own, so all of them are packed at each, and lines of later ones are asked for.
CPU_ALONE cpu_pack_a_rows(const cpu_data *from, int64_t ld, int64_t n, int64_t k, cpu_packed *to, int64_t panel_elems) {
    enum { AHEAD_ROWS = 16 };
    for (int64_t j = 0; j * CPU_PACK_K < k; j++) {
        const cpu_data *row = from + j * CPU_PACK_K * ld;
        for (int r = 0; r < CPU_PACK_K; r++) {
            __builtin_prefetch(row + (AHEAD_ROWS + r) * ld);
        }
        for (int64_t i = 0; i < n; i += CPU_PRODUCT_ROWS) {
            const int64_t n_rows = n - i < CPU_PRODUCT_ROWS ? n - i : CPU_PRODUCT_ROWS;
            cpu_pack_row(row + i, ld, j * CPU_PACK_K + 1 < k, n_rows,
                         to + i / CPU_PRODUCT_ROWS * panel_elems + j * CPU_PRODUCT_ROWS, CPU_PRODUCT_ROWS);
        }
    }
}

#if CPU_SME
CPU_ALONE cpu_product_tile(int64_t steps, cpu_product_a a, const cpu_packed *b, float *c, int64_t ldc, bool add,
                           cpu_asking *asking) {
    _Static_assert(CPU_PRODUCT_ROWS == 32 && CPU_PRODUCT_COLS == 32, "as cpu_sme_tile's");
    for (int64_t j = 0; j < steps; j += CPU_ASK_STEPS) {
        cpu_ask(asking);
    }
    cpu_sme_tile(steps, a.data, b, c, ldc, add);
}
#else
#if !CPU_BY_LANE
static inline cpu_tile_vector cpu_multiply_add(cpu_tile_vector sum, cpu_packed a, cpu_tile_vector b) {
#if defined(__AVX512BF16__)
    return (cpu_tile_vector)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)a), (__m512bh)b);
#elif CPU_ADDS_IN_PLACE
    cpu_add_in_place(&sum, a, b);
    return sum;
#else
    return sum + a * b;
#endif
}
#endif

// sum += a b over packed steps of k; meanwhile memory is asked for. The compiler knows one stride of a or both.
static inline __attribute__((always_inline)) void
cpu_accumulate(int64_t steps, cpu_product_a a, const cpu_packed *restrict b, cpu_asking *asking,
               cpu_tile_vector sum[CPU_PRODUCT_ROWS][CPU_PRODUCT_VECTORS]) {
    while (steps > 0) {
        const int64_t until = steps > CPU_ASK_STEPS ? steps - CPU_ASK_STEPS : 0;
        cpu_ask(asking);
        for (; steps > until; steps--) {
            cpu_tile_vector row[CPU_PRODUCT_VECTORS];
#pragma GCC unroll 5
            for (int v = 0; v < CPU_PRODUCT_VECTORS; v++) {
                row[v] = *(const cpu_tile_vector *)(b + v * CPU_TILE_VECTOR);
            }
#if CPU_BY_LANE
            cpu_multiply_by_lanes(CPU_PRODUCT_VECTORS, a.data, row, sum); // floats, which are always packed
#else
#pragma GCC unroll 8
            for (int r = 0; r < CPU_PRODUCT_ROWS; r++) {
#pragma GCC unroll 5
                for (int v = 0; v < CPU_PRODUCT_VECTORS; v++) {
                    sum[r][v] = cpu_multiply_add(sum[r][v], a.data[r * a.row], row[v]);
                }
            }
#endif
            a.data += a.step;
            b += CPU_PRODUCT_COLS;
        }
    }
}

// c = rows of a x b panel over `steps` packed steps of k, or += with `add`. Rows of c lie ldc apart.
CPU_ALONE cpu_product_tile(int64_t steps, cpu_product_a a, const cpu_packed *restrict b, float *restrict c, int64_t ldc,
                           bool add, cpu_asking *asking) {
    cpu_tile_vector sum[CPU_PRODUCT_ROWS][CPU_PRODUCT_VECTORS];
#pragma GCC unroll 8
    for (int r = 0; r < CPU_PRODUCT_ROWS; r++) {
        __builtin_prefetch(c + r * ldc + CPU_PRODUCT_COLS - 1, 1);
#pragma GCC unroll 5
        for (int v = 0; v < CPU_PRODUCT_VECTORS; v++) {
            __builtin_prefetch(c + r * ldc + v * CPU_TILE_VECTOR, 1);
            sum[r][v] = (cpu_tile_vector){0};
        }
    }
    if (CPU_PACK_K > 1 && a.step == 1) {
        cpu_accumulate(steps, a, b, asking, sum);
    } else {
        a.row = 1;
        a.step = CPU_PRODUCT_ROWS;
        cpu_accumulate(steps, a, b, asking, sum);
    }
#pragma GCC unroll 8
    for (int r = 0; r < CPU_PRODUCT_ROWS; r++) {
#pragma GCC unroll 5
        for (int v = 0; v < CPU_PRODUCT_VECTORS; v++) {
            cpu_tile_vector *to = (cpu_tile_vector *)(c + r * ldc + v * CPU_TILE_VECTOR);
            if (add) {
                sum[r][v] += *to;
            }
            *to = sum[r][v];
        }
    }
}

#endif
