// cpu_execute.c: runs a range of a plan inside one parallel region.
//
// All threads walk the ops in order; each does its part of an op and waits for the others.
// Nothing forks or joins per op, and BLAS is only ever called serially, by each thread on its
// own part.
#include <omp.h>
#include <stdlib.h>

#include "cpu.h"
#include "cpu_blas.h"
#include "cpu_denormals.h"
#include "cpu_onednn_matmul.h"
#include "cpu_tuning.h"

enum { PAGE_BYTES = 4096 };

// The most that any op asks of one thread, in whole pages.
static size_t largest_scratch(const cpu_kernel_table *kernels, const sm_plan *plan, int n_threads) {
    const bool calls_matmul = plan->tuned && plan->dtype == SM_BF16 && cpu_onednn_matmul_load();
    size_t most_bytes = calls_matmul ? CPU_ONEDNN_SCRATCH_BYTES : 1;
    for (int i = 0; i < plan->n_ops; i++) {
        const host_op op = host_describe_op(plan, &plan->ops[i]);
        cpu_scratch_bytes needs = kernels->scratch_bytes[op.op->kind];
        size_t size_bytes = needs == NULL ? 0 : needs(&op, n_threads);
        most_bytes = size_bytes > most_bytes ? size_bytes : most_bytes;
    }
    return (most_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

size_t cpu_working_bytes(const sm_device *device, const sm_plan *plan) {
    const int n_threads = device->info.n_threads;
    const cpu_kernel_table *kernels = cpu_kernels_for(((const cpu_device *)device)->isa, plan);
    return (size_t)n_threads * largest_scratch(kernels, plan, n_threads);
}

static sm_status allocate_scratch(cpu_executable *e, const sm_plan *plan) {
    e->scratch_bytes = largest_scratch(e->kernels, plan, e->n_threads);
    e->scratch = calloc((size_t)e->n_threads, sizeof *e->scratch);
    if (e->scratch == NULL) {
        return sm_fail(SM_ERR_OOM, "cpu: no memory for a list of %d scratch areas", e->n_threads);
    }
    // The plan's own memory was just promised, and still counts as available.
    double needed_bytes = (double)e->memory.total_bytes + (double)e->n_threads * (double)e->scratch_bytes;
    size_t available_bytes = host_available_bytes();
    bool done = (available_bytes == 0 || needed_bytes <= (double)available_bytes);
    for (int i = 0; done && i < e->n_threads; i++) {
        e->scratch[i] = host_map(e->scratch_bytes);
        done = e->scratch[i] != NULL;
    }
    if (!done) {
        return sm_fail(SM_ERR_OOM,
                       "cpu: plan and scratch of %d threads need %.2f GiB, %.2f GiB available; use a smaller batch or "
                       "fewer threads",
                       e->n_threads, needed_bytes / (1 << 30), (double)available_bytes / (1 << 30));
    }
    return SM_OK;
}

// Writes to every page of a part of memory. Atomically: tensors whose lifetimes do not overlap lie in the same memory,
// and threads may touch the same byte.
static void touch(void *memory, cpu_range bytes) {
    for (int64_t byte = bytes.first; byte < bytes.end; byte += PAGE_BYTES) {
        __atomic_store_n((char *)memory + byte, 0, __ATOMIC_RELAXED);
    }
}

// Has the kernel provide all pages now, and not within the first step. Each thread touches first
// what it will work on: its share of every tensor, as the kernels cut rows and elements. On a
// machine with several memories that part then lies in the thread's own. What no tensor holds is
// shared out evenly.
static void touch_memory(const cpu_executable *e, const sm_plan *plan) {
#pragma omp parallel num_threads(e->n_threads)
    {
        const cpu_team team = {omp_get_thread_num(), omp_get_num_threads(), e->scratch, NULL};
        cpu_bind_thread(e->binding, team.thread);
        for (int i = 0; i < plan->n_tensors; i++) {
            const sm_tensor *t = &plan->tensors[i];
            if (t->arena >= 0 && t->view_of == SM_NO_TENSOR) {
                int64_t step = (int64_t)(16 * sm_dtype_size(t->dtype));
                touch(host_tensor(&e->memory, plan, i),
                      cpu_split((int64_t)sm_tensor_bytes(t), step, team.thread, team.n_threads));
            }
        }
        touch(e->scratch[team.thread], (cpu_range){0, (int64_t)e->scratch_bytes});
#pragma omp barrier
        for (int i = 0; i < e->memory.n_arenas; i++) {
            touch(e->memory.arenas[i],
                  cpu_split((int64_t)e->memory.sizes_bytes[i], PAGE_BYTES, team.thread, team.n_threads));
        }
    }
    cpu_unbind_thread();
}

sm_status cpu_prepare(sm_device *device, const sm_plan *plan, sm_executable **executable) {
    sm_status status = SM_OK;
    cpu_device *cpu = (cpu_device *)device;
    cpu_executable *e = calloc(1, sizeof *e);
    if (e == NULL) {
        return sm_fail(SM_ERR_OOM, "cpu: no memory for an executable");
    }
    e->base.device = device;
    e->base.plan = plan;
    e->kernels = cpu_kernels_for(cpu->isa, plan);
    e->binding = cpu->binding;
    e->own = cpu->own;
    e->n_threads = device->info.n_threads;
    SM_TRY_GOTO(cpu_blas_prepare(cpu, plan));
    SM_TRY_GOTO(host_memory_allocate(plan, &e->memory));
    SM_TRY_GOTO(host_bind(&e->memory, plan, &e->ops));
    SM_TRY_GOTO(allocate_scratch(e, plan));
    touch_memory(e, plan);
    cpu_binding_check(e->binding, device->info.binding, sizeof device->info.binding);
    if (plan->tuned) {
        SM_TRY_GOTO(cpu_tune(cpu, e));
    }
    e->base.memory_bytes = e->memory.total_bytes + (size_t)e->n_threads * e->scratch_bytes;
    *executable = &e->base;
    return SM_OK;
cleanup:
    cpu_release(&e->base);
    return status;
}

void cpu_release(sm_executable *executable) {
    if (executable == NULL) {
        return;
    }
    cpu_executable *e = (cpu_executable *)executable;
    for (int i = 0; e->scratch != NULL && i < e->n_threads; i++) {
        host_unmap(e->scratch[i], e->scratch_bytes);
    }
    free(e->scratch);
    for (int i = 0; e->choices != NULL && i < 2 * e->base.plan->n_ops; i++) {
        cpu_onednn_matmul_free(e->choices[i].matmul);
    }
    free(e->choices);
    free(e->ops);
    host_memory_free(&e->memory);
    free(e);
}

// A kernel of the user's own, on one thread unless it is made for a team.
static void run_own(const cpu_executable *e, const host_op *op, const cpu_team *team) {
    const sm_own_kernel *own = e->own[op->op->kind];
    if (team->thread == 0 || own->has_threads) {
        sm_own_args args;
        sm_own_args_fill(e->base.plan, op->op, op->in, op->out, &args);
        if (own->has_threads) {
            sm_own_args_set_thread(&args, team->thread, team->n_threads);
        }
        own->run(args.members);
    }
}

static void run_op(const cpu_executable *e, const host_op *op, const cpu_team *team) {
    if (e->own[op->op->kind] != NULL) {
        run_own(e, op, team);
    } else {
        e->kernels->run[op->op->kind](op, team);
    }
}

// Op i, as this micro-batch does it.
static const host_op *find_op(const cpu_executable *e, int i, host_later *later) {
    return e->base.is_later ? host_find_later(e->base.plan, &e->ops[i], later) : &e->ops[i];
}

static const cpu_choice *find_choice(const cpu_executable *e, int i, bool differs) {
    return e->choices == NULL ? NULL : &e->choices[i + (differs ? e->base.plan->n_ops : 0)];
}

sm_status cpu_execute(sm_executable *executable, sm_range range, int64_t *op_ns) {
    const cpu_executable *e = (const cpu_executable *)executable;
#pragma omp parallel num_threads(e->n_threads)
    {
        // A limit on threads may give fewer than asked for; the kernels take what there are.
        cpu_team team = {omp_get_thread_num(), omp_get_num_threads(), e->scratch, NULL};
        cpu_bind_thread(e->binding, team.thread);
        const unsigned state = cpu_denormals_off();
        const bool keeps_time = op_ns != NULL && team.thread == 0;
        int64_t before_ns = keeps_time ? host_now_ns() : 0;
        for (int i = range.first; i < range.end; i++) {
            host_later later;
            const host_op *op = find_op(e, i, &later);
            team.choice = find_choice(e, i, op != &e->ops[i]);
            if (!host_is_skipped(op)) {
                run_op(e, op, &team);
            }
#pragma omp barrier
            if (keeps_time) {
                int64_t now_ns = host_now_ns();
                op_ns[i] += now_ns - before_ns;
                before_ns = now_ns;
            }
        }
        cpu_denormals_restore(state);
    }
    cpu_unbind_thread();
    return SM_OK;
}
