// matmul.c: a linear layer's matrix product and its two derivatives. W is stored (C,F), or
// transposed, (F,C), as the head that is tied to the token embedding.
//
// All six cases are one of three products. Their loops are ordered so that the innermost runs
// along rows, and each keeps a strip of sums in double. Strips are independent: where there is much to do, threads share
// them, and every sum stays what it is.
#include "backends/host/memory.h"
#include "backends/reference/ref.h"

enum { STRIP = 256, ROWS = 8, LANES = 8, MUCH = 1 << 24 };

// Columns of the strip that begins at `first`.
static int64_t strip_width(int64_t first, int64_t n_cols) { return n_cols - first < STRIP ? n_cols - first : STRIP; }

// y = a b
// a (N,K), b (K,M), y (N,M)
static void product(int64_t N, int64_t K, int64_t M, const real *a, const real *b, real *y) {
#pragma omp parallel for schedule(static) if (N * K * M > MUCH) num_threads(host_n_threads())
    for (int64_t first = 0; first < M; first += STRIP) {
        int64_t width = strip_width(first, M);
        for (int64_t n = 0; n < N; n += ROWS) { // so many rows at a time, as b is widened for all of them
            double sum[ROWS][STRIP] = {{0}};
            int64_t rows = N - n < ROWS ? N - n : ROWS;
            for (int64_t k = 0; k < K; k++) {
                double wide[STRIP];
                for (int64_t m = 0; m < width; m++) {
                    wide[m] = (double)b[k * M + first + m];
                }
                for (int64_t i = 0; i < rows; i++) {
                    double factor = (double)a[(n + i) * K + k];
                    for (int64_t m = 0; m < width; m++) {
                        sum[i][m] += factor * wide[m];
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

// sum_k a[k] b[k], in independent lanes so that the compiler may use vectors
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
#pragma omp parallel for schedule(static) if (N * K * M > MUCH) num_threads(host_n_threads())
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
