// cpu_onednn.h: oneDNN (libdnnl), found when the program runs; mode tuned may choose its sgemm.
#ifndef STEPMARK_CPU_ONEDNN_H
#define STEPMARK_CPU_ONEDNN_H

#include <stdbool.h>
#include <stddef.h>

#include <dnnl.h>

typedef struct {
    __typeof__(dnnl_sgemm) *sgemm;
    __typeof__(dnnl_version) *version;
} cpu_onednn_functions;

// Valid after cpu_onednn_load() has returned true.
extern cpu_onednn_functions cpu_onednn;

// Loads the library, once; false: it is not installed.
bool cpu_onednn_load(void);

// "oneDNN 2.6.3", or "no oneDNN".
void cpu_onednn_name(char *text, size_t size_bytes);

#endif
