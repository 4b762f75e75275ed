// cpu_kernel_zero.c: x = 0.
#include <string.h>

#include "cpu_kernel.h"

CPU_KERNEL(zero) {
    const int64_t elem_bytes = (int64_t)sm_dtype_size(op->out_tensor[0]->dtype);
    cpu_range mine = cpu_my_elems(team, sm_tensor_elems(op->out_tensor[0]));
    memset((char *)op->out[0] + mine.first * elem_bytes, 0, (size_t)((mine.end - mine.first) * elem_bytes));
}
