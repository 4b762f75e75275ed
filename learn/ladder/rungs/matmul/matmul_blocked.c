// matmul_blocked.c: tiles of 4 rows by 4 columns of y in registers, blocks of W in the L1 cache. (A `vec` is still one
// number.)
typedef float vec;
typedef float unaligned_vec;
enum { ROWS = 4, VECTORS = 4 };

#include "matmul_blocks.h"

void matmul_forward(const matmul_forward_args *args) { multiply(args); }
