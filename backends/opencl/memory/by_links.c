// by_links.c: exchanges that the cards' copy engines carry by their own links, without a library. Of exchange s between
// N processes, process r does, in three streams that wait for words (links.c), each written by the stream named:
//
//     the queue          computes, and writes s to BEGUN
//     stream             waits for BEGUN, and writes READY to all
//                        sums: waits for READY of all, copies slice r of each other process to the landing memory, and
//                        tells the host (LANDED)
//     the queue of sums  once the host has seen it: adds the slices in the order of ranks, and writes ADDED
//     pushing            waits for ADDED, or if nothing is summed, for READY of all; copies slice r to all, unless only
//                        the sum is asked for; writes TAKEN to all
//     ending             waits for TAKEN of all, and tells the host (ENDED)
//
// A process that has TAKEN from all has read what it needed of them: their memory may change. Copies run next to
// kernels, other than kernels of CUDA would (by_nccl.c), so that all but the last of them are hidden.
#include <pthread.h>
#include <stdlib.h>

#include "backends/opencl/memory/collective.h"

enum { LANDINGS = 3 }; // one arrives, one is added, one is free

typedef struct opencl_landing {
    opencl_shared memory;
    size_t slot_bytes;
    uint32_t last[LANDINGS]; // number of the exchange that was the last to use it
    unsigned n_used;
    cl_kernel sum, sum_rounded;
    pthread_mutex_t lock;          // protects the members below
    opencl_collective *first_left; // to be added or pushed, in the order of their begins
    opencl_collective *last_left;
    opencl_collective *last_begun;
    uint32_t n_pushed;
} opencl_landing;

// --- landing memory ------------------------------------------------------------------------------

// Parts begin at whole vecs.
static int64_t part_elems(int64_t n) { return (n + SM_SLICE_LINE - 1) / SM_SLICE_LINE * SM_SLICE_LINE; }

// What a slot has room for: this process's slice, as all others have it.
static size_t slot_bytes_of(const sm_plan *plan) {
    const int n = plan->processes.n;
    size_t most_bytes = 0;
    for (int i = 0; i < plan->n_buckets; i++) {
        const sm_slice s = sm_slice_of(plan->buckets[i].n_elems, SM_SLICE_BLOCK, plan->processes.rank, n);
        const size_t size_bytes = (size_t)part_elems(s.end - s.first) * sizeof(float) * (size_t)(n - 1);
        most_bytes = size_bytes > most_bytes ? size_bytes : most_bytes;
    }
    return most_bytes;
}

size_t opencl_landing_bytes(const sm_plan *plan) { return LANDINGS * slot_bytes_of(plan); }

sm_status opencl_reserve_landing(opencl_executable *e) {
    static const char options[] = "-DDATA_BF16";
    opencl_landing *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return sm_fail(SM_ERR_OOM, "%s: no memory for what arrives", id_of(e->device));
    }
    pthread_mutex_init(&l->lock, NULL);
    e->landing = l;
    l->slot_bytes = slot_bytes_of(e->base.plan);
    SM_TRY(opencl_get_kernel(e->device, "exchange", options, "exchange_sum", &l->sum));
    SM_TRY(opencl_get_kernel(e->device, "exchange", options, "exchange_sum_rounded", &l->sum_rounded));
    SM_TRY(opencl_open_copy_queue(e->device, OPENCL_QUEUE_IN));
    SM_TRY(opencl_share(e->device, l->slot_bytes == 0 ? 1 : LANDINGS * l->slot_bytes, &l->memory));
    e->base.memory_bytes += l->memory.size_bytes;
    return SM_OK;
}

void opencl_free_landing(opencl_executable *e) {
    opencl_landing *l = e->landing;
    if (l != NULL) {
        opencl_unshare(e->device, &l->memory);
        opencl_release_kernel(l->sum);
        opencl_release_kernel(l->sum_rounded);
        pthread_mutex_destroy(&l->lock);
        free(l);
    }
}

// --- words ---------------------------------------------------------------------------------------

static sm_status await(const opencl_executable *e, cuda_stream stream, cuda_address word, uint32_t number) {
    return cuda_check(id_of(e->device), "cuStreamWaitValue32", cuda.stream_wait_value(stream, word, number, 0));
}

static sm_status tell(const opencl_executable *e, cuda_stream stream, cuda_address word, uint32_t number) {
    return cuda_check(id_of(e->device), "cuStreamWriteValue32", cuda.stream_write_value(stream, word, number, 0));
}

static sm_status await_all(const opencl_executable *e, cuda_stream stream, opencl_rank_word word, uint32_t number) {
    const opencl_peers *p = e->device->peers;
    for (int rank = 0; rank < p->n_processes; rank++) {
        SM_TRY(await(e, stream, opencl_word_of(p, p->rank, word, rank), number));
    }
    return SM_OK;
}

static sm_status tell_all(const opencl_executable *e, cuda_stream stream, opencl_rank_word word, uint32_t number) {
    const opencl_peers *p = e->device->peers;
    for (int rank = 0; rank < p->n_processes; rank++) {
        SM_TRY(tell(e, stream, opencl_word_of(p, rank, word, p->rank), number));
    }
    return SM_OK;
}

static cuda_address added_word(const opencl_peers *p) {
    return p->words.address + (cuda_address)OPENCL_WORD_ADDED * OPENCL_WORD_BYTES;
}

static cuda_address host_word(const opencl_peers *p, int word) {
    return p->links->host_address + (cuda_address)word * OPENCL_WORD_BYTES;
}

static bool has_come(const opencl_peers *p, int word, uint32_t number) {
    const volatile uint32_t *seen = p->links->host_words + (size_t)word * OPENCL_WORD_BYTES / sizeof(uint32_t);
    return (int32_t)(*seen - number) >= 0;
}

// --- an exchange ---------------------------------------------------------------------------------

static bool is_sum(const opencl_collective *c) { return c->what.kind != SM_COLLECTIVE_ALL_GATHER; }

// The place in rank `rank`'s memory that `c->address` is in this one's.
static cuda_address place_in(const opencl_executable *e, const opencl_collective *c, int rank) {
    const sm_tensor *t = &e->base.plan->tensors[c->what.tensor];
    const opencl_shared *s = c->bucket >= 0 ? &e->rounded[c->bucket] : &e->shared[t->arena];
    return s->address_of[rank] + (c->address - s->address);
}

static sm_status pull(opencl_executable *e, opencl_collective *c) {
    const opencl_peers *p = e->device->peers;
    opencl_landing *l = e->landing;
    const sm_slice own = opencl_slice_of(p, c, p->rank);
    const size_t elem_bytes = opencl_elem_bytes_of(e, c);
    const size_t size_bytes = (size_t)(own.end - own.first) * elem_bytes;
    const unsigned slot = l->n_used++ % LANDINGS;
    cuda_address to = l->memory.address + slot * l->slot_bytes;
    c->landing_at = slot * l->slot_bytes;
    SM_TRY(l->last[slot] == 0 ? SM_OK : await(e, p->stream, added_word(p), l->last[slot]));
    l->last[slot] = c->number;
    SM_TRY(await_all(e, p->stream, OPENCL_READY, c->number));
    SM_TRY(cuda_check(id_of(e->device), "cuEventRecord", cuda.event_record(c->started, p->stream)));
    for (int rank = 0; rank < p->n_processes && size_bytes > 0; rank++) {
        if (rank != p->rank) {
            const cuda_address from = place_in(e, c, rank) + (cuda_address)own.first * elem_bytes;
            SM_TRY(cuda_check(id_of(e->device), "cuMemcpyDtoDAsync", cuda.copy(to, from, size_bytes, p->stream)));
            to += (cuda_address)part_elems(own.end - own.first) * elem_bytes;
        }
    }
    return tell(e, p->stream, host_word(p, OPENCL_LANDED), c->number);
}

// In the queue of sums: c's own slice is the sum of all.
static sm_status add(opencl_executable *e, const opencl_collective *c) {
    const opencl_device *d = e->device;
    const opencl_peers *p = d->peers;
    const opencl_landing *l = e->landing;
    const sm_slice own = opencl_slice_of(p, c, p->rank);
    const cl_ulong n = (cl_ulong)(own.end - own.first);
    const cl_command_queue queue = d->copies[OPENCL_QUEUE_IN];
    if (n > 0) {
        opencl_span s;
        SM_TRY(opencl_find_span(e, c->what.tensor, own.first, own.end - own.first, &s));
        const bool is_rounded = c->bucket >= 0;
        const cl_mem sum = is_rounded ? e->rounded[c->bucket].buffer : s.buffer;
        const cl_ulong sum_at = is_rounded ? (cl_ulong)own.first : s.offset_bytes / sizeof(float);
        const cl_ulong landing_at = c->landing_at / (is_rounded ? sizeof(uint16_t) : sizeof(float));
        const cl_ulong each = (cl_ulong)part_elems((int64_t)n);
        const cl_uint n_processes = (cl_uint)p->n_processes, rank = (cl_uint)p->rank;
        const opencl_argument arguments[] = {OPENCL_ARGUMENT(n),          OPENCL_ARGUMENT(n_processes),
                                             OPENCL_ARGUMENT(rank),       OPENCL_ARGUMENT(l->memory.buffer),
                                             OPENCL_ARGUMENT(landing_at), OPENCL_ARGUMENT(each),
                                             OPENCL_ARGUMENT(sum),        OPENCL_ARGUMENT(sum_at)};
        const size_t group = (size_t)d->sizes.group, vector = (size_t)d->sizes.vector;
        const size_t global = ((size_t)n + group * vector - 1) / (group * vector) * group;
        const cl_kernel kernel = is_rounded ? l->sum_rounded : l->sum;
        SM_TRY(opencl_set_arguments(d, kernel, arguments, (int)(sizeof arguments / sizeof arguments[0])));
        SM_TRY(opencl_check(id_of(d), "clEnqueueNDRangeKernel",
                            opencl.clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &group, 0, NULL, NULL)));
    }
    SM_TRY(opencl_check(id_of(d), "clEnqueueFillBuffer, of a word",
                        opencl.clEnqueueFillBuffer(queue, p->words.buffer, &c->number, sizeof c->number,
                                                   OPENCL_WORD_ADDED * OPENCL_WORD_BYTES, sizeof c->number, 0, NULL,
                                                   NULL)));
    return opencl_check(id_of(d), "clFlush", opencl.clFlush(queue));
}

static sm_status push(opencl_executable *e, opencl_collective *c) {
    const opencl_peers *p = e->device->peers;
    const cuda_stream stream = p->links->pushing;
    const size_t elem_bytes = opencl_elem_bytes_of(e, c);
    const sm_slice own = opencl_slice_of(p, c, p->rank);
    const cuda_address at = (cuda_address)own.first * elem_bytes;
    const size_t size_bytes = (size_t)(own.end - own.first) * elem_bytes;
    SM_TRY(is_sum(c) ? await(e, stream, added_word(p), c->number) : await_all(e, stream, OPENCL_READY, c->number));
    if (!is_sum(c)) {
        SM_TRY(cuda_check(id_of(e->device), "cuEventRecord", cuda.event_record(c->started, stream)));
    }
    for (int rank = 0; rank < p->n_processes && size_bytes > 0; rank++) {
        if (rank != p->rank && c->what.kind != SM_COLLECTIVE_REDUCE_SCATTER) {
            SM_TRY(cuda_check(id_of(e->device), "cuMemcpyDtoDAsync",
                              cuda.copy(place_in(e, c, rank) + at, c->address + at, size_bytes, stream)));
        }
    }
    SM_TRY(tell_all(e, stream, OPENCL_TAKEN, c->number));
    SM_TRY(await_all(e, p->links->ending, OPENCL_TAKEN, c->number));
    SM_TRY(cuda_check(id_of(e->device), "cuEventRecord", cuda.event_record(c->ended, p->links->ending)));
    return tell(e, p->links->ending, host_word(p, OPENCL_ENDED), c->number);
}

// Goes on with those that have landed, in the order of their begins. The caller has the lock.
static sm_status go_on(opencl_executable *e) {
    const opencl_peers *p = e->device->peers;
    opencl_landing *l = e->landing;
    while (l->first_left != NULL && !atomic_load(&p->is_aborted)) {
        opencl_collective *c = l->first_left;
        if (is_sum(c) && !has_come(p, OPENCL_LANDED, c->number)) {
            break;
        }
        SM_TRY(cuda_check(id_of(e->device), "cuCtxSetCurrent", cuda.context_set(p->context)));
        SM_TRY(is_sum(c) ? add(e, c) : SM_OK);
        SM_TRY(push(e, c));
        l->n_pushed = c->number;
        l->first_left = c == l->last_left ? NULL : c->after;
    }
    return SM_OK;
}

// --- what processes have here --------------------------------------------------------------------

// All processes come to their first exchange.
static sm_status link_all(opencl_executable *e) {
    for (int i = 0; i < e->n_arenas; i++) {
        SM_TRY(e->shared[i].buffer != NULL && e->shared[i].address_of == NULL ? opencl_link(e->device, &e->shared[i])
                                                                              : SM_OK);
    }
    for (int i = 0; i < e->n_rounded; i++) {
        SM_TRY(e->rounded[i].address_of == NULL ? opencl_link(e->device, &e->rounded[i]) : SM_OK);
    }
    return SM_OK;
}

static sm_status begin_locked(opencl_executable *e, opencl_collective *c) {
    opencl_peers *p = e->device->peers;
    opencl_landing *l = e->landing;
    c->number = ++p->links->n_begun;
    c->before = l->last_begun;
    c->after = NULL;
    c->is_in_stream = true;
    SM_TRY(cuda_check(id_of(e->device), "cuCtxSetCurrent", cuda.context_set(p->context)));
    SM_TRY(opencl_wait_in_stream(e->device, &c->begun));
    SM_TRY(tell_all(e, p->stream, OPENCL_READY, c->number));
    SM_TRY(is_sum(c) ? pull(e, c) : SM_OK);
    if (l->first_left == NULL) {
        l->first_left = c;
    } else {
        l->last_left->after = c;
    }
    l->last_left = l->last_begun = c;
    return go_on(e);
}

static sm_status begin(sm_executable *executable, const sm_collective *what, void **ticket) {
    opencl_executable *e = (opencl_executable *)executable;
    opencl_collective *c;
    SM_TRY(e->collectives == NULL ? link_all(e) : SM_OK);
    SM_TRY(opencl_begin_collective(e, what, ticket, &c));
    pthread_mutex_lock(&e->landing->lock);
    const sm_status status = begin_locked(e, c);
    pthread_mutex_unlock(&e->landing->lock);
    return status;
}

static sm_status is_done(sm_executable *executable, void *ticket, bool *is_done) {
    opencl_executable *e = (opencl_executable *)executable;
    const opencl_collective *c = ticket;
    opencl_landing *l = e->landing;
    pthread_mutex_lock(&l->lock);
    const sm_status status = go_on(e);
    *is_done = !atomic_load(&e->device->peers->is_aborted) && (int32_t)(l->n_pushed - c->number) >= 0 &&
               has_come(e->device->peers, OPENCL_ENDED, c->number);
    pthread_mutex_unlock(&l->lock);
    return status;
}

bool opencl_links_are_over(opencl_executable *e) {
    const opencl_peers *p = e->device->peers;
    pthread_mutex_lock(&e->landing->lock);
    (void)go_on(e);
    const bool is_left = e->landing->first_left != NULL && !atomic_load(&p->is_aborted);
    pthread_mutex_unlock(&e->landing->lock);
    return !is_left && cuda.stream_query(p->stream) != CUDA_NOT_READY &&
           cuda.stream_query(p->links->pushing) != CUDA_NOT_READY &&
           cuda.stream_query(p->links->ending) != CUDA_NOT_READY;
}

// Exchanges overlap: a time counts for the earlier one.
static int64_t elapsed_ns(sm_executable *executable, void *ticket) {
    const opencl_collective *c = ticket;
    float own_ms = 0, since_ms = 0;
    (void)executable;
    if (cuda.event_elapsed(&own_ms, c->started, c->ended) != CUDA_SUCCESS) {
        return 0;
    }
    const bool has_since = c->before != NULL && c->before != c &&
                           cuda.event_elapsed(&since_ms, c->before->ended, c->ended) == CUDA_SUCCESS;
    const float elapsed_ms = has_since && since_ms >= 0 && since_ms < own_ms ? since_ms : own_ms;
    return elapsed_ms > 0 ? (int64_t)((double)elapsed_ms * 1e6) : 0;
}

const sm_collectives sm_collectives_links = {
    .name = "p2p",
    .title = "the cards' own links",
    .is_of_host = true,
    .suits = opencl_peers_suit,
    .find = opencl_links_find,
    .make_id = opencl_links_make_id,
    .join = opencl_links_join,
    .describe = opencl_links_describe,
    .begin = begin,
    .is_done = is_done,
    .finish = opencl_finish_collective,
    .elapsed_ns = elapsed_ns,
    .abort = opencl_links_abort,
};
