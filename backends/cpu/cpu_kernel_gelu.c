// cpu_kernel_gelu.c: GELU and its derivative, element by element.
#include "cpu_kernel.h"
#include "cpu_math.h"

CPU_KERNEL(gelu_forward) {
    const cpu_data *x = op->in[0];
    cpu_data *y = op->out[0];
    cpu_range mine = cpu_my_elems(team, sm_tensor_elems(op->in_tensor[0]));
#pragma omp simd
    for (int64_t i = mine.first; i < mine.end; i++) {
        y[i] = cpu_round(cpu_gelu(cpu_widen(x[i])));
    }
}

CPU_KERNEL(gelu_backward) {
    const cpu_data *dy = op->in[0]; // may be dx itself
    const cpu_data *x = op->in[1];
    cpu_data *dx = op->out[0];
    cpu_range mine = cpu_my_elems(team, sm_tensor_elems(op->in_tensor[0]));
#pragma omp simd
    for (int64_t i = mine.first; i < mine.end; i++) {
        dx[i] = cpu_round(cpu_widen(dy[i]) * cpu_gelu_derivative(cpu_widen(x[i])));
    }
}
