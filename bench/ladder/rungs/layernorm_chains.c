// layernorm_chains.c: four sums side by side: an addition need not wait for the one before. (A `vec` is one number
// yet.)
typedef float vec;
typedef float unaligned_vec;

#include "layernorm_rows.h"

void layernorm_forward(const layernorm_forward_args *args) {
    for (int64_t n = 0; n < args->N; n++) {
        normalise_row(args, n);
    }
}
