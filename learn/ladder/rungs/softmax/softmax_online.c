// softmax_online.c: one loop, with the largest number so far and the sum relative to it, which is rescaled when a
// larger number comes. So a row is read once.
#include <math.h>

#include "args_softmax.h"

void crossentropy_forward(const crossentropy_forward_args *args) {
    for (int64_t n = 0; n < args->N; n++) {
        const float *logits = args->logits + n * args->Vp;
        float largest = -INFINITY;
        float sum = 0;
        for (int64_t v = 0; v < args->V; v++) {
            if (logits[v] > largest) {
                sum *= expf(largest - logits[v]);
                largest = logits[v];
            }
            sum += expf(logits[v] - largest);
        }
        args->lse[n] = largest + logf(sum);
        args->losses[n] = args->target[n] < 0 ? 0 : args->lse[n] - logits[args->target[n]];
    }
}
