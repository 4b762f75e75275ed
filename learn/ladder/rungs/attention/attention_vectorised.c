// attention_vectorised.c: a `vec` has as many keys, or channels of a value, as the processor multiplies at once.
#include "vector_exp.h"

enum { ROWS = 8 };

#include "attention_tiles.h"

void flash_attention_forward(const flash_attention_forward_args *args) {
    const room r = make_room(args);
    for (int64_t i = 0; r.k != NULL && i < args->B * args->NH; i++) {
        attend_head(args, i, &r);
    }
    free(r.k);
}
