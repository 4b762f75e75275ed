// cpu_kernel_zero.c: x = 0.
#include <string.h>

#include "cpu_kernel.h"

CPU_KERNEL(zero) {
    float *x = op->out[0];
    cpu_range mine = cpu_my_elems(team, sm_tensor_elems(op->out_tensor[0]));
    memset(x + mine.first, 0, (size_t)(mine.end - mine.first) * sizeof *x);
}
