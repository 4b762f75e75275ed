// layernorm_threads.c: divides the rows among the threads.
#include "vector.h"

#include "layernorm_rows.h"

const int layernorm_forward_threads = 1;

void layernorm_forward(const layernorm_forward_args *args) {
    const int64_t end = args->N * (args->thread + 1) / args->n_threads;
    for (int64_t n = args->N * args->thread / args->n_threads; n < end; n++) {
        normalise_row(args, n);
    }
}
