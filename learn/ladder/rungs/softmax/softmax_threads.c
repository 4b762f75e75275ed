// softmax_threads.c: divides the rows among the threads.
#include "softmax_rows.h"

const int crossentropy_forward_threads = 1;

void crossentropy_forward(const crossentropy_forward_args *args) {
    const int64_t end = args->N * (args->thread + 1) / args->n_threads;
    for (int64_t n = args->N * args->thread / args->n_threads; n < end; n++) {
        lose_row(args, n);
    }
}
