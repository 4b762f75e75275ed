// matmul_packed_tiles.h: a matmul with packed tiles of ROWS rows by VECTORS `vec`s of y. The includer defines these
// names.
//
// Packing copies a slice of x and of W once, in the order in which the innermost loop reads them, padded with zeros:
// the loop reads straight on and has no edge cases.
#include <string.h>

#include "args_matmul.h"

enum { LANES = sizeof(vec) / sizeof(float), COLS = VECTORS * LANES, SLICE = 128, TILES = 16, PANELS = 8 };

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Packs rows n .. n + TILES * ROWS - 1 of x, tile by tile, with number c of all its rows next to each other.
static void pack_x(const matmul_forward_args *args, int64_t n, int64_t c, int64_t depth,
                   float packed[TILES][SLICE][ROWS]) {
    for (int64_t i = 0; i < TILES * ROWS && n + i / ROWS * ROWS < args->N; i++) {
        for (int64_t k = 0; k < depth; k++) {
            packed[i / ROWS][k][i % ROWS] = n + i < args->N ? args->x[(n + i) * args->C + c + k] : 0;
        }
    }
}

// Packs columns f .. f_end - 1 of W, panel by panel of COLS columns, with number c of all its columns next to each
// other.
static void pack_w(const matmul_forward_args *args, int64_t f, int64_t f_end, int64_t c, int64_t depth,
                   vec packed[PANELS][SLICE][VECTORS]) {
    const int64_t to_next_c = args->w_transposed ? 1 : args->F;
    const int64_t to_next_f = args->w_transposed ? args->C : 1;
    for (int64_t k = 0; k < depth; k++) {
        for (int64_t j = f; j < f_end; j += COLS) {
            const float *W = args->W + (c + k) * to_next_c + j * to_next_f;
            float *row = (float *)packed[(j - f) / COLS][k];
            const int64_t n_cols = least(COLS, f_end - j);
            if (to_next_f == 1 && n_cols == COLS) {
                memcpy(row, W, COLS * sizeof *row);
                continue;
            }
            for (int64_t i = 0; i < COLS; i++) {
                row[i] = i < n_cols ? W[i * to_next_f] : 0;
            }
        }
    }
}

// The tile's sums, in registers, added to y; the first slice writes.
static inline void add_tile(const matmul_forward_args *args, int64_t n, int64_t f, int64_t c, int64_t depth,
                            float x[SLICE][ROWS], vec w[SLICE][VECTORS]) {
    vec sum[ROWS][VECTORS];
    for (int i = 0; i < ROWS; i++) {
        for (int v = 0; v < VECTORS; v++) {
            sum[i][v] = (vec){0};
        }
    }
    for (int64_t k = 0; k < depth; k++) {
        for (int i = 0; i < ROWS; i++) {
            for (int v = 0; v < VECTORS; v++) {
                sum[i][v] += x[k][i] * w[k][v];
            }
        }
    }
    for (int64_t i = 0; i < least(ROWS, args->N - n); i++) {
        float *y = args->y + (n + i) * args->F + f;
        const float *row = (const float *)sum[i];
        for (int64_t j = 0; j < least(COLS, args->F - f); j++) {
            y[j] = row[j] + (c == 0 ? 0 : y[j]);
        }
    }
}

// Columns f_first .. f_end - 1 of y.
static void multiply(const matmul_forward_args *args, int64_t f_first, int64_t f_end) {
    float x[TILES][SLICE][ROWS];
    vec w[PANELS][SLICE][VECTORS];
    for (int64_t c = 0; c < args->C; c += SLICE) {
        const int64_t depth = least(SLICE, args->C - c);
        for (int64_t block = 0; block < args->N; block += TILES * ROWS) {
            pack_x(args, block, c, depth, x);
            for (int64_t f = f_first; f < f_end; f += PANELS * COLS) {
                const int64_t panels_end = least(f + PANELS * COLS, f_end);
                pack_w(args, f, panels_end, c, depth, w);
                for (int64_t j = f; j < panels_end; j += COLS) {
                    for (int64_t n = block; n < least(block + TILES * ROWS, args->N); n += ROWS) {
                        add_tile(args, n, j, c, depth, x[(n - block) / ROWS], w[(j - f) / COLS]);
                    }
                }
            }
        }
    }
}
