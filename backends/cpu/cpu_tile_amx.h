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
};

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

// Panel of rows of a that are contiguous along k: pieces of 64 bytes, copied, a few rows at a time.
static inline void cpu_pack_a_lines(const cpu_data *from, int64_t ld, int64_t n, int64_t k, cpu_packed *to) {
    enum { AT_ONCE = 4, STEP_ELEMS = CPU_PRODUCT_ROWS * CPU_AMX_PAIRS };
    for (int64_t first = 0; first < CPU_PRODUCT_ROWS; first += AT_ONCE) {
        cpu_packed *at = to + first * CPU_AMX_PAIRS;
        for (int64_t j = 0; j < k; j += CPU_PRODUCT_STEP_K, at += STEP_ELEMS) {
            const int64_t depth = k - j < CPU_PRODUCT_STEP_K ? k - j : CPU_PRODUCT_STEP_K;
            for (int64_t r = 0; r < AT_ONCE; r++) {
                const cpu_data *line = from + (first + r) * ld + j;
                if (first + r < n && depth == CPU_PRODUCT_STEP_K) {
                    __builtin_prefetch(line + AT_ONCE * ld);
                    memcpy(at + r * CPU_AMX_PAIRS, line, CPU_AMX_PAIRS * sizeof *to);
                } else {
                    memset(at + r * CPU_AMX_PAIRS, 0, CPU_AMX_PAIRS * sizeof *to);
                    memcpy(at + r * CPU_AMX_PAIRS, first + r < n ? line : from,
                           first + r < n ? (size_t)depth * sizeof *from : 0);
                }
            }
        }
    }
}

// Up to CPU_PRODUCT_ROWS rows that are contiguous across k: n of them, over k, in pairs of k that lie ld_to apart.
static inline void cpu_weave(const cpu_data *from, int64_t ld, int64_t n, int64_t k, cpu_packed *to, int64_t ld_to) {
    for (int64_t j = 0; j < k; j += CPU_PACK_K) {
        if (n == CPU_PRODUCT_ROWS) { // a length that the compiler knows
            cpu_pack_row(from + j * ld, ld, j + 1 < k, CPU_PRODUCT_ROWS, to, CPU_PRODUCT_ROWS);
        } else {
            cpu_pack_row(from + j * ld, ld, j + 1 < k, n, to, CPU_PRODUCT_ROWS);
        }
        to += ld_to;
    }
}

// Panels of a whose rows are contiguous across k; the panels lie panel_elems apart: of a band of rows, 16 pairs of k
// are woven, a few at a time so that memory is read in runs, and transposed.
static inline void cpu_pack_a_rows(const cpu_data *from, int64_t ld, int64_t n, int64_t k, cpu_packed *to,
                                   int64_t panel_elems) {
    enum { BAND = 4 * CPU_PRODUCT_ROWS, AT_ONCE = 8 };
    cpu_packed woven[CPU_AMX_PAIRS * BAND] __attribute__((aligned(64)));
    for (int64_t j = 0; j < k; j += CPU_PRODUCT_STEP_K) {
        const int64_t depth = k - j < CPU_PRODUCT_STEP_K ? k - j : CPU_PRODUCT_STEP_K;
        memset(woven, 0, depth < CPU_PRODUCT_STEP_K ? sizeof woven : 0);
        for (int64_t first = 0; first < n; first += BAND) {
            const int64_t n_rows = n - first < BAND ? n - first : BAND;
            for (int64_t step = 0; step < depth; step += AT_ONCE) {
                for (int64_t i = 0; i < n_rows; i += CPU_PRODUCT_ROWS) {
                    cpu_weave(from + (j + step) * ld + first + i, ld,
                              n_rows - i < CPU_PRODUCT_ROWS ? n_rows - i : CPU_PRODUCT_ROWS,
                              depth - step < AT_ONCE ? depth - step : AT_ONCE, woven + step / CPU_PACK_K * BAND + i,
                              BAND);
                }
            }
            for (int64_t i = 0; i < n_rows; i += CPU_AMX_ROWS) {
                cpu_packed *panel = to + (first + i) / CPU_PRODUCT_ROWS * panel_elems;
                cpu_packed *block = panel + j * CPU_PRODUCT_ROWS / CPU_PACK_K + i % CPU_PRODUCT_ROWS * CPU_AMX_PAIRS;
                cpu_transpose((const float *)(woven + i), BAND, (float *)block, CPU_AMX_PAIRS);
            }
        }
    }
}

// sums (CPU_PRODUCT_ROWS x CPU_PRODUCT_COLS) = a panel x b panel over n_steps of CPU_PRODUCT_STEP_K, or += with `add`.
static inline void cpu_product_tile(int64_t n_steps, const cpu_packed *a, const cpu_packed *b, float *sums, bool add,
                                    cpu_asking *asking) {
    enum {
        A_ROW_BYTES = CPU_AMX_PAIRS * sizeof *a,
        B_ROW_BYTES = CPU_PRODUCT_COLS * sizeof *b,
        SUM_ROW_BYTES = CPU_PRODUCT_COLS * sizeof *sums,
        REGISTER_ELEMS = CPU_AMX_ROWS * CPU_AMX_PAIRS,
    };
    float *below = sums + CPU_AMX_ROWS * CPU_PRODUCT_COLS;
    __asm__ volatile("" ::: "memory"); // what was packed is in memory: compilers do not see that tiles read it
    if (add) {
        _tile_loadd(0, sums, SUM_ROW_BYTES);
        _tile_loadd(1, sums + CPU_AMX_PAIRS, SUM_ROW_BYTES);
        _tile_loadd(2, below, SUM_ROW_BYTES);
        _tile_loadd(3, below + CPU_AMX_PAIRS, SUM_ROW_BYTES);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t j = 0; j < n_steps; j++) {
        _tile_loadd(4, a, A_ROW_BYTES);
        _tile_loadd(6, b, B_ROW_BYTES);
        _tile_loadd(7, b + CPU_AMX_PAIRS, B_ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        cpu_ask_to_read(&asking->b);
        cpu_ask_to_read(&asking->beside);
        _tile_loadd(5, a + REGISTER_ELEMS, A_ROW_BYTES);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        a += 2 * REGISTER_ELEMS;
        b += CPU_AMX_PAIRS * CPU_PRODUCT_COLS;
    }
    _tile_stored(0, sums, SUM_ROW_BYTES);
    _tile_stored(1, sums + CPU_AMX_PAIRS, SUM_ROW_BYTES);
    _tile_stored(2, below, SUM_ROW_BYTES);
    _tile_stored(3, below + CPU_AMX_PAIRS, SUM_ROW_BYTES);
    __asm__ volatile("" ::: "memory");
}

#endif
