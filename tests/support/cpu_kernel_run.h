// cpu_kernel_run.h: runs one op with a kernel of the cpu backend, on its own threads.
#ifndef STEPMARK_TESTS_CPU_KERNEL_RUN_H
#define STEPMARK_TESTS_CPU_KERNEL_RUN_H

#include "backends/cpu/common/kernel.h"

typedef struct {
    const cpu_kernel_table *kernels;
    const host_op *op;
    cpu_team team;
} cpu_kernel_run;

static inline void cpu_kernel_run_part(void *ctx, int part) {
    const cpu_kernel_run *r = ctx;
    cpu_team team = r->team;
    team.thread = part;
    r->kernels->run[r->op->op->kind](r->op, &team);
}

static inline void cpu_kernel_finish_part(void *ctx, int part) {
    const cpu_kernel_run *r = ctx;
    cpu_team team = r->team;
    team.thread = part;
    r->kernels->finish[r->op->op->kind](r->op, &team);
}

static inline void cpu_kernel_run_op(const cpu_kernel_table *kernels, const host_op *op, int n_threads,
                                     void *const *scratch) {
    SM_OWN(cpu_binding) *binding = NULL;
    SM_OWN(cpu_pool) *pool = NULL;
    assert_int_equal(cpu_binding_make(NULL, &n_threads, &binding), SM_OK);
    assert_int_equal(cpu_pool_make(n_threads, binding, &pool), SM_OK);
    cpu_kernel_run r = {kernels, op, {0, n_threads, scratch, NULL, pool}};
    cpu_pool_run_once(pool, cpu_kernel_run_part, &r);
    if (cpu_has_finish(kernels, op)) {
        cpu_pool_run_once(pool, cpu_kernel_finish_part, &r);
    }
}

#endif
