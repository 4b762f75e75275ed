// activation.c: the functions of include/activation.h and their derivatives, element by element.
#include "backends/cpu/common/gate.h"
#include "backends/cpu/common/kernel.h"

// n elements, a block at most.
static inline void forward_block(sm_activation activation, const cpu_data *x, int n, cpu_data *y) {
    float room[CPU_BLOCK_ELEMS];
    float *result = cpu_gathered(y, room);
    cpu_activate_row(activation, cpu_widened(x, n, room), n, result);
    cpu_store_gathered(result, n, y);
}

CPU_ALWAYS_INLINE void forward(sm_activation activation, const host_op *op, const cpu_team *team) {
    const cpu_data *x = op->in[SM_IN(gelu_forward, x)];
    cpu_data *y = op->out[SM_OUT(gelu_forward, y)];
    const int64_t n_elems = sm_tensor_elems(op->in_tensor[SM_IN(gelu_forward, x)]);
    const bool streams = cpu_leaves_caches(team, n_elems * (int64_t)sizeof *y);
    const cpu_range mine = cpu_my_elems(team, n_elems);
    cpu_data gathered[CPU_BLOCK_ELEMS];
    int64_t i = mine.first;
    for (; i + CPU_BLOCK_ELEMS <= mine.end; i += CPU_BLOCK_ELEMS) {
        cpu_ask_for_block(x + i + CPU_AHEAD_ELEMS);
        forward_block(activation, x + i, CPU_BLOCK_ELEMS, streams ? gathered : y + i);
        if (streams) {
            cpu_store_past_caches(gathered, CPU_BLOCK_ELEMS, y + i);
        }
    }
    forward_block(activation, x + i, (int)(mine.end - i), y + i);
    cpu_end_streams();
}

static inline void backward_block(sm_activation activation, const cpu_data *dy, const cpu_data *x, int n, cpu_data *dx) {
    float room[CPU_BLOCK_ELEMS];
    float wide[CPU_BLOCK_ELEMS];
    float *result = cpu_gathered(dx, room);
    for (int i = 0; i < n; i++) {
        result[i] = cpu_widen(dy[i]);
    }
    cpu_activation_slope_row(activation, cpu_widened(x, n, wide), n, result);
    cpu_store_gathered(result, n, dx);
}

CPU_ALWAYS_INLINE void backward(sm_activation activation, const host_op *op, const cpu_team *team) {
    const cpu_data *dy = op->in[SM_IN(gelu_backward, dy)]; // may be dx itself
    const cpu_data *x = op->in[SM_IN(gelu_backward, x)];
    cpu_data *dx = op->out[SM_OUT(gelu_backward, dx)];
    const cpu_range mine = cpu_my_elems(team, sm_tensor_elems(op->in_tensor[SM_IN(gelu_backward, dy)]));
    int64_t i = mine.first;
    for (; i + CPU_BLOCK_ELEMS <= mine.end; i += CPU_BLOCK_ELEMS) {
        cpu_ask_for_block(dy + i + CPU_AHEAD_ELEMS);
        cpu_ask_for_block(x + i + CPU_AHEAD_ELEMS);
        backward_block(activation, dy + i, x + i, CPU_BLOCK_ELEMS, dx + i);
    }
    backward_block(activation, dy + i, x + i, (int)(mine.end - i), dx + i);
}

CPU_KERNEL(gelu_forward) { forward(SM_ACTIVATION_GELU, op, team); }
CPU_KERNEL(gelu_backward) { backward(SM_ACTIVATION_GELU, op, team); }

#define X(CODE, name, f, slope)                                               \
    CPU_KERNEL(name##_forward) { forward(SM_ACTIVATION_##CODE, op, team); }   \
    CPU_KERNEL(name##_backward) { backward(SM_ACTIVATION_##CODE, op, team); }
SM_ACTIVATION_PAIRS(X)
