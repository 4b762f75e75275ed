// args_softmax.h: what crossentropy_forward is given, as `stepmark exercise crossentropy_forward --init DIR` writes it.
#include <stdint.h>

typedef struct {
    int64_t N;
    int64_t Vp;
    int64_t V;             // columns that count; those from V to Vp are padding
    const float *logits;   // (N,Vp)
    const int32_t *target; // (N)
    float *losses;         // (N)  written: what it held does not count
    float *lse;            // (N)  written: what it held does not count
    int64_t thread;
    int64_t n_threads;
} crossentropy_forward_args;

const char crossentropy_forward_signature[] = "1 N Vp V logits target losses lse thread n_threads";
