// cpu_tile.h: products of tiles that lie in the first- and second-level cache: the inner loops of flash
// attention. Written with the compiler's vector types, of the width of the instruction set.
#ifndef STEPMARK_CPU_TILE_H
#define STEPMARK_CPU_TILE_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu_vector.h"

// A block of CPU_BLOCK_ROWS x CPU_BLOCK_COLS of the result stays in registers: 16, 8 and 8
// accumulators of the 32, 16 and 16 registers there are, enough to hide the latency of a
// multiply-add (4 cycles, two a cycle).
#if defined(__AVX512F__)
enum { CPU_BLOCK_ROWS = 8, CPU_BLOCK_VECTORS = 2 };
#else
enum { CPU_BLOCK_ROWS = 4, CPU_BLOCK_VECTORS = 2 };
#endif

enum { CPU_BLOCK_COLS = CPU_VECTOR * CPU_BLOCK_VECTORS };

// One operand of a product: element (i, j) at data[i * row_stride + j * col_stride]. A transposed
// view exchanges the strides.
typedef struct {
    const float *data;
    int64_t row_stride;
    int64_t col_stride;
} cpu_view;

// One block in registers: c += a (rows, k_first..k_end) b (k_first..k_end, cols).
static inline void cpu_tile_block(cpu_view a, const float *b, int64_t ldb, int64_t k_first, int64_t k_end, float *c,
                                  int64_t ldc) {
    cpu_vector sum[CPU_BLOCK_ROWS][CPU_BLOCK_VECTORS];
    for (int r = 0; r < CPU_BLOCK_ROWS; r++) {
        for (int v = 0; v < CPU_BLOCK_VECTORS; v++) {
            sum[r][v] = *(const cpu_vector *)(c + r * ldc + v * CPU_VECTOR);
        }
    }
    for (int64_t k = k_first; k < k_end; k++) {
        cpu_vector row[CPU_BLOCK_VECTORS];
        for (int v = 0; v < CPU_BLOCK_VECTORS; v++) {
            row[v] = *(const cpu_vector *)(b + k * ldb + v * CPU_VECTOR);
        }
        for (int r = 0; r < CPU_BLOCK_ROWS; r++) {
            const float factor = a.data[r * a.row_stride + k * a.col_stride];
            for (int v = 0; v < CPU_BLOCK_VECTORS; v++) {
                sum[r][v] += factor * row[v];
            }
        }
    }
    for (int r = 0; r < CPU_BLOCK_ROWS; r++) {
        for (int v = 0; v < CPU_BLOCK_VECTORS; v++) {
            *(cpu_vector *)(c + r * ldc + v * CPU_VECTOR) = sum[r][v];
        }
    }
}

#endif
