// residual.c: y = a + b. (With the layernorm that follows: kernels/layernorm.c.)
#include "backends/cpu/common/kernel.h"

CPU_KERNEL(residual) {
    const cpu_data *a = op->in[SM_IN(residual, a)]; // may be y itself
    const cpu_data *b = op->in[SM_IN(residual, b)];
    cpu_data *y = op->out[SM_OUT(residual, y)];
    cpu_range mine = cpu_my_elems(team, sm_tensor_elems(op->out_tensor[SM_OUT(residual, y)]));
#pragma omp simd
    for (int64_t i = mine.first; i < mine.end; i++) {
        y[i] = cpu_round(cpu_widen(a[i]) + cpu_widen(b[i]));
    }
}
