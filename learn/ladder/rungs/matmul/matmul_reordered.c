// matmul_reordered.c: the same three loops in the order n, c, f. The innermost reads rows of W and of y, and its sums
// are independent.
#include "args_matmul.h"

void matmul_forward(const matmul_forward_args *args) {
    const int64_t N = args->N;
    const int64_t C = args->C;
    const int64_t F = args->F;
    const int64_t to_next_c = args->w_transposed ? 1 : F;
    const int64_t to_next_f = args->w_transposed ? C : 1;
    for (int64_t n = 0; n < N; n++) {
        float *y = args->y + n * F;
        for (int64_t f = 0; f < F; f++) {
            y[f] = 0;
        }
        for (int64_t c = 0; c < C; c++) {
            const float x = args->x[n * C + c];
            const float *W = args->W + c * to_next_c;
            for (int64_t f = 0; f < F; f++) {
                y[f] += x * W[f * to_next_f];
            }
        }
    }
}
