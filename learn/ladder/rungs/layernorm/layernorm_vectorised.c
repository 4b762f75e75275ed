// layernorm_vectorised.c: a `vec` has as many numbers as the processor adds at once.
#include "vector.h"

#include "layernorm_rows.h"

void layernorm_forward(const layernorm_forward_args *args) {
    for (int64_t n = 0; n < args->N; n++) {
        normalise_row(args, n);
    }
}
