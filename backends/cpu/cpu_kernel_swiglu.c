// cpu_kernel_swiglu.c: the gated linear unit and its derivative. A row of x (N,2F) is a gate (F), then up (F).
#include "cpu_kernel.h"
#include "cpu_math.h"

CPU_KERNEL(swiglu_forward) {
    const int64_t F = sm_tensor_cols(op->out_tensor[SM_OUT(swiglu_forward, y)]);
    const cpu_range rows = cpu_my_rows(team, sm_tensor_rows(op->out_tensor[SM_OUT(swiglu_forward, y)]));
    for (int64_t n = rows.first; n < rows.end; n++) {
        const cpu_data *gate = (const cpu_data *)op->in[SM_IN(swiglu_forward, x)] + n * 2 * F;
        const cpu_data *up = gate + F;
        cpu_data *y = (cpu_data *)op->out[SM_OUT(swiglu_forward, y)] + n * F;
#pragma omp simd
        for (int64_t f = 0; f < F; f++) {
            const float g = cpu_widen(gate[f]);
            y[f] = cpu_round(g * cpu_sigmoid(g) * cpu_widen(up[f]));
        }
    }
}

CPU_KERNEL(swiglu_backward) {
    const int64_t F = sm_tensor_cols(op->in_tensor[SM_IN(swiglu_backward, dy)]);
    const cpu_range rows = cpu_my_rows(team, sm_tensor_rows(op->in_tensor[SM_IN(swiglu_backward, dy)]));
    for (int64_t n = rows.first; n < rows.end; n++) {
        const cpu_data *dy = (const cpu_data *)op->in[SM_IN(swiglu_backward, dy)] + n * F;
        const cpu_data *gate = (const cpu_data *)op->in[SM_IN(swiglu_backward, x)] + n * 2 * F; // may be dgate itself
        const cpu_data *up = gate + F;
        cpu_data *dgate = (cpu_data *)op->out[SM_OUT(swiglu_backward, dx)] + n * 2 * F;
        cpu_data *dup = dgate + F;
#pragma omp simd
        for (int64_t f = 0; f < F; f++) {
            const float g = cpu_widen(gate[f]);
            const float s = cpu_sigmoid(g);
            const float d = cpu_widen(dy[f]);
            const float slope = s * (1.0f + g * (1.0f - s));
            dgate[f] = cpu_round(d * cpu_widen(up[f]) * slope);
            dup[f] = cpu_round(d * g * s);
        }
    }
}
