// onednn_matmul.h: a matrix product of bf16 data by oneDNN's matmul primitives, which are made before the step.
//
// The result is cut into one rectangle a thread (common/rectangle.h). A thread computes a weight's gradient, which is
// float, in one call. A result that will be rounded is computed as floats, a panel at a time, so that what
// is done to it before it is rounded finds it in a cache. Threads share nothing.
#ifndef STEPMARK_BACKENDS_CPU_ONEDNN_MATMUL_H
#define STEPMARK_BACKENDS_CPU_ONEDNN_MATMUL_H

#include "backends/cpu/common/rectangle.h"

enum {
    CPU_ONEDNN_PANEL_ROWS = 512, // of a result that will be rounded
    CPU_ONEDNN_PANEL_COLS = 1024,
    CPU_ONEDNN_PANEL_BYTES = CPU_ONEDNN_PANEL_ROWS * CPU_ONEDNN_PANEL_COLS * 4,
    CPU_ONEDNN_SCRATCH_BYTES = 16 << 20, // of every thread: a panel, and then what the library works in
};

typedef struct cpu_onednn_matmul cpu_onednn_matmul;

// Does the installed library have what is called here? Called before any threads are.
bool cpu_onednn_matmul_load(void);

// The primitives of a team of n_threads for that op's shape; its addresses are not looked at. NULL where the library
// has none for this processor and shape, or none that works in so much scratch.
cpu_onednn_matmul *cpu_onednn_matmul_make(const host_op *op, int n_threads);
void cpu_onednn_matmul_free(cpu_onednn_matmul *matmul);

// One part of c, 0 .. n_threads-1 of the team that it was made for: empty, or its rectangle and the size of its panels.
typedef struct {
    cpu_rectangle mine;
    int64_t panel_rows;
    int64_t panel_cols;
} cpu_onednn_cut;
cpu_onednn_cut cpu_onednn_matmul_cut(const cpu_onednn_matmul *matmul, int part);
int cpu_onednn_matmul_n_parts(const cpu_onednn_matmul *matmul);

// Computes one panel of a part, n_rows by n_cols, whose operands start at a and b: into c, whose rows are panel_cols
// apart where the result will be rounded, else those of the whole result. `scratch` is the thread's, and a part is
// computed by one thread at a time.
void cpu_onednn_matmul_run(const cpu_onednn_matmul *matmul, int part, int64_t n_rows, int64_t n_cols, const void *a,
                           const void *b, float *c, void *scratch);

#endif
