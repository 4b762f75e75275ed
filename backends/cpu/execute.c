// execute.c: runs a range of a plan on the device's threads.
//
// An op is one or two pieces of work (threads/pool.h). Ops do not fork or join, and BLAS is called on one part.
#include "backends/cpu/blas.h"

enum { PAGE_BYTES = 4096 };

// --- weights packed ahead -------------------------------------------------------------------------
//
// A product's b is packed once for all threads, which meet before it is used. Of many threads each would pack too
// little at a time, and wait: so they pack the weights of the products to come together, as many as fit in AHEAD_BYTES.

enum { AHEAD_BYTES = 64 << 20, MANY_THREADS = 9 };

typedef struct cpu_place {
    int64_t unit; // the first of the op's weight, among all
    int64_t at;   // of the weight in the memory; 0: others before it are gone
} place;

// Finds the places of a plan's weights, unless NULL; returns the size of the memory.
static size_t place_weights(const cpu_device *cpu, const sm_plan *plan, place *places) {
    const cpu_kernel_table *kernels = cpu_kernels_for(cpu->isa, plan);
    place next = {0};
    size_t most_bytes = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op_kind kind = plan->ops[i].kind;
        const host_op op = host_describe_op(plan, &plan->ops[i]);
        size_t size_bytes = 0;
        int64_t n_units = 0;
        if ((kind == SM_OP_MATMUL_FORWARD || kind == SM_OP_MATMUL_BACKWARD_INPUT) && kernels->ahead_units != NULL &&
            cpu->base.info.n_threads >= MANY_THREADS && cpu->own[kind] == NULL &&
            op.in_tensor[1]->role == SM_ROLE_PARAMETER) {
            n_units = kernels->ahead_units(&op, &size_bytes);
        }
        size_bytes = n_units == 0 ? 0 : size_bytes;
        next.at = next.at + (int64_t)size_bytes > AHEAD_BYTES ? 0 : next.at;
        if (places != NULL) {
            places[i] = next;
            places[i + 1].unit = next.unit + n_units;
        }
        next.at += (int64_t)size_bytes;
        next.unit += n_units;
        most_bytes = (size_t)next.at > most_bytes ? (size_t)next.at : most_bytes;
    }
    return most_bytes;
}

static int64_t units_of(const cpu_executable *e, int op) { return e->places[op + 1].unit - e->places[op].unit; }

static void pack_weights(const cpu_executable *e, const cpu_team *team, int first, int end) {
    const place *places = e->places;
    int turn = 0;
    int64_t unit;
    while ((unit = cpu_next_unit(team, places[end].unit - places[first].unit, &turn)) >= 0) {
        int op = first;
        for (unit += places[first].unit; unit >= places[op + 1].unit; op++) {
        }
        e->kernels->pack_ahead(&e->host.ops[op], (char *)e->ahead + places[op].at, unit - places[op].unit);
    }
}

// --- memory ---------------------------------------------------------------------------------------

// The most scratch that any op needs for one thread, in whole pages.
static size_t largest_scratch(const cpu_kernel_table *kernels, const sm_plan *plan, int n_threads) {
    size_t most_bytes = 1;
    for (int i = 0; i < plan->n_ops; i++) {
        const host_op op = host_describe_op(plan, &plan->ops[i]);
        cpu_scratch_bytes needs = kernels->scratch_bytes[op.op->kind];
        size_t size_bytes = needs == NULL ? 0 : needs(&op, n_threads);
        most_bytes = size_bytes > most_bytes ? size_bytes : most_bytes;
    }
    return (most_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

// The memory that is shared with the process of own kernels.
static size_t largest_shared(const cpu_device *cpu, const sm_plan *plan) {
    size_t most_bytes = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_own_kernel *own = cpu->own[plan->ops[i].kind];
        const size_t size_bytes = own != NULL && own->process != NULL ? sm_own_process_bytes(plan, &plan->ops[i]) : 0;
        most_bytes = size_bytes > most_bytes ? size_bytes : most_bytes;
    }
    return most_bytes;
}

size_t cpu_working_bytes(const sm_device *device, const sm_plan *plan) {
    const cpu_device *cpu = (const cpu_device *)device;
    const int n_threads = device->info.n_threads;
    const cpu_kernel_table *kernels = cpu_kernels_for(cpu->isa, plan);
    return (size_t)n_threads * largest_scratch(kernels, plan, n_threads) + largest_shared(cpu, plan) +
           place_weights(cpu, plan, NULL);
}

static sm_status allocate_scratch(cpu_executable *e, const sm_plan *plan) {
    e->scratch_bytes = largest_scratch(e->kernels, plan, e->n_threads);
    e->scratch = sm_calloc((size_t)e->n_threads, sizeof *e->scratch);
    e->places = sm_calloc((size_t)plan->n_ops + 1, sizeof *e->places);
    e->ahead_bytes = place_weights((const cpu_device *)e->base.device, plan, e->places);
    e->ahead = e->ahead_bytes == 0 ? NULL : host_map(e->ahead_bytes);
    // The plan's own memory was just allocated, but still counts as available.
    double needed_bytes =
        (double)e->host.total_bytes + (double)e->n_threads * (double)e->scratch_bytes + (double)e->ahead_bytes;
    size_t available_bytes = host_available_bytes();
    bool done =
        (available_bytes == 0 || needed_bytes <= (double)available_bytes) && (e->ahead != NULL || e->ahead_bytes == 0);
    for (int i = 0; done && i < e->n_threads; i++) {
        e->scratch[i] = host_map(e->scratch_bytes);
        done = e->scratch[i] != NULL;
    }
    SM_FAIL_IF(!done, SM_ERR_OOM,
               "cpu: plan and scratch of %d threads need %.2f GiB, %.2f GiB available; use a smaller batch or "
               "fewer threads",
               e->n_threads, needed_bytes / (1 << 30), (double)available_bytes / (1 << 30));
    return SM_OK;
}

// Writes to every page of a part of memory. Atomically: tensors whose lifetimes do not overlap share memory, and
// threads may touch the same byte.
static void touch(void *memory, cpu_range bytes) {
    for (int64_t byte = bytes.first; byte < bytes.end; byte += PAGE_BYTES) {
        __atomic_store_n((char *)memory + byte, 0, __ATOMIC_RELAXED);
    }
}

// Makes the kernel provide all pages now, not during the first step. Each thread first touches its share of every
// tensor, cut into rows and elements as the kernels do, so that it lies in the thread's own memory on a NUMA machine.
// Memory without tensors is divided evenly.
static void touch_memory(void *ctx, int part) {
    const cpu_executable *e = ctx;
    const sm_plan *plan = e->base.plan;
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_tensor *t = &plan->tensors[i];
        if (t->arena >= 0 && t->view_of == SM_NO_TENSOR && t->memory == NULL) { // else the caller's, and only read
            int64_t step = (int64_t)(16 * sm_dtype_size(t->dtype));
            touch(host_tensor(&e->host, i), cpu_split((int64_t)sm_tensor_bytes(t), step, part, e->n_threads));
        }
    }
    touch(e->scratch[part], (cpu_range){0, (int64_t)e->scratch_bytes});
    cpu_pool_meet(e->pool);
    for (int i = 0; i < e->host.n_arenas; i++) {
        touch(e->host.arenas[i], cpu_split((int64_t)e->host.sizes_bytes[i], PAGE_BYTES, part, e->n_threads));
    }
}

sm_status cpu_prepare(sm_device *device, const sm_plan *plan, sm_executable **executable) {
    cpu_device *cpu = (cpu_device *)device;
    cpu_executable *e = sm_calloc(1, sizeof *e);
    SM_OWN(sm_executable) *owned = &e->base;
    e->base.device = device;
    e->base.plan = plan;
    e->kernels = cpu_kernels_for(cpu->isa, plan);
    e->pool = cpu->pool;
    e->n_threads = device->info.n_threads;
    e->base.parts = sm_calloc((size_t)plan->n_ops + 1, sizeof *e->base.parts);
    e->busy = aligned_alloc(sizeof *e->busy, (size_t)e->n_threads * sizeof *e->busy);
    SM_FAIL_IF(e->busy == NULL, SM_ERR_OOM, "cpu: no memory for the times of %d threads", e->n_threads);
    memset(e->busy, 0, (size_t)e->n_threads * sizeof *e->busy);
    e->own = cpu->own;
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_own_kernel *own = cpu->own[plan->ops[i].kind];
        if (own != NULL && own->process != NULL) {
            e->own_process = own->process;
            SM_TRY(sm_own_process_fits(own->process, plan, &plan->ops[i], e->n_threads));
        }
    }
    SM_TRY(cpu_blas_prepare(cpu, plan));
    SM_TRY(host_prepare(&e->host));
    SM_TRY(allocate_scratch(e, plan));
    cpu_pool_run_once(e->pool, touch_memory, e);
    cpu_binding_check(cpu->binding, device->info.binding, sizeof device->info.binding);
    SM_TRY(plan->tuned ? cpu_tune(cpu, e) : SM_OK);
    e->base.memory_bytes =
        e->host.total_bytes + (size_t)e->n_threads * e->scratch_bytes + largest_shared(cpu, plan) + e->ahead_bytes;
    *executable = sm_give(&owned);
    return SM_OK;
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
    free(e->busy);
    host_unmap(e->ahead, e->ahead_bytes);
    free(e->places);
    free(e->base.parts);
    free(e->choices);
    host_free(&e->host);
    free(e);
}

// An own op takes three pieces if its kernel is in another process: operands are given, it is called, outputs taken.
enum { OWN_GIVES, OWN_CALLS, OWN_TAKES };

// Calls a user's kernel, once unless it is made for several threads.
static void run_own(const cpu_executable *e, const host_op *op, const cpu_team *team, int stage) {
    const sm_own_kernel *own = e->own[op->op->kind];
    const sm_plan *plan = e->base.plan;
    if (own->process != NULL) {
        switch (stage) {
        case OWN_GIVES: sm_own_process_give(own, plan, op->op, op->in, op->out, team->thread, team->n_threads); return;
        case OWN_CALLS: sm_own_process_call(own, team->thread, team->n_threads); return;
        default: sm_own_process_take(own, plan, op->op, op->in, op->out, team->thread, team->n_threads); return;
        }
    }
    if (team->thread == 0 || own->has_threads) {
        sm_own_args args;
        sm_own_args_fill(plan, op->op, op->in, op->out, &args);
        if (own->has_threads) {
            sm_own_args_set_thread(&args, team->thread, team->n_threads);
        }
        own->run(args.members);
    }
}

// A range of ops in progress, changed by one thread at a time.
typedef struct {
    const cpu_executable *e;
    sm_range left;     // the ops that have not begun
    int i;             // the current op; -1: none yet
    const host_op *op; // the same, as in this micro-batch
    host_later later;
    const cpu_choice *choice;
    int packed_end; // weights of ops before it are packed
    bool packs;     // this op's and others', before it
    bool finishes;
    int own_stage;
    int64_t *op_ns; // NULL: not requested
    int64_t begin_ns;
} execution;

// All parts of the op are done.
static void keep_parts(const cpu_executable *e, sm_op_parts *parts, int64_t begin_ns, int64_t end_ns) {
    int64_t sum_ns = 0, most_ns = 0, last_ns = begin_ns;
    for (int i = 0; i < e->n_threads; i++) {
        sum_ns += e->busy[i].ns;
        most_ns = e->busy[i].ns > most_ns ? e->busy[i].ns : most_ns;
        last_ns = e->busy[i].begin_ns > last_ns ? e->busy[i].begin_ns : last_ns;
        e->busy[i] = (cpu_busy){0};
    }
    parts->timed_ns += end_ns - begin_ns;
    parts->shared_ns += end_ns - last_ns;
    parts->busy_ns += sum_ns / e->n_threads;
    parts->slowest_ns += most_ns;
}

// The next op that is not skipped; false: none is left.
static bool next_op(execution *x) {
    static const cpu_choice by_openblas = {.method = CPU_BY_OPENBLAS};
    const cpu_executable *e = x->e;
    while (x->left.first < x->left.end) {
        const host_op *op = &e->host.ops[x->left.first];
        x->i = x->left.first++;
        x->op = e->base.is_later ? host_find_later(e->base.plan, op, &x->later) : op;
        if (!host_is_skipped(x->op)) {
            const cpu_device *device = (const cpu_device *)e->base.device;
            x->choice = device->openblas     ? &by_openblas
                        : device->is_trial   ? &device->trial
                        : e->choices == NULL ? NULL
                                             : &e->choices[x->i + (x->op != op ? e->base.plan->n_ops : 0)];
            return true;
        }
    }
    return false;
}

static cpu_piece next_piece(void *ctx) {
    execution *x = ctx;
    const cpu_executable *e = x->e;
    const cpu_kernel_table *kernels = e->kernels;
    if (x->packs) {
        x->packs = false;
        return CPU_PIECE_MEETS;
    }
    if (x->i >= 0 && !x->finishes && e->own[x->op->op->kind] == NULL && cpu_has_finish(kernels, x->op)) {
        x->finishes = true;
        return CPU_PIECE_APART;
    }
    const sm_own_kernel *own = x->i >= 0 ? e->own[x->op->op->kind] : NULL;
    if (own != NULL && own->process != NULL && x->own_stage < OWN_TAKES) {
        x->own_stage++;
        return CPU_PIECE_APART;
    }
    if (x->op_ns != NULL) {
        const int64_t now_ns = host_now_ns();
        if (x->i >= 0) {
            x->op_ns[x->i] += now_ns - x->begin_ns;
            keep_parts(e, &e->base.parts[x->i], x->begin_ns, now_ns);
        }
        x->begin_ns = now_ns;
    }
    x->finishes = false;
    x->own_stage = OWN_GIVES;
    if (!next_op(x)) {
        return CPU_PIECE_NONE;
    }
    x->packs = x->i >= x->packed_end && units_of(e, x->i) > 0;
    if (x->packs) {
        x->packed_end = x->i + 1;
        while (x->packed_end < x->left.end && (units_of(e, x->packed_end) == 0 || e->places[x->packed_end].at > 0)) {
            x->packed_end++;
        }
        return CPU_PIECE_APART;
    }
    const sm_op_kind kind = x->op->op->kind;
    return kernels->meets[kind] && e->own[kind] == NULL ? CPU_PIECE_MEETS : CPU_PIECE_APART;
}

static void run_part(void *ctx, int part) {
    const execution *x = ctx;
    const cpu_executable *e = x->e;
    const sm_op_kind kind = x->op->op->kind;
    const void *packed = units_of(e, x->i) > 0 ? (char *)e->ahead + e->places[x->i].at : NULL;
    const cpu_team team = {part, e->n_threads, e->scratch, x->choice, e->pool, packed};
    const int64_t now_ns = x->op_ns != NULL ? host_now_ns() : 0;
    const int64_t begin_ns = x->op_ns != NULL ? now_ns - cpu_pool_met_ns() : 0;
    e->busy[part].begin_ns = e->busy[part].begin_ns == 0 ? now_ns : e->busy[part].begin_ns;
    if (x->packs) {
        pack_weights(e, &team, x->i, x->packed_end);
    } else if (e->own[kind] != NULL) {
        run_own(e, x->op, &team, x->own_stage);
    } else if (x->finishes) {
        e->kernels->finish[kind](x->op, &team);
    } else {
        e->kernels->run[kind](x->op, &team);
    }
    if (x->op_ns != NULL) {
        e->busy[part].ns += host_now_ns() - cpu_pool_met_ns() - begin_ns;
    }
}

sm_status cpu_execute(sm_executable *executable, sm_range range, int64_t *op_ns) {
    const cpu_executable *e = (const cpu_executable *)executable;
    execution x = {.e = e, .left = range, .i = -1, .op_ns = op_ns};
    cpu_pool_run(e->pool, &(cpu_work){next_piece, run_part, &x});
    return e->own_process != NULL ? sm_own_process_state(e->own_process) : SM_OK;
}
