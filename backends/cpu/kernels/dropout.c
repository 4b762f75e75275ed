// dropout.c: y = x times 0 or 1/(1 - p), drawn by Philox (philox.h).
#include "backends/cpu/common/kernel.h"
#include "backends/cpu/common/math.h"

CPU_KERNEL(dropout) {
    enum { BLOCK_ELEMS = 4 * CPU_PHILOX_LANES };
    const cpu_data *x = op->in[SM_IN(dropout, x)]; // may be y itself
    cpu_data *y = op->out[SM_OUT(dropout, y)];
    cpu_dropout_rule rule =
        cpu_dropout_make(op->op->attr.dropout_p, op->op->attr.rng_key, op->in[SM_IN(dropout, rng_step)]);
    cpu_range mine =
        cpu_split(sm_tensor_elems(op->in_tensor[SM_IN(dropout, x)]), BLOCK_ELEMS, team->thread, team->n_threads);
    float factors[BLOCK_ELEMS];
    for (int64_t first = mine.first; first < mine.end; first += BLOCK_ELEMS) {
        int64_t count = mine.end - first < BLOCK_ELEMS ? mine.end - first : BLOCK_ELEMS;
        cpu_dropout_factors(&rule, (uint64_t)first, count, factors);
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
            y[first + i] = cpu_round(cpu_widen(x[first + i]) * factors[i]);
        }
    }
}
