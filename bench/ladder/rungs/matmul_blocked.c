// matmul_blocked.c: tiles of 4 rows by 4 columns of y, whose 16 sums stay in registers: a number of W serves 4 rows, one
// of x 4 columns. And blocks: a slice of C by some columns of W stays in the first cache while all rows go by.
#include "args_matmul.h"

enum { ROWS = 4, COLS = 4, SLICE = 128, BLOCK = 64 };

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Adds c .. c_end - 1 to rows n .. and columns f .. of y; the first slice writes.
static inline void add_tile(const matmul_forward_args *args, int64_t n, int64_t n_rows, int64_t f, int64_t n_cols,
                            int64_t c, int64_t c_end) {
    const int64_t to_next_c = args->w_transposed ? 1 : args->F;
    const int64_t to_next_f = args->w_transposed ? args->C : 1;
    const float *x = args->x + n * args->C;
    const float *W = args->W + f * to_next_f;
    float *y = args->y + n * args->F + f;
    float sum[ROWS][COLS];
    for (int64_t i = 0; i < n_rows; i++) {
        for (int64_t k = 0; k < n_cols; k++) {
            sum[i][k] = c == 0 ? 0 : y[i * args->F + k];
        }
    }
    for (; c < c_end; c++) {
        for (int64_t i = 0; i < n_rows; i++) {
            for (int64_t k = 0; k < n_cols; k++) {
                sum[i][k] += x[i * args->C + c] * W[c * to_next_c + k * to_next_f];
            }
        }
    }
    for (int64_t i = 0; i < n_rows; i++) {
        for (int64_t k = 0; k < n_cols; k++) {
            y[i * args->F + k] = sum[i][k];
        }
    }
}

void matmul_forward(const matmul_forward_args *args) {
    for (int64_t c = 0; c < args->C; c += SLICE) {
        const int64_t c_end = least(c + SLICE, args->C);
        for (int64_t block = 0; block < args->F; block += BLOCK) {
            for (int64_t n = 0; n < args->N; n += ROWS) {
                for (int64_t f = block; f < least(block + BLOCK, args->F); f += COLS) {
                    const int64_t n_rows = least(ROWS, args->N - n);
                    const int64_t n_cols = least(COLS, args->F - f);
                    if (n_rows == ROWS && n_cols == COLS) { // sizes that the compiler knows
                        add_tile(args, n, ROWS, f, COLS, c, c_end);
                    } else {
                        add_tile(args, n, n_rows, f, n_cols, c, c_end);
                    }
                }
            }
        }
    }
}
