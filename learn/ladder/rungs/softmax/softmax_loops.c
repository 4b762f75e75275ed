// softmax_loops.c: two loops over a row: its largest number, then the sum of exp. The largest is subtracted, so that
// exp does not overflow.
#include <math.h>

#include "args_softmax.h"

void crossentropy_forward(const crossentropy_forward_args *args) {
    for (int64_t n = 0; n < args->N; n++) {
        const float *logits = args->logits + n * args->Vp;
        float largest = -INFINITY;
        float sum = 0;
        for (int64_t v = 0; v < args->V; v++) {
            largest = fmaxf(largest, logits[v]);
        }
        for (int64_t v = 0; v < args->V; v++) {
            sum += expf(logits[v] - largest);
        }
        args->lse[n] = largest + logf(sum);
        args->losses[n] = args->target[n] < 0 ? 0 : args->lse[n] - logits[args->target[n]];
    }
}
