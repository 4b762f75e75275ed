// collective.c: exchanges with other processes' devices by NCCL (collectives.h): the gradients' arenas, and with a
// sharded optimizer the weights', lie in memory that both OpenCL and CUDA reach, so that nothing is copied.
//
// In bf16 a bucket is rounded to a buffer of its own by the computing queue, exchanged there, and widened back.
#include <stdlib.h>
#include <time.h>

#include "backends/opencl/memory/memory.h"
#include "shard.h"

typedef struct opencl_collective {
    sm_collective what;
    cuda_address address;
    int64_t n_elems;
    int bucket; // whose rounded gradients are exchanged; -1: the tensor itself
    opencl_point begun;
    cuda_event started, ended;
    struct opencl_collective *first, *last; // of those that it was handed over with
    bool is_in_stream;                      // at least a part of it
    atomic_bool is_handed_over;
    struct opencl_collective *next;
} opencl_collective;

bool opencl_is_exchanged(const opencl_device *device, const sm_plan *plan, sm_role role) {
    return opencl_has_peers(device) && plan->processes.n > 1 &&
           (role == SM_ROLE_GRADIENT || (role == SM_ROLE_PARAMETER && plan->processes.is_sharded));
}

size_t opencl_rounded_bytes(const sm_plan *plan) {
    size_t size_bytes = 0;
    for (int i = 0; i < plan->n_buckets && plan->processes.is_bf16; i++) {
        size_bytes += (size_t)plan->buckets[i].n_elems * sizeof(uint16_t);
    }
    return size_bytes;
}

// --- rounded gradients ---------------------------------------------------------------------------

sm_status opencl_reserve_rounded(opencl_executable *e) {
    static const char options[] = "-DDATA_BF16";
    const sm_plan *plan = e->base.plan;
    if (!plan->processes.is_bf16 || !opencl_is_exchanged(e->device, plan, SM_ROLE_GRADIENT)) {
        return SM_OK;
    }
    SM_TRY(opencl_get_kernel(e->device, "exchange", options, "exchange_round", &e->round));
    SM_TRY(opencl_get_kernel(e->device, "exchange", options, "exchange_widen", &e->widen));
    e->rounded = calloc((size_t)plan->n_buckets + 1, sizeof *e->rounded);
    if (e->rounded == NULL) {
        return sm_fail(SM_ERR_OOM, "%s: no memory for %d buckets", id_of(e->device), plan->n_buckets);
    }
    for (; e->n_rounded < plan->n_buckets; e->n_rounded++) {
        opencl_shared *s = &e->rounded[e->n_rounded];
        SM_TRY(opencl_share(e->device, (size_t)plan->buckets[e->n_rounded].n_elems * sizeof(uint16_t), s));
        e->base.memory_bytes += s->size_bytes;
    }
    return SM_OK;
}

static int bucket_of(const sm_plan *plan, int tensor) {
    int k = plan->n_buckets - 1;
    while (k >= 0 && plan->buckets[k].gradient != tensor) {
        k--;
    }
    return k;
}

// Between the tensor and the rounded copy.
static sm_status convert(opencl_executable *e, const opencl_collective *c, bool rounds) {
    const cl_ulong n = (cl_ulong)c->n_elems;
    const size_t group = (size_t)e->device->sizes.group;
    const size_t vector = (size_t)e->device->sizes.vector;
    const size_t global = ((size_t)n + group * vector - 1) / (group * vector) * group;
    opencl_span s;
    SM_TRY(opencl_find_span(e, c->what.tensor, 0, c->n_elems, &s));
    const cl_ulong at = s.offset_bytes / sizeof(float);
    const cl_mem rounded = e->rounded[c->bucket].buffer;
    const opencl_argument of_round[] = {OPENCL_ARGUMENT(n), OPENCL_ARGUMENT(s.buffer), OPENCL_ARGUMENT(at),
                                        OPENCL_ARGUMENT(rounded)};
    const opencl_argument of_widen[] = {OPENCL_ARGUMENT(n), OPENCL_ARGUMENT(rounded), OPENCL_ARGUMENT(s.buffer),
                                        OPENCL_ARGUMENT(at)};
    const cl_kernel kernel = rounds ? e->round : e->widen;
    SM_TRY(opencl_set_arguments(e->device, kernel, rounds ? of_round : of_widen, 4));
    return opencl_check(
        id_of(e->device), "clEnqueueNDRangeKernel",
        opencl.clEnqueueNDRangeKernel(e->device->queue, kernel, 1, NULL, &global, &group, 0, NULL, NULL));
}

// --- tickets -------------------------------------------------------------------------------------

static sm_status make_ticket(opencl_executable *e, opencl_collective **ticket) {
    opencl_collective *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return sm_fail(SM_ERR_OOM, "%s: no memory for an exchange", id_of(e->device));
    }
    c->next = e->collectives;
    e->collectives = c;
    SM_TRY(cuda_check(id_of(e->device), "cuCtxSetCurrent", cuda.context_set(e->device->peers->context)));
    SM_TRY(cuda_check(id_of(e->device), "cuEventCreate", cuda.event_create(&c->started, 0)));
    SM_TRY(cuda_check(id_of(e->device), "cuEventCreate", cuda.event_create(&c->ended, 0)));
    *ticket = c;
    return SM_OK;
}

// Whether the stream is at none of them, for as long as that may take; what processes that have gone keep it at is
// ended.
static bool are_over(opencl_executable *e) {
    enum { LOOKS = 1000 };
    static const struct timespec look = {.tv_nsec = 1000000};
    int n_looks = 0;
    for (opencl_collective *c = e->collectives; c != NULL; c = c->next) {
        while (c->is_in_stream && cuda.event_query(c->ended) == CUDA_NOT_READY) {
            if (n_looks == LOOKS) {
                opencl_peers_abort(&e->device->base);
            }
            if (n_looks++ == 2 * LOOKS) {
                e->device->peers->is_busy = true;
                return false;
            }
            nanosleep(&look, NULL);
        }
    }
    return true;
}

bool opencl_free_collectives(opencl_executable *e) {
    if (e->collectives != NULL) {
        (void)cuda.context_set(e->device->peers->context);
    }
    if (!are_over(e)) {
        return false;
    }
    while (e->collectives != NULL) {
        opencl_collective *c = e->collectives;
        e->collectives = c->next;
        cuda_event events[] = {c->started, c->ended};
        for (int i = 0; i < 2; i++) {
            if (events[i] != NULL) {
                (void)cuda.event_destroy(events[i]);
            }
        }
        if (c->begun.event != NULL) {
            opencl.clReleaseEvent(c->begun.event);
        }
        free(c);
    }
    for (int i = 0; e->rounded != NULL && i < e->n_rounded; i++) {
        opencl_unshare(&e->rounded[i]);
    }
    free(e->rounded);
    opencl_release_kernel(e->round);
    opencl_release_kernel(e->widen);
    return true;
}

static sm_status begin(sm_executable *executable, const sm_collective *what, void **ticket) {
    opencl_executable *e = (opencl_executable *)executable;
    const sm_tensor *t = &e->base.plan->tensors[what->tensor];
    opencl_collective *c = *ticket;
    SM_TRY(opencl_check_lost(e));
    SM_TRY(c == NULL ? make_ticket(e, &c) : SM_OK);
    *ticket = c;
    c->what = *what;
    c->n_elems = sm_tensor_elems(t);
    c->bucket = what->is_bf16 ? bucket_of(e->base.plan, what->tensor) : -1;
    c->address = c->bucket >= 0 ? e->rounded[c->bucket].address : e->shared[t->arena].address + t->offset_bytes;
    atomic_store(&c->is_handed_over, false);
    SM_TRY(c->bucket >= 0 ? convert(e, c, true) : SM_OK);
    return opencl_mark(e->device, &c->begun);
}

// --- handing over to NCCL ------------------------------------------------------------------------

static sm_slice slice_of(const opencl_peers *p, const opencl_collective *c, int rank) {
    return sm_slice_of(c->n_elems, c->what.line_elems, rank, p->n_processes);
}

static bool are_even(const opencl_peers *p, const opencl_collective *c) {
    const int64_t n = c->n_elems / p->n_processes;
    for (int rank = 0; rank < p->n_processes; rank++) {
        const sm_slice s = slice_of(p, c, rank);
        if (s.first != n * rank || s.end != n * (rank + 1)) {
            return false;
        }
    }
    return true;
}

static int reduce_slices(const opencl_peers *p, const opencl_collective *c, int type, size_t elem_bytes) {
    int code = nccl.begin_group();
    for (int rank = 0; rank < p->n_processes && code == NCCL_SUCCESS; rank++) {
        const sm_slice s = slice_of(p, c, rank);
        const cuda_address at = c->address + (cuda_address)s.first * elem_bytes;
        code = s.end > s.first
                   ? nccl.reduce(at, at, (size_t)(s.end - s.first), type, NCCL_SUM, rank, p->comm, p->stream)
                   : NCCL_SUCCESS;
    }
    const int ended = nccl.end_group();
    return code != NCCL_SUCCESS ? code : ended;
}

static int gather_slices(const opencl_peers *p, const opencl_collective *c, size_t elem_bytes) {
    int code = nccl.begin_group();
    for (int rank = 0; rank < p->n_processes && code == NCCL_SUCCESS; rank++) {
        const sm_slice s = slice_of(p, c, rank);
        const cuda_address at = c->address + (cuda_address)s.first * elem_bytes;
        code = s.end > s.first ? nccl.broadcast(at, at, (size_t)(s.end - s.first) * elem_bytes, NCCL_BYTES, rank,
                                                p->comm, p->stream)
                               : NCCL_SUCCESS;
    }
    const int ended = nccl.end_group();
    return code != NCCL_SUCCESS ? code : ended;
}

static int exchange(const opencl_peers *p, const opencl_collective *c, size_t elem_bytes) {
    const int type = c->bucket >= 0 ? NCCL_BF16 : NCCL_F32;
    const size_t n_each = (size_t)(c->n_elems / p->n_processes);
    const cuda_address own = c->address + (cuda_address)p->rank * n_each * elem_bytes;
    switch (c->what.kind) {
    case SM_COLLECTIVE_REDUCE_SCATTER:
        return are_even(p, c) ? nccl.reduce_scatter(c->address, own, n_each, type, NCCL_SUM, p->comm, p->stream)
                              : reduce_slices(p, c, type, elem_bytes);
    case SM_COLLECTIVE_ALL_GATHER:
        return are_even(p, c) ? nccl.all_gather(own, c->address, n_each * elem_bytes, NCCL_BYTES, p->comm, p->stream)
                              : gather_slices(p, c, elem_bytes);
    default: return nccl.all_reduce(c->address, c->address, (size_t)c->n_elems, type, NCCL_SUM, p->comm, p->stream);
    }
}

static size_t elem_bytes_of(const opencl_executable *e, const opencl_collective *c) {
    return c->bucket >= 0 ? sizeof(uint16_t) : sm_dtype_size(e->base.plan->tensors[c->what.tensor].dtype);
}

// CUDA's kernels and OpenCL's take turns on a card, 2.4 ms each (H100, driver 580): NCCL's would hold up what computes,
// and wait for those of other cards, whose turn is another. So all exchanges are one launch, and begin when the last of
// them is complete.
static sm_status hand_over(sm_executable *executable, void *const *tickets, int n) {
    opencl_executable *e = (opencl_executable *)executable;
    const opencl_peers *p = e->device->peers;
    const char *id = id_of(e->device);
    SM_TRY(cuda_check(id, "cuCtxSetCurrent", cuda.context_set(p->context)));
    for (int i = 0; i < n; i++) {
        opencl_collective *c = tickets[i];
        SM_TRY(opencl_wait_in_stream(e->device, &c->begun));
        c->is_in_stream = true;
    }
    opencl_collective *first = tickets[0], *last = tickets[n - 1];
    SM_TRY(cuda_check(id, "cuEventRecord", cuda.event_record(first->started, p->stream)));
    int code = nccl.begin_group();
    for (int i = 0; i < n && code == NCCL_SUCCESS; i++) {
        code = exchange(p, tickets[i], elem_bytes_of(e, tickets[i]));
    }
    const int ended = nccl.end_group();
    SM_TRY(cuda_check(id, "cuEventRecord", cuda.event_record(last->ended, p->stream)));
    SM_TRY(nccl_check(id, "an exchange of gradients", code != NCCL_SUCCESS ? code : ended));
    for (int i = 0; i < n; i++) {
        opencl_collective *c = tickets[i];
        c->first = first;
        c->last = last;
        atomic_store(&c->is_handed_over, true);
    }
    return SM_OK;
}

// --- its end -------------------------------------------------------------------------------------

static sm_status is_done(sm_executable *executable, void *ticket, bool *is_done) {
    opencl_executable *e = (opencl_executable *)executable;
    const opencl_peers *p = e->device->peers;
    const opencl_collective *c = ticket;
    int trouble = NCCL_SUCCESS;
    *is_done = false;
    if (!atomic_load(&c->is_handed_over) || atomic_load(&p->is_aborted)) {
        return SM_OK;
    }
    SM_TRY(cuda_check(id_of(e->device), "cuCtxSetCurrent", cuda.context_set(p->context)));
    const int code = cuda.event_query(c->last->ended);
    *is_done = code == CUDA_SUCCESS;
    if (code != CUDA_NOT_READY) {
        return cuda_check(id_of(e->device), "cuEventQuery", code);
    }
    SM_TRY(nccl_check(id_of(e->device), "ncclCommGetAsyncError", nccl.async_error(p->comm, &trouble)));
    return trouble == NCCL_IN_PROGRESS ? SM_OK : nccl_check(id_of(e->device), "an exchange of gradients", trouble);
}

static sm_status finish(sm_executable *executable, void *ticket) {
    opencl_executable *e = (opencl_executable *)executable;
    const opencl_collective *c = ticket;
    return c->bucket >= 0 ? convert(e, c, false) : SM_OK;
}

static int64_t elapsed_ns(sm_executable *executable, void *ticket) {
    const opencl_collective *c = ticket;
    float elapsed_ms = 0;
    (void)executable;
    return c == c->first && cuda.event_elapsed(&elapsed_ms, c->started, c->last->ended) == CUDA_SUCCESS
               ? (int64_t)((double)elapsed_ms * 1e6)
               : 0;
}

const sm_collectives sm_collectives_opencl = {
    .name = "nccl",
    .suits = opencl_peers_suit,
    .find = opencl_peers_find,
    .make_id = opencl_peers_make_id,
    .join = opencl_peers_join,
    .describe = opencl_peers_describe,
    .begin = begin,
    .hand_over = hand_over,
    .is_done = is_done,
    .finish = finish,
    .elapsed_ns = elapsed_ns,
    .abort = opencl_peers_abort,
};
