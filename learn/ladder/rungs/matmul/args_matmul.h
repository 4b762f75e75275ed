// args_matmul.h: what matmul_forward is given, as `stepmark exercise matmul_forward --init DIR` writes it.
#include <stdint.h>

typedef struct {
    int64_t N;
    int64_t C;
    int64_t F;
    int64_t w_transposed; // 1: the matrix is stored with rows and columns exchanged
    const float *x;       // (N,C)
    const float *W;       // (C,F), exchanged where w_transposed
    const float *b;       // (F); NULL where it is left out
    float *y;             // (N,F)  written: what it held does not count
    float *act;           // (N,F)  written: what it held does not count; NULL where it is left out
    int64_t thread;
    int64_t n_threads;
} matmul_forward_args;

const char matmul_forward_signature[] = "1 N C F w_transposed x W b y act thread n_threads";
