// cpu_kernel_swiglu.c: the gated linear unit and its derivative. A row of x (N,2F) is a gate (F), then up (F).
#include "cpu_kernel.h"
#include "cpu_math.h"

// n elements of a row, a block at most.
static inline void forward_block(const cpu_data *gate, const cpu_data *up, int64_t n, cpu_data *y) {
    float room[CPU_BLOCK_ELEMS];
    float *result = cpu_gathered(y, room);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float g = cpu_widen(gate[i]);
        result[i] = g * cpu_sigmoid(g) * cpu_widen(up[i]);
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
        forward_block(gate + f, gate + F + f, F - f, y + n * F + f);
    }
    cpu_end_streams();
}

// n elements of a row, a block at most. up lies F behind gate, and dup behind dgate, which may be gate.
static inline void backward_block(const cpu_data *dy, const cpu_data *gate, int64_t F, int64_t n, cpu_data *dgate,
                                  cpu_data *dup) {
    const cpu_data *up = gate + F;
    float rooms[2][CPU_BLOCK_ELEMS];
    float *dgate_result = cpu_gathered(dgate, rooms[0]);
    float *dup_result = cpu_gathered(dup, rooms[1]);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float g = cpu_widen(gate[i]);
        const float s = cpu_sigmoid(g);
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
        backward_block(dy_row + f, gate + f, F, F - f, dgate + f, dgate + F + f);
    }
    cpu_end_streams();
}
