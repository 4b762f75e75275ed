// cpu_kernel_residual.c: y = a + b. (With the layernorm that follows: cpu_kernel_layernorm.c.)
#include "cpu_kernel.h"

CPU_KERNEL(residual) {
    const cpu_data *a = op->in[0]; // may be y itself
    const cpu_data *b = op->in[1];
    cpu_data *y = op->out[0];
    cpu_range mine = cpu_my_elems(team, sm_tensor_elems(op->out_tensor[0]));
#pragma omp simd
    for (int64_t i = mine.first; i < mine.end; i++) {
        y[i] = cpu_round(cpu_widen(a[i]) + cpu_widen(b[i]));
    }
}
