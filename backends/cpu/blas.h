// blas.h: OpenBLAS, loaded when a plan calls it: on the baseline, for attention without flash attention, and as a
// candidate of mode tuned. It is not linked: while it is loaded it takes memory for every processor, which is not there
// under every limit.
#ifndef STEPMARK_BACKENDS_CPU_BLAS_H
#define STEPMARK_BACKENDS_CPU_BLAS_H

#include "backends/cpu/cpu.h"

// Declared as the library's binary has them, so that none of its headers is needed to build.
enum { CPU_BLAS_ROW_MAJOR = 101, CPU_BLAS_PLAIN = 111, CPU_BLAS_TRANSPOSED = 112 };
typedef struct {
    void (*sgemm)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
    char *(*config)(void);
    char *(*core_name)(void);
    int (*parallel)(void);
    void (*set_num_threads)(int n_threads);
} cpu_blas_functions;

// Valid after cpu_blas_load() has returned true.
extern cpu_blas_functions cpu_blas;

// Loads the library, once; false: it is not installed. It takes kernels that leave out nothing of what the processor
// has, where it has such: whatever OPENBLAS_CORETYPE says, but for `keep_env`.
bool cpu_blas_load(bool keep_env);

// Loads the library where a plan calls it, and has the device say so: driver, core, warnings. SM_ERR_UNSUPPORTED where
// it is missing, and the plan cannot do without it.
sm_status cpu_blas_prepare(cpu_device *device, const sm_plan *plan);

#endif
