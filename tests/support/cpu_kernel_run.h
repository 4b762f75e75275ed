// cpu_kernel_run.h: runs one op with a kernel of the cpu backend, on its own threads and with scratch that is NaN; if
// its weight can be packed ahead, again with that, for the same bits. And what tests of kernels compare with.
#pragma once

#include "tests/support/test.h"
#include "backends/cpu/cpu.h"

// All instruction sets; a processor lacks most of them.
static const char *const cpu_isa_names[] = {"baseline",  "avx2", "avx512", "avx512_bf16", "amx",
                                            "neon_bf16", "sme",  "rvv128", "rvv256",      "rvv512"};

static inline double gelu_of(double x) { return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

static inline double gelu_slope_of(double x) {
    double t = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

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

static inline void cpu_kernel_run_packed(cpu_kernel_run *r) {
    const host_op *op = r->op;
    size_t size_bytes = 0;
    int64_t n_units = 0;
    if (op->op->kind != SM_OP_MATMUL_BACKWARD_WEIGHT && r->kernels->ahead_units != NULL && r->team.n_threads > 2) {
        n_units = r->kernels->ahead_units(op, &size_bytes);
    }
    if (n_units == 0) {
        return;
    }
    void *outs[SM_MAX_OUT] = {NULL};
    void *packed = host_map(size_bytes);
    assert_non_null(packed);
    for (int i = 0; i < SM_MAX_OUT; i++) {
        if (op->out[i] != NULL) {
            outs[i] = sm_malloc(sm_tensor_bytes(op->out_tensor[i]));
            memcpy(outs[i], op->out[i], sm_tensor_bytes(op->out_tensor[i]));
        }
    }
    for (int64_t unit = 0; unit < n_units; unit++) {
        r->kernels->pack_ahead(op, packed, unit);
    }
    r->team.packed = packed;
    cpu_pool_run_once(r->team.pool, cpu_kernel_run_part, r);
    for (int i = 0; i < SM_MAX_OUT; i++) {
        if (outs[i] != NULL) {
            assert_memory_equal(outs[i], op->out[i], sm_tensor_bytes(op->out_tensor[i]));
            free(outs[i]);
        }
    }
    host_unmap(packed, size_bytes);
}

static inline void cpu_kernel_run_op(const cpu_kernel_table *kernels, const host_op *op, int n_threads) {
    enum { MOST_SCRATCHES = 8 };
    void *scratch[MOST_SCRATCHES];
    const cpu_scratch_bytes needs = kernels->scratch_bytes[op->op->kind];
    const size_t scratch_bytes = ((needs == NULL ? 1 : needs(op, n_threads)) + 4095) / 4096 * 4096;
    assert_true(n_threads <= MOST_SCRATCHES);
    for (int i = 0; i < n_threads; i++) {
        scratch[i] = aligned_alloc(4096, scratch_bytes);
        assert_true(scratch[i] != NULL || scratch_bytes == 0);
        memset(scratch[i], 0xFF, scratch_bytes); // NaN
    }
    SM_OWN(cpu_binding) *binding = NULL;
    SM_OWN(cpu_pool) *pool = NULL;
    assert_int_equal(cpu_binding_make(NULL, &n_threads, &binding), SM_OK);
    assert_int_equal(cpu_pool_make(n_threads, binding, &pool), SM_OK);
    cpu_kernel_run r = {kernels, op, {0, n_threads, scratch, NULL, pool, NULL}};
    cpu_pool_run_once(pool, cpu_kernel_run_part, &r);
    if (cpu_has_finish(kernels, op)) {
        cpu_pool_run_once(pool, cpu_kernel_finish_part, &r);
    }
    cpu_kernel_run_packed(&r);
    for (int i = 0; i < n_threads; i++) {
        free(scratch[i]);
    }
}
