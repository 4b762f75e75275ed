// matmul_loops.c: y = x W by three loops, as in the equation. W is read down a column: every element needs a new cache
// line, of which only one number is used.
#include "args_matmul.h"

void matmul_forward(const matmul_forward_args *args) {
    const int64_t N = args->N;
    const int64_t C = args->C;
    const int64_t F = args->F;
    const int64_t to_next_c = args->w_transposed ? 1 : F; // in W
    const int64_t to_next_f = args->w_transposed ? C : 1;
    for (int64_t n = 0; n < N; n++) {
        for (int64_t f = 0; f < F; f++) {
            float sum = 0;
            for (int64_t c = 0; c < C; c++) {
                sum += args->x[n * C + c] * args->W[c * to_next_c + f * to_next_f];
            }
            args->y[n * F + f] = sum;
        }
    }
}
