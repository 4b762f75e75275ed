// args_layernorm.h: what layernorm_forward is given, as `stepmark exercise layernorm_forward --init DIR` writes it.
#ifndef STEPMARK_LEARN_LADDER_RUNGS_LAYERNORM_ARGS_LAYERNORM_H
#define STEPMARK_LEARN_LADDER_RUNGS_LAYERNORM_ARGS_LAYERNORM_H

#include <stdint.h>

typedef struct {
    int64_t N;
    int64_t C;
    double eps;     // added to the variance
    const float *x; // (N,C)
    const float *w; // (C)
    const float *b; // (C)
    float *y;       // (N,C)  written: what it held does not count
    float *mean;    // (N)  written: what it held does not count
    float *rstd;    // (N)  written: what it held does not count
    int64_t thread;
    int64_t n_threads;
} layernorm_forward_args;

const char layernorm_forward_signature[] = "1 N C eps x w b y mean rstd thread n_threads";

#endif
