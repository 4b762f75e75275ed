// matmul_threads.c: divides the columns among the threads, so that none waits for another.
#include "vector.h"

enum { ROWS = VECTOR_BYTES == 64 ? 12 : VECTOR_BYTES == 32 ? 6 : 4, VECTORS = 2 };

#include "matmul_packed_tiles.h"

const int matmul_forward_threads = 1;

void matmul_forward(const matmul_forward_args *args) {
    const int64_t n_tiles = (args->F + COLS - 1) / COLS;
    const int64_t first = n_tiles * args->thread / args->n_threads;
    const int64_t end = n_tiles * (args->thread + 1) / args->n_threads;
    multiply(args, first * COLS, least(end * COLS, args->F));
}
