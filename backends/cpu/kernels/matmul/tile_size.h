// tile_size.h: the tile of a product in vector registers: CPU_PRODUCT_ROWS x CPU_PRODUCT_COLS of the result.
#ifndef STEPMARK_BACKENDS_CPU_KERNELS_MATMUL_TILE_SIZE_H
#define STEPMARK_BACKENDS_CPU_KERNELS_MATMUL_TILE_SIZE_H

#include "backends/cpu/common/vector.h"

#if CPU_REGISTERS == 32
enum { CPU_PRODUCT_ROWS = 8, CPU_PRODUCT_VECTORS = 3 }; // 24 of 32 registers are sums
#else
enum { CPU_PRODUCT_ROWS = 6, CPU_PRODUCT_VECTORS = 2 }; // 12 of 16
#endif

enum { CPU_PRODUCT_COLS = CPU_VECTOR * CPU_PRODUCT_VECTORS };

#endif
