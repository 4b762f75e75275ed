// tile.h: products of tiles that lie in the first- and second-level cache: the inner loops of flash
// attention. Written with the compiler's vector types, of the width of the instruction set.
#pragma once

#include <stdbool.h>

#include "backends/cpu/common/vector.h"

// A block of CPU_BLOCK_ROWS x CPU_BLOCK_VECTORS vectors of the result stays in registers: 16, 12 and 12
// accumulators of the 32, 16 and 16 registers there are, enough to hide the latency of a
// multiply-add (4 cycles, two a cycle). Few rows, because of a triangle whole blocks are computed.
enum { CPU_BLOCK_ROWS = 4 };
#if CPU_REGISTERS == 32
enum { CPU_BLOCK_VECTORS = 4 };
#else
enum { CPU_BLOCK_VECTORS = 3 };
#endif

// One operand of a product: element (i, j) at data[i * row_stride + j * col_stride]. A transposed
// view exchanges the strides.
typedef struct {
    const float *data;
    int64_t row_stride;
    int64_t col_stride;
} cpu_view;

// Rows of memory that are needed next, asked for a few at a time while blocks are computed: from the last area on.
enum { CPU_FETCH_AREAS = 8 };

typedef struct {
    const char *row; // the next one
    int64_t ld_bytes;
    int64_t n_rows; // left
} cpu_fetch_area;

typedef struct {
    cpu_fetch_area area[CPU_FETCH_AREAS];
    int n_areas;
    int64_t row_bytes; // of every area
    int64_t n_rows;    // of all areas,
    int64_t n_times;   // to be fetched in so many parts:
    int64_t owed;      // rows, in parts of n_times
} cpu_fetching;

static inline void cpu_fetch_add(cpu_fetching *f, const void *first, int64_t ld_bytes, int64_t n_rows) {
    f->area[f->n_areas++] = (cpu_fetch_area){first, ld_bytes, n_rows};
}

static inline void cpu_fetch(cpu_fetching *f) {
    for (f->owed += f->n_rows; f->owed >= f->n_times && f->n_areas > 0; f->owed -= f->n_times) {
        cpu_fetch_area *a = &f->area[f->n_areas - 1];
        for (int64_t byte = 0; byte < f->row_bytes; byte += 64) {
            __builtin_prefetch(a->row + byte, 0, 2); // into the second-level cache
        }
        a->row += a->ld_bytes;
        f->n_areas -= --a->n_rows == 0;
    }
}

// One block in registers: c = a (rows, k) b (k, n_vectors), or += with `add`. n_vectors is a constant of the caller.
static inline __attribute__((always_inline)) void cpu_tile_block(int n_vectors, int64_t k, cpu_view a, const float *b,
                                                                 int64_t ldb, bool add, float *c, int64_t ldc) {
    cpu_vector sum[CPU_BLOCK_ROWS][CPU_BLOCK_VECTORS];
#pragma GCC unroll 8
    for (int r = 0; r < CPU_BLOCK_ROWS; r++) {
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++) {
            sum[r][v] = add ? *(const cpu_vector *)(c + r * ldc + v * CPU_VECTOR) : (cpu_vector){0};
        }
    }
    for (int64_t j = 0; j < k; j++) {
        cpu_vector row[CPU_BLOCK_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++) {
            row[v] = *(const cpu_vector *)(b + v * CPU_VECTOR);
        }
#pragma GCC unroll 8
        for (int r = 0; r < CPU_BLOCK_ROWS; r++) {
            const float factor = a.data[r * a.row_stride];
#pragma GCC unroll 4
            for (int v = 0; v < n_vectors; v++) {
#if CPU_ADDS_IN_PLACE
                cpu_add_in_place(&sum[r][v], factor, row[v]);
#else
                sum[r][v] += factor * row[v];
#endif
            }
        }
        a.data += a.col_stride;
        b += ldb;
    }
#pragma GCC unroll 8
    for (int r = 0; r < CPU_BLOCK_ROWS; r++) {
#pragma GCC unroll 4
        for (int v = 0; v < n_vectors; v++) {
            *(cpu_vector *)(c + r * ldc + v * CPU_VECTOR) = sum[r][v];
        }
    }
}

// CPU_BLOCK_ROWS rows of a product: c = a (rows, k) b (k, n_vectors CPU_VECTOR), or += with `add`.
static inline __attribute__((always_inline)) void cpu_tile_rows(int64_t n_vectors, int64_t k, cpu_view a,
                                                                const float *b, int64_t ldb, bool add, float *c,
                                                                int64_t ldc, cpu_fetching *f) {
    for (; n_vectors >= CPU_BLOCK_VECTORS; n_vectors -= CPU_BLOCK_VECTORS) {
        cpu_fetch(f);
        cpu_tile_block(CPU_BLOCK_VECTORS, k, a, b, ldb, add, c, ldc);
        b += CPU_BLOCK_VECTORS * CPU_VECTOR;
        c += CPU_BLOCK_VECTORS * CPU_VECTOR;
    }
    if (n_vectors == 3) {
        cpu_tile_block(3, k, a, b, ldb, add, c, ldc);
    } else if (n_vectors == 2) {
        cpu_tile_block(2, k, a, b, ldb, add, c, ldc);
    } else if (n_vectors == 1) {
        cpu_tile_block(1, k, a, b, ldb, add, c, ldc);
    }
}
