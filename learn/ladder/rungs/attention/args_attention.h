// args_attention.h: what flash_attention_forward is given, as `stepmark exercise flash_attention_forward --init DIR`
// writes it.
#include <stdint.h>

typedef struct {
    int64_t B;
    int64_t T;
    int64_t QKV;
    int64_t C;
    int64_t NH;
    int64_t NKV; // heads of keys and values; NH / NKV heads of queries, side by side, share one
    int64_t HS;  // channels of a head
    float (*keep)(const void *rng, int64_t element); // dropout: what it multiplies that element by
    const void *rng;
    const float *qkv;      // (B,T,QKV)
    const int32_t *starts; // (B,T); NULL where it is left out
    float *y;              // (B,T,C)  written: what it held does not count
    float *lse;            // (B,NH,T)  written: what it held does not count
    int64_t thread;
    int64_t n_threads;
} flash_attention_forward_args;

const char flash_attention_forward_signature[] = "1 B T QKV C NH NKV HS keep rng qkv starts y lse thread n_threads";
