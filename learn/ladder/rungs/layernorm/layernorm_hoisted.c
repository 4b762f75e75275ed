// layernorm_hoisted.c: values that are the same for all elements of a row are computed once: one division for each row,
// not for each element.
typedef float vec;
typedef float unaligned_vec;

#include "layernorm_rows.h"

void layernorm_forward(const layernorm_forward_args *args) {
    for (int64_t n = 0; n < args->N; n++) {
        normalise_row(args, n);
    }
}
