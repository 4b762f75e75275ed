// cpu_kernel_zero.c: x = 0.
#include <string.h>

#include "cpu_kernel.h"

CPU_KERNEL(zero) {
    const int64_t elem_bytes = (int64_t)sm_dtype_size(op->out_tensor[SM_OUT(zero, x)]->dtype);
    cpu_range mine = cpu_my_elems(team, sm_tensor_elems(op->out_tensor[SM_OUT(zero, x)]));
    memset((char *)op->out[SM_OUT(zero, x)] + mine.first * elem_bytes, 0,
           (size_t)((mine.end - mine.first) * elem_bytes));
}
