// by_nccl.c: exchanges that NCCL carries, in a stream of CUDA.
#include <time.h>

#include "backends/opencl/memory/collective.h"

static bool are_all_ended(const opencl_executable *e) {
    bool are_ended = true;
    for (const opencl_collective *c = e->collectives; c != NULL && are_ended; c = c->next) {
        are_ended = !c->is_in_stream || cuda.event_query(c->ended) != CUDA_NOT_READY;
    }
    return are_ended;
}

static bool end(opencl_executable *e) {
    enum { LOOKS = 1000 };
    static const struct timespec look = {.tv_nsec = 1000000};
    (void)cuda.context_set(e->device->peers->context);
    for (int n_looks = 0; !are_all_ended(e); n_looks++) {
        if (n_looks == LOOKS) {
            opencl_peers_abort(&e->device->base);
        }
        if (n_looks == 2 * LOOKS) {
            e->device->peers->is_busy = true;
            return false;
        }
        nanosleep(&look, NULL);
    }
    for (opencl_collective *c = e->collectives; c != NULL; c = c->next) {
        (void)(c->started != NULL ? cuda.event_destroy(c->started) : 0);
        (void)(c->ended != NULL ? cuda.event_destroy(c->ended) : 0);
        opencl_release_event(c->begun.event);
    }
    return true;
}

// A mark is work for the card, that takes turns with NCCL's: where the queue is idle, 0.3 ms for nothing.
static sm_status begin(sm_executable *executable, const sm_collective *what, void **ticket) {
    opencl_executable *e = (opencl_executable *)executable;
    const sm_tensor *t = &e->base.plan->tensors[what->tensor];
    opencl_collective *c;
    e->end_collectives = end;
    SM_TRY(opencl_begin_collective(e, what, ticket, &c));
    if (c->started == NULL) {
        SM_TRY(cuda_check(id_of(e->device), "cuEventCreate", cuda.event_create(&c->started, 0)));
        SM_TRY(cuda_check(id_of(e->device), "cuEventCreate", cuda.event_create(&c->ended, 0)));
    }
    c->address = c->bucket >= 0 ? e->rounded[c->bucket].address : e->shared[t->arena].address + t->offset_bytes;
    atomic_store(&c->is_handed_over, false);
    c->begun = (opencl_point){0};
    return e->is_idle ? SM_OK : opencl_mark(e->device, &c->begun);
}

static sm_slice slice_of(const opencl_peers *p, const opencl_collective *c, int rank) {
    return sm_slice_of(c->n_elems, c->what.line_elems, rank, p->n_processes);
}

static bool are_even(const opencl_peers *p, const opencl_collective *c) {
    const int64_t n = c->n_elems / p->n_processes;
    bool are_even = true;
    for (int rank = 0; rank < p->n_processes && are_even; rank++) {
        const sm_slice s = slice_of(p, c, rank);
        are_even = s.first == n * rank && s.end == n * (rank + 1);
    }
    return are_even;
}

// Reduces each slice to its rank, or broadcasts it from there.
static int exchange_slices(const opencl_peers *p, const opencl_collective *c, bool reduces, int type,
                           size_t elem_bytes) {
    int code = nccl.begin_group();
    for (int rank = 0; rank < p->n_processes && code == NCCL_SUCCESS; rank++) {
        const sm_slice s = slice_of(p, c, rank);
        const size_t n = (size_t)(s.end - s.first);
        const cuda_address at = c->address + (cuda_address)s.first * elem_bytes;
        code = n == 0    ? NCCL_SUCCESS
               : reduces ? nccl.reduce(at, at, n, type, NCCL_SUM, rank, p->comm, p->stream)
                         : nccl.broadcast(at, at, n * elem_bytes, NCCL_BYTES, rank, p->comm, p->stream);
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
                              : exchange_slices(p, c, true, type, elem_bytes);
    case SM_COLLECTIVE_ALL_GATHER:
        return are_even(p, c) ? nccl.all_gather(own, c->address, n_each * elem_bytes, NCCL_BYTES, p->comm, p->stream)
                              : exchange_slices(p, c, false, type, elem_bytes);
    default: return nccl.all_reduce(c->address, c->address, (size_t)c->n_elems, type, NCCL_SUM, p->comm, p->stream);
    }
}

// CUDA's kernels and OpenCL's take turns on a card, 2.4 ms each (H100, driver 580): NCCL's would hold up what computes,
// and wait for those of other cards, whose turn is another. So all are one launch, once the last is complete.
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
        code = exchange(p, tickets[i], opencl_elem_bytes_of(e, tickets[i]));
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

static int64_t elapsed_ns(SM_UNUSED sm_executable *executable, void *ticket) {
    const opencl_collective *c = ticket;
    float elapsed_ms = 0;
    return c == c->first && cuda.event_elapsed(&elapsed_ms, c->started, c->last->ended) == CUDA_SUCCESS
               ? (int64_t)((double)elapsed_ms * 1e6)
               : 0;
}

const sm_collectives sm_collectives_nccl = {
    .name = "nccl",
    .title = "NCCL",
    .suits = opencl_peers_suit,
    .find = opencl_peers_find,
    .make_id = opencl_peers_make_id,
    .join = opencl_peers_join,
    .describe = opencl_peers_describe,
    .begin = begin,
    .hand_over = hand_over,
    .is_done = is_done,
    .finish = opencl_finish_collective,
    .elapsed_ns = elapsed_ns,
    .abort = opencl_peers_abort,
};
