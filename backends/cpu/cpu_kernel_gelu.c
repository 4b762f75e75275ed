// cpu_kernel_gelu.c: GELU and its derivative, element by element.
#include "cpu_kernel.h"
#include "cpu_math.h"

CPU_KERNEL(gelu_forward) {
    const cpu_data *x = op->in[SM_IN(gelu_forward, x)];
    cpu_data *y = op->out[SM_OUT(gelu_forward, y)];
    cpu_range mine = cpu_my_elems(team, sm_tensor_elems(op->in_tensor[SM_IN(gelu_forward, x)]));
    float room[CPU_BLOCK_ELEMS];
    for (int64_t first = mine.first; first < mine.end; first += CPU_BLOCK_ELEMS) {
        const int64_t n = cpu_min64(mine.end - first, CPU_BLOCK_ELEMS);
        const float *wide = cpu_widened(x + first, n, room);
        float *result = cpu_gathered(y + first, room);
        cpu_ask_for_block(x + first);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            result[i] = cpu_gelu(wide[i]);
        }
        cpu_store_gathered(result, n, y + first);
    }
}

CPU_KERNEL(gelu_backward) {
    const cpu_data *dy = op->in[SM_IN(gelu_backward, dy)]; // may be dx itself
    const cpu_data *x = op->in[SM_IN(gelu_backward, x)];
    cpu_data *dx = op->out[SM_OUT(gelu_backward, dx)];
    cpu_range mine = cpu_my_elems(team, sm_tensor_elems(op->in_tensor[SM_IN(gelu_backward, dy)]));
#pragma omp simd
    for (int64_t i = mine.first; i < mine.end; i++) {
        dx[i] = cpu_round(cpu_widen(dy[i]) * cpu_gelu_derivative(cpu_widen(x[i])));
    }
}
