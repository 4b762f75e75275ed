// attention_head.h: the addresses of a head's queries, keys and values in qkv, which has one row for each token. Heads
// of queries may share a head of keys and values.
#include <math.h>

#include "args_attention.h"

typedef struct {
    const float *q, *k, *v; // row 0
    float *y, *lse;
    int64_t to_next;   // row, of q, k and v
    int64_t to_next_y; // row, of y
    int64_t first;     // of the T * T weights: dropout's element index
    float scale;
} head;

// Head number i of all B * NH.
static inline head head_at(const flash_attention_forward_args *args, int64_t i) {
    const int64_t b = i / args->NH;
    const int64_t h = i % args->NH;
    const int64_t shared = h / (args->NH / args->NKV);
    const float *qkv = args->qkv + b * args->T * args->QKV;
    return (head){.q = qkv + h * args->HS,
                  .k = qkv + (args->NH + shared) * args->HS,
                  .v = qkv + (args->NH + args->NKV + shared) * args->HS,
                  .y = args->y + b * args->T * args->C + h * args->HS,
                  .lse = args->lse + i * args->T,
                  .to_next = args->QKV,
                  .to_next_y = args->C,
                  .first = i * args->T * args->T,
                  .scale = 1 / sqrtf((float)args->HS)};
}

// Dropout's factor on weight (t,s).
static inline float kept(const flash_attention_forward_args *args, const head *a, int64_t t, int64_t s) {
    return args->rng == NULL ? 1 : args->keep(args->rng, a->first + t * args->T + s);
}
