// attention_threads.c: divides the heads among the threads.
#include "vector_exp.h"

enum { ROWS = 8 };

#include "attention_tiles.h"

const int flash_attention_forward_threads = 1;

void flash_attention_forward(const flash_attention_forward_args *args) {
    const int64_t n_heads = args->B * args->NH;
    const room r = make_room(args);
    for (int64_t i = n_heads * args->thread / args->n_threads;
         r.k != NULL && i < n_heads * (args->thread + 1) / args->n_threads; i++) {
        attend_head(args, i, &r);
    }
    free(r.k);
}
