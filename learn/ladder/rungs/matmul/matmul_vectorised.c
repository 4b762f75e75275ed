// matmul_vectorised.c: a `vec` has as many numbers as the processor multiplies and adds at once; a tile has as many
// rows as its registers hold sums for.
#include "vector.h"

enum { ROWS = VECTOR_BYTES == 64 ? 12 : VECTOR_BYTES == 32 ? 6 : 4, VECTORS = 2 };

#include "matmul_blocks.h"

void matmul_forward(const matmul_forward_args *args) { multiply(args); }
