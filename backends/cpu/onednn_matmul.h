// onednn_matmul.h: a matmul of bf16 data by oneDNN's matmul primitives, which are made before the step.
//
// The result is divided into one rectangle for each thread (common/rectangle.h). A weight's gradient, which is float,
// takes one call. A result to be rounded is computed as floats, a panel at a time, so that its epilogue finds it in a
// cache. Threads share nothing.
#ifndef STEPMARK_BACKENDS_CPU_ONEDNN_MATMUL_H
#define STEPMARK_BACKENDS_CPU_ONEDNN_MATMUL_H

#include "backends/cpu/common/rectangle.h"

enum {
    CPU_ONEDNN_PANEL_ROWS = 512, // of a result that will be rounded
    CPU_ONEDNN_PANEL_COLS = 1024,
    CPU_ONEDNN_PANEL_BYTES = CPU_ONEDNN_PANEL_ROWS * CPU_ONEDNN_PANEL_COLS * 4,
    CPU_ONEDNN_SCRATCH_BYTES = 16 << 20, // for each thread: a panel, then the library's scratchpad
};

typedef struct cpu_onednn_matmul cpu_onednn_matmul;

// Whether the installed library has all functions used here. Call it before threads are started.
bool cpu_onednn_matmul_load(void);

// The primitives for a team of n_threads and that op's shape; the op's addresses are not used. NULL if the library has
// none for this processor and shape, or none with little enough scratch.
cpu_onednn_matmul *cpu_onednn_matmul_make(const host_op *op, int n_threads);
void cpu_onednn_matmul_free(cpu_onednn_matmul *matmul);

// One part of c, 0 .. n_threads-1 of its team: empty, or its rectangle and the size of its panels.
typedef struct {
    cpu_rectangle mine;
    int64_t panel_rows;
    int64_t panel_cols;
} cpu_onednn_cut;
cpu_onednn_cut cpu_onednn_matmul_cut(const cpu_onednn_matmul *matmul, int part);
int cpu_onednn_matmul_n_parts(const cpu_onednn_matmul *matmul);

// Computes one panel of a part, n_rows by n_cols, from operands that start at a and b: into c, whose rows are
// panel_cols apart if the result will be rounded, otherwise those of the whole result. `scratch` is the thread's; only
// one thread at a time computes a part.
void cpu_onednn_matmul_run(const cpu_onednn_matmul *matmul, int part, int64_t n_rows, int64_t n_cols, const void *a,
                           const void *b, float *c, void *scratch);

#endif
