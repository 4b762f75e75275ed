// tile_split.h: the tile of float products in AMX's tile registers, of operands that are split (matmul/split.h): the
// sum of the six largest of nine products of parts. The three that are left out are below 2^-24 of the product.
//
// Four registers are sums, of two registers' rows by two registers' columns. In each step every product of parts
// shares a part with the one before it, so that seven pairs of registers are loaded for six products:
//
//     a     large   large   medium  medium  small   large
//     b     small   medium  medium  large   large   large
#ifndef STEPMARK_BACKENDS_CPU_KERNELS_MATMUL_TILE_SPLIT_H
#define STEPMARK_BACKENDS_CPU_KERNELS_MATMUL_TILE_SPLIT_H

#include "backends/cpu/common/amx.h"
#include "backends/cpu/kernels/matmul/split.h"

enum { CPU_SPLIT_LARGE, CPU_SPLIT_MEDIUM, CPU_SPLIT_SMALL };

// sums (CPU_SPLIT_PANEL x CPU_SPLIT_PANEL) = a panel x b panel over n_steps of CPU_SPLIT_K. In each step `meanwhile` is
// called, for what vector instructions can do meanwhile.
static inline __attribute__((always_inline)) void cpu_split_tile(int64_t n_steps, const cpu_split_word *a,
                                                                 const cpu_split_word *b, float *sums,
                                                                 void (*meanwhile)(void *), void *what) {
    enum { ROW_BYTES = 64, SUM_ROW_BYTES = CPU_SPLIT_PANEL * sizeof *sums };
    float *below = sums + CPU_SPLIT_LINES * CPU_SPLIT_PANEL;
#define LOAD_A0(part) _tile_stream_loadd(4, a + (part)*CPU_SPLIT_PART, ROW_BYTES)
#define LOAD_A1(part) _tile_stream_loadd(5, a + (part)*CPU_SPLIT_PART + CPU_SPLIT_WORDS, ROW_BYTES)
#define LOAD_B0(part) _tile_loadd(6, b + (part)*CPU_SPLIT_PART, ROW_BYTES)
#define LOAD_B1(part) _tile_loadd(7, b + (part)*CPU_SPLIT_PART + CPU_SPLIT_WORDS, ROW_BYTES)
#define NEXT_A(part)         \
    LOAD_A0(part);           \
    _tile_dpbf16ps(0, 4, 6); \
    _tile_dpbf16ps(1, 4, 7); \
    LOAD_A1(part);           \
    _tile_dpbf16ps(2, 5, 6); \
    _tile_dpbf16ps(3, 5, 7)
#define NEXT_B(part)         \
    LOAD_B0(part);           \
    _tile_dpbf16ps(0, 4, 6); \
    _tile_dpbf16ps(2, 5, 6); \
    LOAD_B1(part);           \
    _tile_dpbf16ps(1, 4, 7); \
    _tile_dpbf16ps(3, 5, 7)
    __asm__ volatile("" ::: "memory"); // what was packed is in memory: compilers do not see that tiles read it
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t j = 0; j < n_steps; j++) {
        LOAD_A0(CPU_SPLIT_LARGE);
        LOAD_A1(CPU_SPLIT_LARGE);
        NEXT_B(CPU_SPLIT_SMALL);
        NEXT_B(CPU_SPLIT_MEDIUM);
        NEXT_A(CPU_SPLIT_MEDIUM);
        meanwhile(what);
        NEXT_B(CPU_SPLIT_LARGE);
        NEXT_A(CPU_SPLIT_SMALL);
        NEXT_A(CPU_SPLIT_LARGE);
        a += CPU_SPLIT_STEP;
        b += CPU_SPLIT_STEP;
    }
    _tile_stored(0, sums, SUM_ROW_BYTES);
    _tile_stored(1, sums + CPU_SPLIT_LINES, SUM_ROW_BYTES);
    _tile_stored(2, below, SUM_ROW_BYTES);
    _tile_stored(3, below + CPU_SPLIT_LINES, SUM_ROW_BYTES);
    __asm__ volatile("" ::: "memory");
#undef LOAD_A0
#undef LOAD_A1
#undef LOAD_B0
#undef LOAD_B1
#undef NEXT_A
#undef NEXT_B
}

#endif
