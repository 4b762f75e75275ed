// blas.h: OpenBLAS, loaded when a plan needs it: where it was asked for, on the baseline, for attention without flash
// attention, and as a candidate of mode tuned. It is not linked, because it allocates memory for every processor when
// loaded, which some limits do not allow.
#pragma once

#include "backends/cpu/cpu.h"

// Declared as in the library's binary, so that building needs none of its headers.
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

// Loads the library once; false: it is not installed. Without `keep_env`, it gets kernels that use all features of the
// processor, if it has such, whatever OPENBLAS_CORETYPE says.
bool cpu_blas_load(bool keep_env);

// Loads the library if a plan needs it, and records it in the device: driver, core, warnings. SM_ERR_UNSUPPORTED if it
// is missing and the plan needs it.
sm_status cpu_blas_prepare(cpu_device *device, const sm_plan *plan);
