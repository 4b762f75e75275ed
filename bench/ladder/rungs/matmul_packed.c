// matmul_packed.c: the same tiles, of operands that were copied into the order of reading. (A `vec` is one number yet.)
typedef float vec;
enum { ROWS = 4, VECTORS = 4 };

#include "matmul_tile.h"

void matmul_forward(const matmul_forward_args *args) { multiply(args, 0, args->F); }
