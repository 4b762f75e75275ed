// args_layernorm.h: what layernorm_forward is given, as `stepmark exercise layernorm_forward --init DIR` writes it.
#include <stdint.h>

typedef struct {
    int64_t N;
    int64_t C;
    double eps;       // added to the variance
    const float *x;   // (N,C)
    const float *w;   // (C)
    const float *b;   // (C)
    const float *add; // (N,C); NULL where it is left out
    float *y;         // (N,C)  written: what it held does not count
    float *mean;      // (N)  written: what it held does not count
    float *rstd;      // (N)  written: what it held does not count
    float *r;         // (N,C)  written: what it held does not count; NULL where it is left out; may lie where x lies
    int64_t thread;
    int64_t n_threads;
} layernorm_forward_args;

const char layernorm_forward_signature[] = "1 N C eps x w b add y mean rstd r thread n_threads";
