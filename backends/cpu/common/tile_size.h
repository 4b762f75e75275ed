// tile_size.h: the tile of a product in vector registers: CPU_PRODUCT_ROWS x CPU_PRODUCT_COLS of the result.
#pragma once

#include "backends/cpu/common/vector.h"

#if CPU_SCALAR
typedef float cpu_tile_vector __attribute__((may_alias));
enum { CPU_TILE_VECTOR = 1, CPU_PRODUCT_ROWS = 4, CPU_PRODUCT_VECTORS = 5 }; // 20 of 32 registers are sums
#else
typedef cpu_vector cpu_tile_vector;
#if CPU_SME
enum { CPU_TILE_VECTOR = CPU_VECTOR, CPU_PRODUCT_ROWS = 32, CPU_PRODUCT_VECTORS = 8 }; // in ZA, not in registers
#elif CPU_REGISTERS == 32
enum { CPU_TILE_VECTOR = CPU_VECTOR, CPU_PRODUCT_ROWS = 8, CPU_PRODUCT_VECTORS = 3 }; // 24 of 32
#else
enum { CPU_TILE_VECTOR = CPU_VECTOR, CPU_PRODUCT_ROWS = 6, CPU_PRODUCT_VECTORS = 2 }; // 12 of 16
#endif
#endif

enum { CPU_PRODUCT_COLS = CPU_TILE_VECTOR * CPU_PRODUCT_VECTORS };

// GCC 12 keeps sums, and what a loop counts and reads by, in registers only where no other code is around them.
#define CPU_ALONE static __attribute__((noinline)) void

#if CPU_BY_LANE
// *sum += factors[lane] * row, in the register where *sum is: GCC 12 else copies between registers.
#define BY_LANE(lane) __asm__("fmla %0.4s, %1.4s, %2.s[" #lane "]" : "+w"(*sum) : "w"(row), "w"(factors))
static inline __attribute__((always_inline)) void cpu_multiply_add_lane(cpu_vector *sum, cpu_vector factors, int lane,
                                                                        cpu_vector row) {
    switch (lane) {
    case 0: BY_LANE(0); break;
    case 1: BY_LANE(1); break;
    case 2: BY_LANE(2); break;
    default: BY_LANE(3);
    }
}
#undef BY_LANE

// sum += factors row: CPU_PRODUCT_ROWS factors side by side.
static inline __attribute__((always_inline)) void
cpu_multiply_by_lanes(int n_vectors, const float *factors, const cpu_tile_vector row[CPU_PRODUCT_VECTORS],
                      cpu_tile_vector sum[CPU_PRODUCT_ROWS][CPU_PRODUCT_VECTORS]) {
#pragma GCC unroll 8
    for (int r = 0; r < CPU_PRODUCT_ROWS; r += CPU_VECTOR) {
        const cpu_vector some = *(const cpu_vector *)(factors + r);
#pragma GCC unroll 4
        for (int lane = 0; lane < CPU_VECTOR; lane++) {
#pragma GCC unroll 4
            for (int v = 0; v < n_vectors; v++) {
                cpu_multiply_add_lane(&sum[r + lane][v], some, lane, row[v]);
            }
        }
    }
}
#endif
