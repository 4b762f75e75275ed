// swiglu.c: the gated linear unit and its derivative. A row of x (N,2F) is a gate (F), then up (F).
#include "backends/cpu/common/gate.h"
#include "backends/cpu/common/kernel.h"

// The sigmoids of the n elements of a gate, a block at most, which are widened to `wide`.
static inline const float *open_gate(const cpu_data *gate, int n, float *wide, float *opening) {
    const float *g = cpu_widened(gate, n, wide);
    const int whole = n / CPU_VECTOR * CPU_VECTOR;
    for (int i = 0; i < whole; i += CPU_VECTOR) {
        *(cpu_vector *)(opening + i) = cpu_sigmoid(*(const cpu_vector *)(g + i));
    }
    if (whole < n) {
        cpu_store_some(cpu_sigmoid(cpu_load_some(g + whole, n - whole)), n - whole, opening + whole);
    }
    return g;
}

// n elements of a row, a block at most.
static inline void forward_block(const cpu_data *gate, const cpu_data *up, int n, cpu_data *y) {
    float wide[CPU_BLOCK_ELEMS];
    float opening[CPU_BLOCK_ELEMS];
    float *result = cpu_gathered(y, opening);
    const float *g = open_gate(gate, n, wide, opening);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        result[i] = g[i] * opening[i] * cpu_widen(up[i]);
    }
    cpu_store_gathered(result, n, y);
}

CPU_KERNEL(swiglu_forward) {
    const cpu_data *x = op->in[SM_IN(swiglu_forward, x)];
    cpu_data *y = op->out[SM_OUT(swiglu_forward, y)];
    const int64_t F = sm_tensor_cols(op->out_tensor[SM_OUT(swiglu_forward, y)]);
    const int64_t n_rows = sm_tensor_rows(op->out_tensor[SM_OUT(swiglu_forward, y)]);
    const bool streams = cpu_leaves_caches(team, n_rows * F * (int64_t)sizeof *y);
    const cpu_range rows = cpu_my_rows(team, n_rows);
    cpu_data gathered[CPU_BLOCK_ELEMS];
    for (int64_t n = rows.first; n < rows.end; n++) {
        const cpu_data *gate = x + n * 2 * F;
        int64_t f = 0;
        for (; f + CPU_BLOCK_ELEMS <= F; f += CPU_BLOCK_ELEMS) {
            cpu_ask_for_block(gate + f + CPU_AHEAD_ELEMS);
            cpu_ask_for_block(gate + F + f + CPU_AHEAD_ELEMS);
            forward_block(gate + f, gate + F + f, CPU_BLOCK_ELEMS, streams ? gathered : y + n * F + f);
            if (streams) {
                cpu_store_past_caches(gathered, CPU_BLOCK_ELEMS, y + n * F + f);
            }
        }
        forward_block(gate + f, gate + F + f, (int)(F - f), y + n * F + f);
    }
    cpu_end_streams();
}

// n elements of a row, a block at most. up lies F after gate, and dup F after dgate, which may be gate.
static inline void backward_block(const cpu_data *dy, const cpu_data *gate, int64_t F, int n, cpu_data *dgate,
                                  cpu_data *dup) {
    const cpu_data *up = gate + F;
    float wide[CPU_BLOCK_ELEMS];
    float opening[CPU_BLOCK_ELEMS];
    float *dgate_result = cpu_gathered(dgate, wide);
    float *dup_result = cpu_gathered(dup, opening);
    const float *gates = open_gate(gate, n, wide, opening);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float g = gates[i];
        const float s = opening[i];
        const float d = cpu_widen(dy[i]);
        const float slope = s * (1.0f + g * (1.0f - s));
        dgate_result[i] = d * cpu_widen(up[i]) * slope;
        dup_result[i] = d * g * s;
    }
    cpu_store_gathered(dgate_result, n, dgate);
    cpu_store_gathered(dup_result, n, dup);
}

CPU_KERNEL(swiglu_backward) {
    const cpu_data *dy = op->in[SM_IN(swiglu_backward, dy)];
    const cpu_data *x = op->in[SM_IN(swiglu_backward, x)]; // may be dx itself
    cpu_data *dx = op->out[SM_OUT(swiglu_backward, dx)];
    const int64_t F = sm_tensor_cols(op->in_tensor[SM_IN(swiglu_backward, dy)]);
    const int64_t n_rows = sm_tensor_rows(op->in_tensor[SM_IN(swiglu_backward, dy)]);
    const bool streams = dx != x && cpu_leaves_caches(team, 2 * n_rows * F * (int64_t)sizeof *dx);
    const cpu_range rows = cpu_my_rows(team, n_rows);
    cpu_data gathered[2][CPU_BLOCK_ELEMS];
    for (int64_t n = rows.first; n < rows.end; n++) {
        const cpu_data *dy_row = dy + n * F;
        const cpu_data *gate = x + n * 2 * F;
        cpu_data *dgate = dx + n * 2 * F;
        int64_t f = 0;
        for (; f + CPU_BLOCK_ELEMS <= F; f += CPU_BLOCK_ELEMS) {
            cpu_ask_for_block(dy_row + f + CPU_AHEAD_ELEMS);
            cpu_ask_for_block(gate + f + CPU_AHEAD_ELEMS);
            cpu_ask_for_block(gate + F + f + CPU_AHEAD_ELEMS);
            backward_block(dy_row + f, gate + f, F, CPU_BLOCK_ELEMS, streams ? gathered[0] : dgate + f,
                           streams ? gathered[1] : dgate + F + f);
            if (streams) {
                cpu_store_past_caches(gathered[0], CPU_BLOCK_ELEMS, dgate + f);
                cpu_store_past_caches(gathered[1], CPU_BLOCK_ELEMS, dgate + F + f);
            }
        }
        backward_block(dy_row + f, gate + f, F, (int)(F - f), dgate + f, dgate + F + f);
    }
    cpu_end_streams();
}
