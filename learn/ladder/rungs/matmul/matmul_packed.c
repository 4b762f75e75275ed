// matmul_packed.c: the same tiles, with operands copied into the order of reading.
#include "vector.h"

enum { ROWS = VECTOR_BYTES == 64 ? 12 : VECTOR_BYTES == 32 ? 6 : 4, VECTORS = 2 };

#include "matmul_packed_tiles.h"

void matmul_forward(const matmul_forward_args *args) { multiply(args, 0, args->F); }
