// by_links.c: exchanges that the cards' copy engines carry by their own links, without a library. Of exchange s between
// N processes, process r does, in its queue and three streams, which wait for words (links.c), each written by the one
// that is named:
//
//     queue     computes its part, and writes s to BEGUN
//     stream    awaits BEGUN, and writes s to READY of all
//               sums: awaits READY of all, copies slice r of all parts here, writes s to LANDED
//     queue     when the next exchange begins, or the step needs the sums: awaits LANDED, sums slice r in the order of
//               ranks, and writes s to ADDED
//     pushing   awaits ADDED, or if nothing is summed READY of all; copies slice r to all, unless only the sums are
//               asked for; writes s to TAKEN of all
//     ending    awaits TAKEN of all
//
// After TAKEN of all a process has what it needs, and the others have read what they need: its memory may change.
// Copies run next to the kernels that compute. Sums would, too, in a queue of their own, but they make them slower: a
// product whose groups fill all units at once takes twice as long when one unit is missing (H100: 1 to 6 ms a step).
#include <stdlib.h>
#include <time.h>

#include "backends/opencl/memory/collective.h"

enum { LANDINGS = 2 }; // what is summed while the next one arrives

typedef struct opencl_landing {
    opencl_shared memory;
    size_t slot_bytes;
    uint32_t last_flags[LANDINGS]; // of ADDED, when the slot is free again
    unsigned n_used;
    cl_kernel sum, sum_rounded;
    opencl_collective *left; // begun and not added; NULL: none
    opencl_collective *last;
    uint32_t n_added; // flags of ADDED written so far
} opencl_landing;

// --- landing memory ------------------------------------------------------------------------------

// Parts begin at whole lines.
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
    e->landing = l;
    l->slot_bytes = slot_bytes_of(e->base.plan);
    SM_TRY(opencl_get_kernel(e->device, "links", options, "links_sum", &l->sum));
    SM_TRY(opencl_get_kernel(e->device, "links", options, "links_sum_rounded", &l->sum_rounded));
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

static sm_status await_all(const opencl_executable *e, cuda_stream stream, opencl_matter matter, uint32_t number) {
    const opencl_peers *p = e->device->peers;
    for (int rank = 0; rank < p->n_processes; rank++) {
        SM_TRY(await(e, stream, opencl_word_of(p, p->rank, matter, rank), number));
    }
    return SM_OK;
}

static sm_status tell_all(const opencl_executable *e, cuda_stream stream, opencl_matter matter, uint32_t number) {
    const opencl_peers *p = e->device->peers;
    for (int rank = 0; rank < p->n_processes; rank++) {
        SM_TRY(tell(e, stream, opencl_word_of(p, rank, matter, p->rank), number));
    }
    return SM_OK;
}

static cuda_address own_word(const opencl_peers *p, opencl_own_word word) {
    return p->words.address + opencl_word_at((int)word);
}

static sm_status record(const opencl_executable *e, cuda_event event, cuda_stream stream) {
    return cuda_check(id_of(e->device), "cuEventRecord", cuda.event_record(event, stream));
}

// --- an exchange ---------------------------------------------------------------------------------

static bool is_sum(const opencl_collective *c) { return c->what.kind != SM_COLLECTIVE_ALL_GATHER; }

typedef struct {
    int64_t n_elems;
    size_t at_bytes; // in the tensor
    size_t size_bytes;
} own_slice;

static own_slice slice_of(const opencl_executable *e, const opencl_collective *c) {
    const opencl_peers *p = e->device->peers;
    const size_t elem_bytes = opencl_elem_bytes_of(e, c);
    const sm_slice s = sm_slice_of(c->n_elems, c->what.line_elems, p->rank, p->n_processes);
    return (own_slice){s.end - s.first, (size_t)s.first * elem_bytes, (size_t)(s.end - s.first) * elem_bytes};
}

// In rank `rank`'s memory.
static cuda_address place_in(const opencl_executable *e, const opencl_collective *c, int rank) {
    const sm_tensor *t = &e->base.plan->tensors[c->what.tensor];
    return c->bucket >= 0 ? e->rounded[c->bucket].linked[rank].address
                          : e->shared[t->arena].linked[rank].address + t->offset_bytes;
}

static sm_status copy(const opencl_executable *e, cuda_address to, cuda_address from, size_t size_bytes,
                      cuda_stream stream) {
    return cuda_check(id_of(e->device), "cuMemcpyDtoDAsync", cuda.copy(to, from, size_bytes, stream));
}

static sm_status pull(opencl_executable *e, opencl_collective *c) {
    const opencl_peers *p = e->device->peers;
    opencl_landing *l = e->landing;
    const own_slice s = slice_of(e, c);
    const unsigned slot = l->n_used++ % LANDINGS;
    const size_t part_bytes = (size_t)part_elems(s.n_elems) * opencl_elem_bytes_of(e, c);
    c->slot = slot;
    SM_TRY(l->last_flags[slot] == 0 ? SM_OK : await(e, p->stream, own_word(p, OPENCL_ADDED), l->last_flags[slot]));
    SM_TRY(await_all(e, p->stream, OPENCL_READY, c->number));
    SM_TRY(record(e, c->started, p->stream));
    cuda_address to = l->memory.address + slot * l->slot_bytes;
    for (int rank = 0; rank < p->n_processes; rank++) {
        if (rank != p->rank && s.size_bytes > 0) {
            SM_TRY(copy(e, to, place_in(e, c, rank) + s.at_bytes, s.size_bytes, p->stream));
            to += part_bytes;
        }
    }
    return tell(e, p->stream, own_word(p, OPENCL_LANDED), c->number);
}

static sm_status enqueue_sum(opencl_executable *e, const opencl_collective *c, const own_slice *s) {
    const opencl_device *d = e->device;
    const opencl_peers *p = d->peers;
    const opencl_landing *l = e->landing;
    const sm_tensor *t = &e->base.plan->tensors[c->what.tensor];
    const size_t elem_bytes = opencl_elem_bytes_of(e, c);
    const bool is_rounded = c->bucket >= 0;
    const cl_kernel kernel = is_rounded ? l->sum_rounded : l->sum;
    const cl_mem sum = is_rounded ? e->rounded[c->bucket].buffer : e->shared[t->arena].buffer;
    const cl_ulong sum_at = ((is_rounded ? 0 : t->offset_bytes) + s->at_bytes) / elem_bytes;
    const cl_ulong theirs_at = c->slot * l->slot_bytes / elem_bytes;
    const cl_ulong word_at = opencl_word_at(OPENCL_LANDED) / sizeof(uint32_t);
    const cl_ulong n = (cl_ulong)s->n_elems, each = (cl_ulong)part_elems(s->n_elems);
    const cl_uint number = c->number, n_parts = (cl_uint)p->n_processes, own = (cl_uint)p->rank;
    const size_t group = (size_t)d->sizes.group, global = ((size_t)n + 4 * group - 1) / (4 * group) * group;
    const opencl_argument arguments[] = {OPENCL_ARGUMENT(p->words.buffer),
                                         OPENCL_ARGUMENT(word_at),
                                         OPENCL_ARGUMENT(number),
                                         OPENCL_ARGUMENT(n),
                                         OPENCL_ARGUMENT(n_parts),
                                         OPENCL_ARGUMENT(own),
                                         OPENCL_ARGUMENT(l->memory.buffer),
                                         OPENCL_ARGUMENT(theirs_at),
                                         OPENCL_ARGUMENT(each),
                                         OPENCL_ARGUMENT(sum),
                                         OPENCL_ARGUMENT(sum_at)};
    SM_TRY(opencl_set_arguments(d, kernel, arguments, (int)(sizeof arguments / sizeof arguments[0])));
    return opencl_check(id_of(d), "clEnqueueNDRangeKernel",
                        opencl.clEnqueueNDRangeKernel(d->queue, kernel, 1, NULL, &global, &group, 0, NULL, NULL));
}

static sm_status add(opencl_executable *e, opencl_collective *c) {
    const opencl_device *d = e->device;
    opencl_landing *l = e->landing;
    const own_slice s = slice_of(e, c);
    const cl_uint flag = ++l->n_added;
    SM_TRY(s.n_elems > 0 ? enqueue_sum(e, c, &s) : SM_OK);
    SM_TRY(opencl_check(id_of(d), "clEnqueueFillBuffer, of a word",
                        opencl.clEnqueueFillBuffer(d->queue, d->peers->words.buffer, &flag, sizeof flag,
                                                   opencl_word_at(OPENCL_ADDED), sizeof flag, 0, NULL, NULL)));
    l->last_flags[c->slot] = flag;
    c->added = flag;
    return opencl_check(id_of(d), "clFlush", opencl.clFlush(d->queue));
}

static sm_status push(opencl_executable *e, opencl_collective *c) {
    const opencl_peers *p = e->device->peers;
    const cuda_stream stream = p->links->pushing;
    const own_slice s = slice_of(e, c);
    if (is_sum(c)) {
        SM_TRY(await(e, stream, own_word(p, OPENCL_ADDED), c->added));
    } else {
        SM_TRY(await_all(e, stream, OPENCL_READY, c->number));
        SM_TRY(record(e, c->started, stream));
    }
    for (int rank = 0; rank < p->n_processes; rank++) {
        if (rank != p->rank && s.size_bytes > 0 && c->what.kind != SM_COLLECTIVE_REDUCE_SCATTER) {
            SM_TRY(
                copy(e, place_in(e, c, rank) + s.at_bytes, place_in(e, c, p->rank) + s.at_bytes, s.size_bytes, stream));
        }
    }
    SM_TRY(tell_all(e, stream, OPENCL_TAKEN, c->number));
    SM_TRY(await_all(e, p->links->ending, OPENCL_TAKEN, c->number));
    SM_TRY(record(e, c->ended, p->links->ending));
    c->is_in_stream = true;
    return SM_OK;
}

// Sums and pushes what was left: the streams then have all exchanges in the order of their begins.
static sm_status complete(sm_executable *executable) {
    opencl_executable *e = (opencl_executable *)executable;
    opencl_collective *c = e->landing->left;
    if (c == NULL) {
        return SM_OK;
    }
    e->landing->left = NULL;
    SM_TRY(cuda_check(id_of(e->device), "cuCtxSetCurrent", cuda.context_set(e->device->peers->context)));
    SM_TRY(add(e, c));
    return push(e, c);
}

// --- begin and end -------------------------------------------------------------------------------

// All processes come to their first exchange.
static sm_status link_all(opencl_executable *e) {
    for (int i = 0; i < e->n_arenas; i++) {
        opencl_shared *s = &e->shared[i];
        SM_TRY(s->buffer != NULL && s->linked == NULL ? opencl_link(e->device, s) : SM_OK);
    }
    for (int i = 0; i < e->n_rounded; i++) {
        SM_TRY(e->rounded[i].linked == NULL ? opencl_link(e->device, &e->rounded[i]) : SM_OK);
    }
    return SM_OK;
}

static sm_status begin(sm_executable *executable, const sm_collective *what, void **ticket) {
    opencl_executable *e = (opencl_executable *)executable;
    opencl_peers *p = e->device->peers;
    opencl_collective *c;
    SM_TRY(e->collectives == NULL ? link_all(e) : SM_OK);
    SM_TRY(opencl_begin_collective(e, what, ticket, &c));
    c->number = ++p->links->n_begun;
    c->before = e->landing->last;
    c->is_in_stream = false;
    e->landing->last = c;
    SM_TRY(opencl_wait_in_stream(e->device, &c->begun));
    SM_TRY(tell_all(e, p->stream, OPENCL_READY, c->number));
    SM_TRY(is_sum(c) ? pull(e, c) : SM_OK);
    SM_TRY(complete(executable));
    if (!is_sum(c)) {
        return push(e, c);
    }
    e->landing->left = c;
    return SM_OK;
}

static sm_status is_done(sm_executable *executable, void *ticket, bool *is_done) {
    const opencl_device *d = ((const opencl_executable *)executable)->device;
    const opencl_collective *c = ticket;
    *is_done = false;
    if (!c->is_in_stream || atomic_load(&d->peers->is_aborted)) {
        return SM_OK;
    }
    SM_TRY(cuda_check(id_of(d), "cuCtxSetCurrent", cuda.context_set(d->peers->context)));
    const int code = cuda.event_query(c->ended);
    *is_done = code == CUDA_SUCCESS;
    return code == CUDA_NOT_READY ? SM_OK : cuda_check(id_of(d), "cuEventQuery", code);
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

// Memory must not go before the streams have ended; what waits for processes that have gone is ended.
bool opencl_end_links(opencl_executable *e) {
    enum { LOOKS = 1000 };
    static const struct timespec rest = {.tv_nsec = 1000000};
    opencl_peers *p = e->device->peers;
    const cuda_stream streams[] = {p->stream, p->links->pushing, p->links->ending};
    (void)cuda.context_set(p->context);
    if (e->landing->left != NULL) {
        opencl_links_abort(&e->device->base);
    }
    for (int i = 0, n = 0; i < 3; i++) {
        while (cuda.stream_query(streams[i]) == CUDA_NOT_READY) {
            if (n == LOOKS) {
                opencl_links_abort(&e->device->base);
            }
            if (n++ == 2 * LOOKS) {
                p->is_busy = true;
                return false;
            }
            nanosleep(&rest, NULL);
        }
    }
    return true;
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
    .complete = complete,
    .is_done = is_done,
    .finish = opencl_finish_collective,
    .elapsed_ns = elapsed_ns,
    .abort = opencl_links_abort,
};
