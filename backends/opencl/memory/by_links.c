// by_links.c: exchanges that the cards' copy engines carry by their own links, without a library. Of exchange s between
// N processes, process r does, step by step, as soon as words (links.c) and the queue's events say that it may:
//
//     COMPUTED   an event: the queue has computed the part: write s to READY of all
//     ARRIVES    sums: READY of all: copy slice r of all parts here, and then write s to LANDED
//     LANDED     in the queue: sum slice r, in the order of ranks
//     LEAVES     an event: that is computed; or if nothing is summed READY of all: copy slice r to all, unless only the
//                sums are asked for; write s to TAKEN of all
//     TAKEN      of all: the exchange is over
//
// After TAKEN of all a process has what it needs, and the others have read what they need: its memory may change.
//
// Copies run next to the kernels that compute; on an H100 (driver 580) little else of CUDA does. A stream that waits
// for a word takes turns with the queue: each 2.4 ms the card looks at it, once the groups at work have ended, and the
// queue loses a tenth of its speed. So the launching thread looks at words in the host's memory, and streams only copy
// and write such words. A sum in a queue of its own keeps units from a product whose groups would fill all of them,
// which then takes twice as long. So sums are enqueued between kernels, and the launching thread stays close.
#include <sched.h>

#include "backends/opencl/memory/collective.h"
#include "clock.h"

enum { AHEAD = 2 }; // exchanges that the launching thread may be ahead of the device

typedef struct opencl_landing {
    opencl_shared memory;
    size_t slot_bytes;
    cl_kernel sum, sum_rounded;
    opencl_collective *first; // under way, in the order of their begins
    opencl_collective *last;
    unsigned n_arriving;        // slots in use
    unsigned n_slots;           // used so far
    int64_t last_end_ns;        // of moving
    uint64_t launches_at_begin; // enqueued when the last one began
    bool is_flushed;            // all events
} opencl_landing;

// --- landing memory ------------------------------------------------------------------------------

// Parts begin at whole lines.
static int64_t part_elems(int64_t n) { return (n + SM_SLICE_LINE - 1) / SM_SLICE_LINE * SM_SLICE_LINE; }

// A slot's room: for this process's slice, as all others have it.
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

// A sum waits in the queue for what the launching thread is ahead, and keeps its slot until then: eight slots, unless
// these would take over half a GiB.
static unsigned slots_of(size_t slot_bytes) { return slot_bytes <= (size_t)63 << 20 ? 8 : 4; }

static bool is_linked(const opencl_device *device) { return opencl_has_peers(device) && device->peers->links != NULL; }

size_t opencl_landing_bytes(const opencl_device *device, const sm_plan *plan) {
    return is_linked(device) ? slots_of(slot_bytes_of(plan)) * slot_bytes_of(plan) : 0;
}

sm_status opencl_reserve_landing(opencl_executable *e) {
    static const char options[] = "-DDATA_BF16";
    if (!is_linked(e->device) || !opencl_is_exchanged(e->device, e->base.plan, SM_ROLE_GRADIENT)) {
        return SM_OK;
    }
    opencl_landing *l = sm_calloc(1, sizeof *l);
    e->landing = l;
    l->slot_bytes = slot_bytes_of(e->base.plan);
    SM_TRY(opencl_get_kernel(e->device, "links", options, "links_sum", &l->sum));
    SM_TRY(opencl_get_kernel(e->device, "links", options, "links_sum_rounded", &l->sum_rounded));
    SM_TRY(opencl_share(e->device, l->slot_bytes == 0 ? 1 : slots_of(l->slot_bytes) * l->slot_bytes, &l->memory));
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

static bool is_sum(const opencl_collective *c) { return c->what.kind != SM_COLLECTIVE_ALL_GATHER; }

static opencl_matter of(const opencl_collective *c, opencl_matter matter) {
    return is_sum(c) ? OPENCL_OF_SUMS + matter : matter;
}

static bool has_told(const opencl_executable *e, int rank, opencl_matter matter, const opencl_collective *c) {
    const opencl_peers *p = e->device->peers;
    return (int32_t)(atomic_load(opencl_told_word(p, p->rank, of(c, matter), rank)) - c->number) >= 0;
}

// Whether the own stream has moved what it was given, whose time counts when that is first seen: not the time until the
// queue comes to a sum, nor that until others have moved theirs. Exchanges overlap: a time counts for the earlier one.
static bool has_moved(const opencl_executable *e, opencl_collective *c, opencl_matter matter) {
    opencl_landing *l = e->landing;
    const bool has = has_told(e, e->device->peers->rank, matter, c);
    if (has && c->start_ns != 0) {
        const int64_t now_ns = sm_now_ns();
        c->busy_ns += now_ns - (c->start_ns > l->last_end_ns ? c->start_ns : l->last_end_ns);
        l->last_end_ns = now_ns;
        c->start_ns = 0;
    }
    return has;
}

static bool have_all_told(const opencl_executable *e, opencl_matter matter, const opencl_collective *c) {
    bool have = true;
    for (int rank = 0; rank < e->device->peers->n_processes && have; rank++) {
        have = has_told(e, rank, matter, c);
    }
    return have;
}

static void tell_all(const opencl_executable *e, opencl_matter matter, const opencl_collective *c) {
    const opencl_peers *p = e->device->peers;
    for (int rank = 0; rank < p->n_processes; rank++) {
        atomic_store(opencl_told_word(p, rank, of(c, matter), p->rank), c->number);
    }
}

// After what the stream does before.
static sm_status tell_by(const opencl_executable *e, cuda_stream stream, int rank, opencl_matter matter,
                         const opencl_collective *c) {
    const opencl_peers *p = e->device->peers;
    const cuda_address word = p->links->told[rank].address + opencl_told_at(of(c, matter), p->rank);
    return cuda_check(id_of(e->device), "cuStreamWriteValue32", cuda.stream_write_value(stream, word, c->number, 0));
}

// --- events of the queue -------------------------------------------------------------------------

// An event of all that was enqueued so far, once that is flushed.
static sm_status mark(opencl_executable *e, cl_event *event) {
    e->landing->is_flushed = false;
    return OPENCL_CALL(e->device, clEnqueueMarkerWithWaitList, e->device->queue, 0, NULL, event);
}

// NVIDIA's driver 580 stalls a card for 10 to 20 ms after each 8,192 flushes, so they are few.
static sm_status flush(opencl_executable *e) {
    const bool is_flushed = e->landing->is_flushed;
    e->landing->is_flushed = true;
    return is_flushed ? SM_OK : OPENCL_CALL(e->device, clFlush, e->device->queue);
}

static void await(opencl_collective *c, cl_event event) {
    (void)opencl.clRetainEvent(event);
    opencl_release_event(c->computed);
    c->computed = event;
}

static sm_status is_computed(const opencl_executable *e, opencl_collective *c, bool *is_computed) {
    *is_computed = c->computed == NULL;
    SM_TRY(*is_computed ? SM_OK : opencl_look_at(id_of(e->device), c->computed, is_computed));
    if (*is_computed) {
        opencl_release_event(c->computed);
        c->computed = NULL;
    }
    return SM_OK;
}

// --- what an exchange does -----------------------------------------------------------------------

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

// The exchanged data's address in the memory of rank `rank`.
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
    const size_t part_bytes = (size_t)part_elems(s.n_elems) * opencl_elem_bytes_of(e, c);
    l->n_arriving++;
    c->slot = l->n_slots++ % slots_of(l->slot_bytes);
    c->start_ns = sm_now_ns();
    const cuda_address slot = l->memory.address + c->slot * l->slot_bytes;
    for (int k = 1; k < p->n_processes && s.size_bytes > 0; k++) { // at a time, each from another card
        const int rank = (p->rank + k) % p->n_processes;
        const cuda_address to = slot + (size_t)(rank - (rank > p->rank)) * part_bytes;
        SM_TRY(copy(e, to, place_in(e, c, rank) + s.at_bytes, s.size_bytes, p->stream));
    }
    return tell_by(e, p->stream, p->rank, OPENCL_LANDED, c);
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
    const cl_ulong n = (cl_ulong)s->n_elems, each = (cl_ulong)part_elems(s->n_elems);
    const cl_uint n_parts = (cl_uint)p->n_processes, own = (cl_uint)p->rank;
    const size_t group = (size_t)d->sizes.group, global = ((size_t)n + 4 * group - 1) / (4 * group) * group;
    const opencl_argument arguments[] = {
        OPENCL_ARGUMENT(n),         OPENCL_ARGUMENT(n_parts), OPENCL_ARGUMENT(own), OPENCL_ARGUMENT(l->memory.buffer),
        OPENCL_ARGUMENT(theirs_at), OPENCL_ARGUMENT(each),    OPENCL_ARGUMENT(sum), OPENCL_ARGUMENT(sum_at)};
    SM_TRY(opencl_set_arguments(d, kernel, arguments, (int)(sizeof arguments / sizeof arguments[0])));
    return OPENCL_CALL(d, clEnqueueNDRangeKernel, d->queue, kernel, 1, NULL, &global, &group, 0, NULL, NULL);
}

static sm_status push(opencl_executable *e, opencl_collective *c) {
    const opencl_peers *p = e->device->peers;
    const cuda_stream stream = p->links->pushing;
    const own_slice s = slice_of(e, c);
    if (c->what.kind == SM_COLLECTIVE_REDUCE_SCATTER) {
        tell_all(e, OPENCL_TAKEN, c);
        return SM_OK;
    }
    c->start_ns = sm_now_ns();
    const cuda_address from = place_in(e, c, p->rank) + s.at_bytes;
    for (int k = 1; k < p->n_processes && s.size_bytes > 0; k++) {
        const int rank = (p->rank + k) % p->n_processes;
        SM_TRY(copy(e, place_in(e, c, rank) + s.at_bytes, from, s.size_bytes, stream));
    }
    for (int rank = 0; rank < p->n_processes; rank++) {
        SM_TRY(tell_by(e, stream, rank, OPENCL_TAKEN, c));
    }
    return SM_OK;
}

// One step of an exchange, if it may be done now. Words of one kind are written in the order of the begins.
static sm_status step(opencl_executable *e, opencl_collective *c, opencl_stage before, bool *is_done) {
    opencl_landing *l = e->landing;
    const opencl_stage from = c->stage;
    bool computed = true;
    switch (from) {
    case OPENCL_STAGE_COMPUTED:
        SM_TRY(before > from ? is_computed(e, c, &computed) : SM_OK);
        if (before > from && computed) {
            c->stage = is_sum(c) ? OPENCL_STAGE_ARRIVES : OPENCL_STAGE_LEAVES;
            tell_all(e, OPENCL_READY, c);
        }
        break;
    case OPENCL_STAGE_ARRIVES:
        if (before > from && l->n_arriving < slots_of(l->slot_bytes) && have_all_told(e, OPENCL_READY, c)) {
            c->stage = OPENCL_STAGE_LANDED;
            SM_TRY(pull(e, c));
        }
        break;
    case OPENCL_STAGE_LANDED: (void)has_moved(e, c, OPENCL_LANDED); break; // add_landed goes on
    case OPENCL_STAGE_LEAVES:
        SM_TRY(before > from ? is_computed(e, c, &computed) : SM_OK);
        if (before > from && computed && have_all_told(e, OPENCL_READY, c)) {
            l->n_arriving -= is_sum(c);
            c->stage = OPENCL_STAGE_TAKEN;
            SM_TRY(push(e, c));
        }
        break;
    case OPENCL_STAGE_TAKEN:
        if (has_moved(e, c, OPENCL_TAKEN) && have_all_told(e, OPENCL_TAKEN, c)) {
            c->stage = OPENCL_STAGE_OVER;
        }
        break;
    case OPENCL_STAGE_OVER: break;
    }
    *is_done = c->stage != from;
    return SM_OK;
}

// All steps that may be done now.
static sm_status go_on(opencl_executable *e) {
    opencl_landing *l = e->landing;
    SM_TRY(cuda_check(id_of(e->device), "cuCtxSetCurrent", cuda.context_set(e->device->peers->context)));
    opencl_stage before[2] = {OPENCL_STAGE_OVER, OPENCL_STAGE_OVER}; // the last gather's, the last sum's
    for (opencl_collective *c = l->first; c != NULL; c = c->after) {
        for (bool is_done = true; is_done;) {
            SM_TRY(step(e, c, before[is_sum(c)], &is_done));
        }
        before[is_sum(c)] = c->stage;
    }
    while (l->first != NULL && l->first->stage == OPENCL_STAGE_OVER) {
        l->first = l->first->after;
    }
    return SM_OK;
}

// Whether the queue is still where the last exchange began: that one's event then serves this one, too.
static bool is_at_last_begin(const opencl_executable *e, const opencl_collective *begun) {
    const opencl_collective *last = e->landing->last;
    return begun->bucket < 0 && last != NULL && last->stage == OPENCL_STAGE_COMPUTED &&
           e->landing->launches_at_begin == e->n_enqueued;
}

// Sums what has landed, and marks the queue after it, and for a begun exchange (or NULL).
static sm_status add_landed(opencl_executable *e, opencl_collective *begun) {
    opencl_landing *l = e->landing;
    opencl_collective *first = NULL; // parts land in the order of the begins
    int n_sums = 0;
    cl_event here = NULL;
    for (opencl_collective *c = l->first; c != NULL; c = c->after) {
        if (c->stage == OPENCL_STAGE_LANDED && has_moved(e, c, OPENCL_LANDED)) {
            const own_slice s = slice_of(e, c);
            SM_TRY(s.n_elems > 0 ? enqueue_sum(e, c, &s) : SM_OK);
            c->stage = OPENCL_STAGE_LEAVES;
            first = n_sums++ == 0 ? c : first;
        }
    }
    if (n_sums > 0 || (begun != NULL && !is_at_last_begin(e, begun))) {
        SM_TRY(mark(e, &here));
        l->launches_at_begin = begun != NULL ? e->n_enqueued : l->launches_at_begin;
    }
    for (opencl_collective *c = first; n_sums > 0; c = c->after) {
        if (is_sum(c)) {
            await(c, here);
            n_sums--;
        }
    }
    if (begun != NULL) {
        await(begun, here != NULL ? here : l->last->computed);
    }
    opencl_release_event(here);
    return SM_OK;
}

// All that may be done now, and the begin of an exchange (or NULL). In the computing thread, or another while it waits.
static sm_status advance(opencl_executable *e, opencl_collective *begun) {
    opencl_landing *l = e->landing;
    SM_TRY(go_on(e));
    SM_TRY(add_landed(e, begun));
    if (begun != NULL) {
        begun->stage = OPENCL_STAGE_COMPUTED;
        begun->after = NULL;
        *(l->first == NULL ? &l->first : &l->last->after) = begun;
        l->last = begun;
    }
    return flush(e);
}

// The number of places in the queue at which exchanges begin and that the device has not reached.
static int n_ahead(opencl_executable *e) {
    cl_event last = NULL;
    int n = 0;
    for (const opencl_collective *c = e->landing->first; c != NULL; c = c->after) {
        if (c->stage == OPENCL_STAGE_COMPUTED) {
            n += n == 0 || c->computed != last;
            last = c->computed;
        }
    }
    return n;
}

static bool is_aborted(const opencl_executable *e) { return atomic_load(&e->device->peers->is_aborted); }

// A device that hangs is left to the wait that ends at the deadline.
static bool is_late(const opencl_executable *e) {
    return e->base.deadline_ns != 0 && sm_now_ns() > e->base.deadline_ns;
}

// The launching thread waits until the device has come closer. Parts that land meanwhile are summed before the kernels
// that it launches next, and flushed with these; if no other process waits for the sums, after these kernels.
static sm_status wait_for_device(opencl_executable *e, const opencl_collective *begun) {
    while (n_ahead(e) > AHEAD && !is_aborted(e) && !is_late(e)) {
        sched_yield();
        SM_TRY(go_on(e));
    }
    return begun->what.kind != SM_COLLECTIVE_REDUCE_SCATTER ? add_landed(e, NULL) : SM_OK;
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

// Memory must not go before the streams have copied.
static bool end(opencl_executable *e) {
    enum { LOOKS = 2000 };
    static const struct timespec rest = {.tv_nsec = 1000000};
    opencl_peers *p = e->device->peers;
    const cuda_stream streams[] = {p->stream, p->links->pushing};
    (void)cuda.context_set(p->context);
    for (int i = 0, n = 0; i < 2; i++) {
        while (cuda.stream_query(streams[i]) == CUDA_NOT_READY) {
            if (n++ == LOOKS) {
                p->is_busy = true;
                return false;
            }
            nanosleep(&rest, NULL);
        }
    }
    return true;
}

static sm_status begin(sm_executable *executable, const sm_collective *what, void **ticket) {
    opencl_executable *e = (opencl_executable *)executable;
    opencl_collective *c;
    e->end_collectives = end;
    SM_TRY(e->collectives == NULL ? link_all(e) : SM_OK);
    SM_TRY(opencl_begin_collective(e, what, ticket, &c));
    c->number = ++e->device->peers->links->n_begun;
    c->busy_ns = 0;
    SM_TRY(advance(e, c));
    return wait_for_device(e, c);
}

// Exchanges continue while the device computes what was enqueued so far, and this one is not over.
static sm_status synchronize(sm_executable *executable, const void *ticket) {
    opencl_executable *e = (opencl_executable *)executable;
    const opencl_collective *c = ticket;
    cl_event here = NULL;
    bool is_here = false;
    SM_TRY(opencl_check_lost(e));
    sm_status status = mark(e, &here);
    status = status == SM_OK ? flush(e) : status;
    while (status == SM_OK && !is_here && c->stage != OPENCL_STAGE_OVER && !is_aborted(e) && !is_late(e)) {
        sched_yield();
        status = advance(e, NULL);
        status = status == SM_OK ? opencl_look_at(id_of(e->device), here, &is_here) : status;
    }
    opencl_release_event(here);
    SM_TRY(status);
    return is_late(e) ? opencl_wait(e, "clFinish", e->device->queue, NULL) : SM_OK;
}

static sm_status is_done(sm_executable *executable, void *ticket, bool *is_done) {
    opencl_executable *e = (opencl_executable *)executable;
    const opencl_collective *c = ticket;
    SM_TRY(c->stage != OPENCL_STAGE_OVER && !is_aborted(e) ? advance(e, NULL) : SM_OK);
    *is_done = c->stage == OPENCL_STAGE_OVER;
    return SM_OK;
}

// Others wait for copies that are not started yet.
static sm_status is_settled(sm_executable *executable, bool *is_settled) {
    opencl_executable *e = (opencl_executable *)executable;
    SM_TRY(is_aborted(e) ? SM_OK : advance(e, NULL));
    *is_settled = true;
    for (const opencl_collective *c = e->landing->first; c != NULL && *is_settled; c = c->after) {
        *is_settled = c->stage >= OPENCL_STAGE_TAKEN;
    }
    return SM_OK;
}

static int64_t elapsed_ns(SM_UNUSED sm_executable *executable, void *ticket) {
    return ((const opencl_collective *)ticket)->busy_ns;
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
    .synchronize = synchronize,
    .is_settled = is_settled,
    .is_done = is_done,
    .finish = opencl_finish_collective,
    .elapsed_ns = elapsed_ns,
    .abort = opencl_links_abort,
};
