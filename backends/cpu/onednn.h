// onednn.h: oneDNN (libdnnl), loaded at run time; mode tuned may choose its sgemm, or its matmul of bf16 data
// (cpu/onednn_matmul.h). Its functions are declared as in the binaries of versions 2 and 3, so that building needs none
// of its headers.
#ifndef STEPMARK_BACKENDS_CPU_ONEDNN_H
#define STEPMARK_BACKENDS_CPU_ONEDNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <omp.h>

typedef struct {
    int major;
    int minor;
    int patch; // followed by fields that are not read here
} cpu_onednn_version;

typedef struct {
    int (*sgemm)(char a_transposed, char b_transposed, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                 int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
    const cpu_onednn_version *(*version)(void);
} cpu_onednn_functions;

// Call it in a thread before the library's functions: prevents the library's own threads.
static inline void cpu_onednn_one_thread(void) { omp_set_num_threads(1); }

// Valid after cpu_onednn_load() has returned true.
extern cpu_onednn_functions cpu_onednn;

// Loads the library once; false: it is not installed, or its version is not 2 or 3.
bool cpu_onednn_load(void);

// The address of one of its functions as a function pointer of that size, in *function; false: not found.
bool cpu_onednn_find(const char *name, void *function, size_t size_bytes);

// "oneDNN 2.6.3", or "no oneDNN".
void cpu_onednn_name(char *text, size_t size_bytes);

#endif
