// tile_amx.h: the tile of bf16 products in AMX's tile registers (common/amx.h).
//
// A tile register is 16 rows of 64 bytes. TDPBF16PS adds to 16x16 floats the product of 16 rows of 32 k by 32 k of 16
// columns, the latter in pairs along k (matmul/pack_amx.h). Four registers are sums:
//
//                  b0   b1
//            a0    s0   s1
//            a1    s2   s3
//
// A panel of b stays in the first-level cache while all panels of a pass by: those are loaded with the hint that they
// are not used soon, and so do not drive it out.
#pragma once

#include "backends/cpu/common/amx.h"
#include "backends/cpu/kernels/matmul/pack_amx.h"

enum {
    CPU_PRODUCT_A = 2, // registers of a panel of a, and of one of b
    CPU_PRODUCT_B = 2,
    CPU_PRODUCT_ROWS = CPU_PRODUCT_A * CPU_AMX_ROWS,
    CPU_PRODUCT_COLS = CPU_PRODUCT_B * CPU_AMX_PAIRS,
    CPU_PRODUCT_ROW_BYTES = CPU_PRODUCT_COLS * sizeof(float),
};

static inline void cpu_product_begin(void) { cpu_amx_begin(); }
static inline void cpu_product_end(void) { cpu_amx_end(); }

// The registers' sums: none, those at `from`, row by row, and to `to`.
static inline void cpu_clear_sums(void) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

static inline void cpu_load_sums(const float *from) {
    const float *below = from + CPU_AMX_ROWS * CPU_PRODUCT_COLS;
    _tile_loadd(0, from, CPU_PRODUCT_ROW_BYTES);
    _tile_loadd(1, from + CPU_AMX_PAIRS, CPU_PRODUCT_ROW_BYTES);
    _tile_loadd(2, below, CPU_PRODUCT_ROW_BYTES);
    _tile_loadd(3, below + CPU_AMX_PAIRS, CPU_PRODUCT_ROW_BYTES);
}

static inline void cpu_store_sums(float *to) {
    float *below = to + CPU_AMX_ROWS * CPU_PRODUCT_COLS;
    _tile_stored(0, to, CPU_PRODUCT_ROW_BYTES);
    _tile_stored(1, to + CPU_AMX_PAIRS, CPU_PRODUCT_ROW_BYTES);
    _tile_stored(2, below, CPU_PRODUCT_ROW_BYTES);
    _tile_stored(3, below + CPU_AMX_PAIRS, CPU_PRODUCT_ROW_BYTES);
    __asm__ volatile("" ::: "memory");
}

// Asks for a quarter of what is multiplied of a two steps later.
static inline __attribute__((always_inline)) void cpu_ask_ahead(const cpu_packed *a, int64_t quarter, bool asks) {
    enum { AHEAD = 2 * CPU_PRODUCT_A * CPU_AMX_ROWS, QUARTER = CPU_PRODUCT_A * CPU_AMX_ROWS / 4 }; // lines
    if (!asks) {
        return;
    }
#pragma GCC unroll 8
    for (int64_t i = 0; i < QUARTER; i++) {
        __builtin_prefetch(a + (AHEAD + quarter * QUARTER + i) * CPU_AMX_PAIRS);
    }
}

// to (CPU_PRODUCT_ROWS x CPU_PRODUCT_COLS) = from + a panel x b panel over n_steps of CPU_AMX_K; `from` may be NULL:
// zeros. In each step `meanwhile` is called, for what vector instructions can do meanwhile. A step's loads precede its
// products: after that work they cost 3 to 8% of the time. `asks` for a ahead: of 16 or 32 threads that share real
// cores products then take 5 to 10% less time, but one thread that has its core alone takes 20% more.
static inline __attribute__((always_inline)) void cpu_product_tile(int64_t n_steps, const cpu_packed *a,
                                                                   const cpu_packed *b, const float *from, float *to,
                                                                   bool asks, void (*meanwhile)(void *), void *what) {
    enum { ROW_BYTES = CPU_AMX_PAIRS * sizeof *b };
    __asm__ volatile("" ::: "memory"); // what was packed is in memory: compilers do not see that tiles read it
    if (from == NULL) {
        cpu_clear_sums();
    } else {
        cpu_load_sums(from);
    }
    for (int64_t j = 0; j < n_steps; j++) {
        _tile_stream_loadd(4, a, ROW_BYTES);
        _tile_loadd(6, b, ROW_BYTES);
        _tile_stream_loadd(5, a + CPU_AMX_WORDS, ROW_BYTES);
        _tile_loadd(7, b + CPU_AMX_WORDS, ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        cpu_ask_ahead(a, 0, asks);
        _tile_dpbf16ps(2, 5, 6);
        cpu_ask_ahead(a, 1, asks);
        _tile_dpbf16ps(1, 4, 7);
        cpu_ask_ahead(a, 2, asks);
        _tile_dpbf16ps(3, 5, 7);
        cpu_ask_ahead(a, 3, asks);
        meanwhile(what);
        a += CPU_PRODUCT_A * CPU_AMX_WORDS;
        b += CPU_PRODUCT_B * CPU_AMX_WORDS;
    }
    cpu_store_sums(to);
}
