// cpu_onednn.h: oneDNN (libdnnl), found when the program runs; mode tuned may choose its sgemm, or its
// matmul of bf16 data (cpu_onednn_matmul.h).
#ifndef STEPMARK_CPU_ONEDNN_H
#define STEPMARK_CPU_ONEDNN_H

#include <stdbool.h>
#include <stddef.h>

#include <dnnl.h>
#include <omp.h>

typedef struct {
    __typeof__(dnnl_sgemm) *sgemm;
    __typeof__(dnnl_version) *version;
} cpu_onednn_functions;

// What a thread that is about to call the library calls first, inside a parallel region: the library forks no threads
// of its own. (A region of one thread does not count as one for the library.)
static inline void cpu_onednn_one_thread(void) { omp_set_num_threads(1); }

// Valid after cpu_onednn_load() has returned true.
extern cpu_onednn_functions cpu_onednn;

// Loads the library, once; false: it is not installed.
bool cpu_onednn_load(void);

// The address of one of its functions as a function pointer of that size, in *function; false: it has none.
bool cpu_onednn_find(const char *name, void *function, size_t size_bytes);

// "oneDNN 2.6.3", or "no oneDNN".
void cpu_onednn_name(char *text, size_t size_bytes);

#endif
