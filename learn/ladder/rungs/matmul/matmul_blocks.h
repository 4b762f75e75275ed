// matmul_blocks.h: tiles of ROWS rows by VECTORS `vec`s of y, with sums in registers: each number of W serves all rows,
// each number of x all columns. And blocks: a slice of C by BLOCK columns of W stays in a cache for all rows. The
// includer defines these names.
#include "args_matmul.h"

enum {
    LANES = sizeof(vec) / sizeof(float),
    COLS = VECTORS * LANES,
    SLICE = 128,
    BLOCK = 2 * COLS > 64 ? 2 * COLS : 64
};

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Adds c .. c_end - 1 to a whole tile of y; the first slice writes.
static inline void add_tile(const matmul_forward_args *args, int64_t n, int64_t f, int64_t c, int64_t c_end) {
    const float *x = args->x + n * args->C;
    unaligned_vec *y[ROWS];
    vec sum[ROWS][VECTORS];
    for (int i = 0; i < ROWS; i++) {
        y[i] = (unaligned_vec *)(args->y + (n + i) * args->F + f);
        for (int v = 0; v < VECTORS; v++) {
            sum[i][v] = c == 0 ? (vec){0} : (vec)y[i][v];
        }
    }
    for (; c < c_end; c++) {
        const unaligned_vec *W = (const unaligned_vec *)(args->W + c * args->F + f);
        for (int i = 0; i < ROWS; i++) {
            for (int v = 0; v < VECTORS; v++) {
                sum[i][v] += x[i * args->C + c] * W[v];
            }
        }
    }
    for (int i = 0; i < ROWS; i++) {
        for (int v = 0; v < VECTORS; v++) {
            y[i][v] = sum[i][v];
        }
    }
}

// The same for incomplete tiles, or if W is transposed: one number at a time.
static void add_rest(const matmul_forward_args *args, int64_t n, int64_t n_end, int64_t f, int64_t f_end, int64_t c,
                     int64_t c_end) {
    const int64_t to_next_c = args->w_transposed ? 1 : args->F;
    const int64_t to_next_f = args->w_transposed ? args->C : 1;
    for (int64_t i = n; i < n_end; i++) {
        for (int64_t j = f; j < f_end; j++) {
            float sum = c == 0 ? 0 : args->y[i * args->F + j];
            for (int64_t k = c; k < c_end; k++) {
                sum += args->x[i * args->C + k] * args->W[k * to_next_c + j * to_next_f];
            }
            args->y[i * args->F + j] = sum;
        }
    }
}

static void multiply(const matmul_forward_args *args) {
    for (int64_t c = 0; c < args->C; c += SLICE) {
        const int64_t c_end = least(c + SLICE, args->C);
        for (int64_t block = 0; block < args->F; block += BLOCK) {
            for (int64_t n = 0; n < args->N; n += ROWS) {
                for (int64_t f = block; f < least(block + BLOCK, args->F); f += COLS) {
                    if (n + ROWS <= args->N && f + COLS <= args->F && !args->w_transposed) {
                        add_tile(args, n, f, c, c_end);
                    } else {
                        add_rest(args, n, least(n + ROWS, args->N), f, least(f + COLS, args->F), c, c_end);
                    }
                }
            }
        }
    }
}
