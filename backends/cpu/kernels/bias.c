// bias.c: y = x + b, and db += sum of dy over the rows.

#include "backends/cpu/common/kernel.h"

CPU_KERNEL(bias_forward) {
    const cpu_data *x = op->in[SM_IN(bias_forward, x)]; // may be y itself
    const float *b = op->in[SM_IN(bias_forward, b)];
    cpu_data *y = op->out[SM_OUT(bias_forward, y)];
    int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(bias_forward, x)]);
    cpu_range rows = cpu_my_rows(team, sm_tensor_rows(op->in_tensor[SM_IN(bias_forward, x)]));
    for (int64_t n = rows.first; n < rows.end; n++) {
#pragma omp simd
        for (int64_t c = 0; c < C; c++) {
            y[n * C + c] = cpu_round(cpu_widen(x[n * C + c]) + b[c]);
        }
    }
}

CPU_SCRATCH(bias_backward) { return (size_t)sm_tensor_cols(op->in_tensor[SM_IN(bias_backward, dy)]) * sizeof(float); }

// Four rows at a time.
void BASE_ISA(cpu_sum_my_rows)(const host_op *op, int in, int64_t offset_elems, const cpu_team *team) {
    const cpu_data *dy = op->in[in];
    float *partial = (float *)team->scratch[team->thread] + offset_elems;
    const int64_t C = sm_tensor_cols(op->in_tensor[in]);
    const cpu_range rows = cpu_my_rows(team, sm_tensor_rows(op->in_tensor[in]));
    memset(partial, 0, (size_t)C * sizeof *partial);
    int64_t n = rows.first;
    for (; n + 4 <= rows.end; n += 4) {
        const cpu_data *row = dy + n * C;
#pragma omp simd
        for (int64_t c = 0; c < C; c++) {
            partial[c] +=
                (cpu_widen(row[c]) + cpu_widen(row[C + c])) + (cpu_widen(row[2 * C + c]) + cpu_widen(row[3 * C + c]));
        }
    }
    for (; n < rows.end; n++) {
#pragma omp simd
        for (int64_t c = 0; c < C; c++) {
            partial[c] += cpu_widen(dy[n * C + c]);
        }
    }
}

// Each part sums its rows into its scratch; then each adds up a range of columns.
CPU_KERNEL(bias_backward) { BASE_ISA(cpu_sum_my_rows)(op, SM_IN(bias_backward, dy), 0, team); }

CPU_FINISH(bias_backward) {
    const int64_t C = sm_tensor_cols(op->in_tensor[SM_IN(bias_backward, dy)]);
    cpu_add_partials(team, 0, C, op->out[SM_OUT(bias_backward, db)]);
}
