// cpu_tile_amx.h: the tile of bf16 products in AMX's tile registers (Intel, "Intel 64 and IA-32 Architectures
// Software Developer's Manual", volume 1, chapter 18).
//
// A tile register is 16 rows of 64 bytes. TDPBF16PS adds to 16x16 floats the product of 16 rows of 32 k by 32 k of 16
// columns, the latter in pairs along k: panels of b are those of the vector kernels. Four registers are sums:
//
//                  b0   b1        a panel of a holds, for each 32 of k, a0 and then a1, each 16 rows of
//            a0    s0   s1        64 bytes; a panel of b, for each pair of k, 32 columns: b0's and b1's
//            a1    s2   s3
#ifndef STEPMARK_CPU_TILE_AMX_H
#define STEPMARK_CPU_TILE_AMX_H

#include <immintrin.h>
#include <stdbool.h>

#include "cpu_ask.h"
#include "cpu_pack_bf16.h"

enum {
    CPU_AMX_ROWS = 16,  // of a tile register
    CPU_AMX_PAIRS = 16, // of a row
    CPU_PRODUCT_ROWS = 2 * CPU_AMX_ROWS,
    CPU_PRODUCT_COLS = 2 * CPU_AMX_PAIRS,
    CPU_PRODUCT_STEP_K = CPU_AMX_PAIRS * CPU_PACK_K, // k is padded to a multiple of this
    CPU_PRODUCT_SLICE_K = 1024,      // deepest slice of k: a cell's operands stay in the second-level cache
    CPU_PRODUCT_BLOCK_A = 192 << 10, // packed elements of a that tiles go over with one panel of b: 768 KiB stay in
                                     // the second-level cache
    CPU_PRODUCT_OPERAND_COST = 128,  // to fetch and pack a row or column takes as long as so many rows times columns
};

// Where a tile's rows of a lie: in a packed panel, or contiguous along k as the operand has them.
typedef struct {
    const char *data;
    int64_t row_bytes;   // from a row to the next
    int64_t step_bytes;  // from 32 k to the next
    int64_t below_bytes; // from a0 to a1
} cpu_product_a;

static inline cpu_product_a cpu_product_packed_a(const cpu_packed *panel) {
    enum { ROW_BYTES = CPU_AMX_PAIRS * sizeof *panel, REGISTER_BYTES = CPU_AMX_ROWS * ROW_BYTES };
    return (cpu_product_a){(const char *)panel, ROW_BYTES, 2 * REGISTER_BYTES, REGISTER_BYTES};
}

// Rows that fill whole registers need no packing, and so no sharing of what each thread packs.
static inline bool cpu_product_reads_rows(int64_t m, int64_t k) {
    return m % CPU_PRODUCT_ROWS == 0 && k % CPU_PRODUCT_STEP_K == 0;
}
static inline cpu_product_a cpu_product_rows_a(const cpu_data *rows, int64_t ld) {
    const int64_t row_bytes = ld * (int64_t)sizeof *rows;
    return (cpu_product_a){(const char *)rows, row_bytes, CPU_PRODUCT_STEP_K * sizeof *rows, CPU_AMX_ROWS * row_bytes};
}

// The shapes of all eight registers, for this thread until cpu_product_end().
static inline void cpu_product_begin(void) {
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shapes = {
        .palette = 1,
        .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
        .rows = {16, 16, 16, 16, 16, 16, 16, 16},
    };
    _tile_loadconfig(&shapes);
}

static inline void cpu_product_end(void) { _tile_release(); }

// Panel of rows of a that are contiguous along k: pieces of 64 bytes, copied.
static inline void cpu_pack_a_lines(const cpu_data *from, int64_t ld, int64_t n, int64_t k, cpu_packed *to) {
    for (int64_t j = 0; j < k; j += CPU_PRODUCT_STEP_K) {
        const int64_t depth = k - j < CPU_PRODUCT_STEP_K ? k - j : CPU_PRODUCT_STEP_K;
        for (int64_t r = 0; r < CPU_PRODUCT_ROWS; r++) {
            if (r < n && depth == CPU_PRODUCT_STEP_K) {
                memcpy(to, from + r * ld + j, CPU_AMX_PAIRS * sizeof *to);
            } else {
                memset(to, 0, CPU_AMX_PAIRS * sizeof *to);
                memcpy(to, from + (r < n ? r : 0) * ld + j, r < n ? (size_t)depth * sizeof *from : 0);
            }
            to += CPU_AMX_PAIRS;
        }
    }
}

// Panels of a whose rows are contiguous across k; the panels lie panel_elems apart: 16 pairs of k are woven for 16
// rows, and transposed.
static inline void cpu_pack_a_rows(const cpu_data *from, int64_t ld, int64_t n, int64_t k, cpu_packed *to,
                                   int64_t panel_elems) {
    cpu_packed woven[CPU_AMX_PAIRS * CPU_AMX_ROWS];
    for (int64_t j = 0; j < k; j += CPU_PRODUCT_STEP_K) {
        const int64_t depth = k - j < CPU_PRODUCT_STEP_K ? k - j : CPU_PRODUCT_STEP_K;
        memset(woven, 0, sizeof woven);
        for (int64_t i = 0; i < (n + CPU_PRODUCT_ROWS - 1) / CPU_PRODUCT_ROWS * CPU_PRODUCT_ROWS; i += CPU_AMX_ROWS) {
            const int64_t n_rows = i >= n ? 0 : n - i < CPU_AMX_ROWS ? n - i : CPU_AMX_ROWS;
            cpu_pack_rows(from + j * ld + i, ld, n_rows, depth, woven, CPU_AMX_ROWS);
            cpu_packed *panel = to + i / CPU_PRODUCT_ROWS * panel_elems;
            cpu_packed *block = panel + j * CPU_PRODUCT_ROWS / CPU_PACK_K + i % CPU_PRODUCT_ROWS * CPU_AMX_PAIRS;
            cpu_pack_lines((const cpu_data *)woven, CPU_AMX_ROWS * CPU_PACK_K, CPU_AMX_PAIRS, CPU_AMX_ROWS * CPU_PACK_K,
                           block, CPU_AMX_PAIRS);
        }
    }
}

// c = a panel x b panel over `steps` packed steps of k, or += with `add`. Rows of c lie ldc apart.
static inline void cpu_product_tile(int64_t steps, cpu_product_a a, const cpu_packed *b, float *c, int64_t ldc,
                                    bool add, cpu_asking *asking) {
    enum { B_ROW_BYTES = CPU_PRODUCT_COLS * sizeof(cpu_packed) };
    const int64_t c_row_bytes = ldc * (int64_t)sizeof *c;
    float *below = c + CPU_AMX_ROWS * ldc;
    __asm__ volatile("" ::: "memory"); // what was packed is in memory: compilers do not see that tiles read it
    if (add) {
        _tile_loadd(0, c, c_row_bytes);
        _tile_loadd(1, c + CPU_AMX_PAIRS, c_row_bytes);
        _tile_loadd(2, below, c_row_bytes);
        _tile_loadd(3, below + CPU_AMX_PAIRS, c_row_bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t j = 0; j < steps; j += CPU_AMX_PAIRS) {
        _tile_loadd(4, a.data, a.row_bytes);
        _tile_loadd(6, b, B_ROW_BYTES);
        _tile_loadd(7, b + CPU_AMX_PAIRS, B_ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        cpu_ask(asking);
        _tile_loadd(5, a.data + a.below_bytes, a.row_bytes);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        a.data += a.step_bytes;
        b += CPU_AMX_PAIRS * CPU_PRODUCT_COLS;
    }
    _tile_stored(0, c, c_row_bytes);
    _tile_stored(1, c + CPU_AMX_PAIRS, c_row_bytes);
    _tile_stored(2, below, c_row_bytes);
    _tile_stored(3, below + CPU_AMX_PAIRS, c_row_bytes);
    __asm__ volatile("" ::: "memory");
}

#endif
