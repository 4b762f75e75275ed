// cpu_kernel_gelu.c: GELU and its derivative, element by element.
#include "cpu_kernel.h"
#include "cpu_math.h"

CPU_KERNEL(gelu_forward) {
    const float *x = op->in[0];
    float *y = op->out[0];
    cpu_range mine = cpu_my_elems(team, sm_tensor_elems(op->in_tensor[0]));
#pragma omp simd
    for (int64_t i = mine.first; i < mine.end; i++) {
        y[i] = cpu_gelu(x[i]);
    }
}

CPU_KERNEL(gelu_backward) {
    const float *dy = op->in[0]; // may be dx itself
    const float *x = op->in[1];
    float *dx = op->out[0];
    cpu_range mine = cpu_my_elems(team, sm_tensor_elems(op->in_tensor[0]));
#pragma omp simd
    for (int64_t i = mine.first; i < mine.end; i++) {
        dx[i] = dy[i] * cpu_gelu_derivative(x[i]);
    }
}
