// zero.c: x = 0.

#include "backends/cpu/common/kernel.h"

// Stores past the caches, where the reader would not find it any more.
static void zero_past_caches(cpu_data *x, int64_t n) {
    enum { BLOCK_ELEMS = 1024 };
    static const cpu_data zeros[BLOCK_ELEMS];
    for (int64_t i = 0; i < n; i += BLOCK_ELEMS) {
        cpu_store_past_caches(zeros, cpu_min64(n - i, BLOCK_ELEMS), x + i);
    }
    cpu_end_streams();
}

CPU_KERNEL(zero) {
    const sm_tensor *x = op->out_tensor[SM_OUT(zero, x)];
    const int64_t elem_bytes = (int64_t)sm_dtype_size(x->dtype);
    const cpu_range mine = cpu_my_elems(team, sm_tensor_elems(x));
    char *first = (char *)op->out[SM_OUT(zero, x)] + mine.first * elem_bytes;
    const int64_t n_bytes = (mine.end - mine.first) * elem_bytes;
    if (cpu_leaves_caches(team, (int64_t)sm_tensor_bytes(x))) { // of any format: zeros have no bit set
        zero_past_caches((cpu_data *)(void *)first, n_bytes / (int64_t)sizeof(cpu_data));
    } else {
        memset(first, 0, (size_t)n_bytes);
    }
}
