// matmul.c: a linear layer's matrix product and its two derivatives. W is stored (C,F), or
// transposed, (F,C), as the head that is tied to the token embedding.
//
// All six cases are one of three products. Their innermost loops run along rows, and each keeps a strip of sums in
// double. Strips are independent: for large matrices threads share them, without changing any sum.
#include "backends/reference/ref.h"
#include "os/os.h"

enum { STRIP = 128, ROWS = 16, DEPTH = 32, TILE_ROWS = 4, TILE = 8, LANES = 8, MUCH = 1 << 24 };

// Columns of the strip that begins at `first`.
static int64_t strip_width(int64_t first, int64_t n_cols) { return n_cols - first < STRIP ? n_cols - first : STRIP; }

// sum[i][m] += the sum over k of a[i,k] b[k][m], of some rows and of TILE columns from `first` on: they stay in registers.
static inline __attribute__((always_inline)) void add_tile(int n_rows, int64_t n_k, int64_t K, const real *a,
                                                           double (*b)[STRIP], int64_t first, double (*sum)[STRIP]) {
    double tile[TILE_ROWS][TILE];
    for (int i = 0; i < n_rows; i++) {
        memcpy(tile[i], sum[i] + first, sizeof tile[i]);
    }
    for (int64_t k = 0; k < n_k; k++) {
        for (int i = 0; i < n_rows; i++) {
            double factor = (double)a[i * K + k];
            for (int m = 0; m < TILE; m++) {
                tile[i][m] += factor * b[k][first + m];
            }
        }
    }
    for (int i = 0; i < n_rows; i++) {
        memcpy(sum[i] + first, tile[i], sizeof tile[i]);
    }
}

// y = a b
// a (N,K), b (K,M), y (N,M)
static void product(int64_t N, int64_t K, int64_t M, const real *a, const real *b, real *y) {
#pragma omp parallel for schedule(static) if (N * K * M > MUCH) num_threads(os_n_processors())
    for (int64_t first = 0; first < M; first += STRIP) {
        int64_t width = strip_width(first, M);
        for (int64_t n = 0; n < N; n += ROWS) { // rows at a time; b is widened once for all of them
            double sum[ROWS][STRIP] = {{0}};
            double wide[DEPTH][STRIP] = {{0}};
            int64_t rows = N - n < ROWS ? N - n : ROWS;
            for (int64_t k = 0; k < K; k += DEPTH) {
                int64_t depth = K - k < DEPTH ? K - k : DEPTH;
                for (int64_t d = 0; d < depth; d++) {
                    for (int64_t m = 0; m < width; m++) {
                        wide[d][m] = (double)b[(k + d) * M + first + m];
                    }
                }
                for (int64_t m = 0; m < width; m += TILE) {
                    int64_t i = 0;
                    for (; i + TILE_ROWS <= rows; i += TILE_ROWS) {
                        add_tile(TILE_ROWS, depth, K, a + (n + i) * K + k, wide, m, sum + i);
                    }
                    for (; i < rows; i++) {
                        add_tile(1, depth, K, a + (n + i) * K + k, wide, m, sum + i);
                    }
                }
            }
            for (int64_t i = 0; i < rows; i++) {
                for (int64_t m = 0; m < width; m++) {
                    y[(n + i) * M + first + m] = (real)sum[i][m];
                }
            }
        }
    }
}

// y += a^T b
// a (N,K), b (N,M), y (K,M)
static void add_product_of_transposed(int64_t N, int64_t K, int64_t M, const real *a, const real *b, real *y) {
    for (int64_t first = 0; first < M; first += STRIP) {
        int64_t width = strip_width(first, M);
        for (int64_t k = 0; k < K; k++) {
            double sum[STRIP] = {0};
            for (int64_t n = 0; n < N; n++) {
                double factor = (double)a[n * K + k];
                const real *row = b + n * M + first;
                for (int64_t m = 0; m < width; m++) {
                    sum[m] += factor * (double)row[m];
                }
            }
            for (int64_t m = 0; m < width; m++) {
                y[k * M + first + m] = (real)((double)y[k * M + first + m] + sum[m]);
            }
        }
    }
}

// sum_k a[k] b[k], in independent lanes so that compilers can vectorise
static double dot(int64_t K, const real *a, const real *b) {
    double lane[LANES] = {0};
    int64_t k = 0;
    for (; k + LANES <= K; k += LANES) {
        for (int i = 0; i < LANES; i++) {
            lane[i] += (double)a[k + i] * (double)b[k + i];
        }
    }
    double sum = 0;
    for (; k < K; k++) {
        sum += (double)a[k] * (double)b[k];
    }
    for (int i = 0; i < LANES; i++) {
        sum += lane[i];
    }
    return sum;
}

// y = a b^T
// a (N,K), b (M,K), y (N,M)
static void product_with_transposed(int64_t N, int64_t K, int64_t M, const real *a, const real *b, real *y) {
#pragma omp parallel for schedule(static) if (N * K * M > MUCH) num_threads(os_n_processors())
    for (int64_t m = 0; m < M; m++) {
        for (int64_t n = 0; n < N; n++) {
            y[n * M + m] = (real)dot(K, a + n * K, b + m * K);
        }
    }
}

// y = x W
// x (N,C), W (C,F) or (F,C), y (N,F)
void REF(matmul_forward)(int64_t N, int64_t C, int64_t F, bool w_transposed, const real *x, const real *W, real *y) {
    if (w_transposed) {
        product_with_transposed(N, C, F, x, W, y);
    } else {
        product(N, C, F, x, W, y);
    }
}

// dx = dy W^T
// dy (N,F), W (C,F) or (F,C), dx (N,C)
void REF(matmul_backward_input)(int64_t N, int64_t C, int64_t F, bool w_transposed, const real *dy, const real *W,
                                real *dx) {
    if (w_transposed) {
        product(N, F, C, dy, W, dx);
    } else {
        product_with_transposed(N, F, C, dy, W, dx);
    }
}

// dW += x^T dy
// x (N,C), dy (N,F), dW (C,F) or (F,C)
void REF(matmul_backward_weight)(int64_t N, int64_t C, int64_t F, bool w_transposed, const real *x, const real *dy,
                                 real *dW) {
    if (w_transposed) {
        add_product_of_transposed(N, F, C, dy, x, dW);
    } else {
        add_product_of_transposed(N, C, F, x, dy, dW);
    }
}
