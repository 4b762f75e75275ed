// by_links.c: exchanges in which each card's kernels read and write the other cards' memory, over their own links. Of
// exchange s between N processes, process r does:
//
//     the computing queue   computes its part, and tells all READY s
//     the queue of copies   awaits READY s of all; sums slice r of all parts, and gives the sum to all (or gives its
//                           slice); tells all TAKEN s; awaits TAKEN s of all
//
// After TAKEN of all a process has what it needs, and the others have read what they need: its memory may change. All of
// it is enqueued at the begin, and runs next to the kernels that compute. A processor's queues do not work at the same
// time, so a kernel must not wait there: the communicating thread looks, and enqueues what is due.
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "backends/opencl/memory/collective.h"

enum { LINK_GROUPS = 32 }; // few: the others' kernels need the units; more are no faster

typedef struct opencl_linked {
    pthread_mutex_t lock;
    opencl_collective *first_left; // whose READY not all have told, in the order of their begins
    opencl_collective *last_left;
    uint32_t n_exchanged;
} opencl_linked;

sm_status opencl_reserve_links(opencl_executable *e) {
    opencl_linked *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return sm_fail(SM_ERR_OOM, "%s: no memory for exchanges", id_of(e->device));
    }
    pthread_mutex_init(&l->lock, NULL);
    e->linked = l;
    return opencl_open_copy_queue(e->device, OPENCL_QUEUE_IN, true);
}

void opencl_free_links(opencl_executable *e) {
    if (e->linked != NULL) {
        pthread_mutex_destroy(&e->linked->lock);
        free(e->linked);
    }
}

// All processes come to their first exchange.
static sm_status link_all(opencl_executable *e) {
    for (int i = 0; i < e->n_arenas; i++) {
        opencl_shared *s = &e->shared[i];
        SM_TRY(s->buffer != NULL && s->buffer_of == NULL ? opencl_link(e->device, s) : SM_OK);
    }
    for (int i = 0; i < e->n_rounded; i++) {
        SM_TRY(e->rounded[i].buffer_of == NULL ? opencl_link(e->device, &e->rounded[i]) : SM_OK);
    }
    return SM_OK;
}

// --- an exchange ---------------------------------------------------------------------------------

// The same memory in all processes, as arguments.
static void name_parts(const opencl_peers *p, const opencl_shared *s, opencl_argument *arguments) {
    for (int rank = 0; rank < OPENCL_MOST_LINKED; rank++) {
        const cl_mem *buffer = &s->buffer_of[rank < p->n_processes ? rank : p->rank];
        arguments[rank] = (opencl_argument){sizeof *buffer, buffer};
    }
}

static sm_status enqueue(const opencl_device *d, cl_kernel kernel, const opencl_argument *arguments, int n_arguments,
                         cl_ulong n_vecs, cl_event *event) {
    const size_t group = (size_t)d->sizes.group;
    const size_t n_groups = ((size_t)n_vecs + group - 1) / group;
    const size_t global = (n_groups < 1 ? 1 : n_groups < LINK_GROUPS ? n_groups : LINK_GROUPS) * group;
    SM_TRY(opencl_set_arguments(d, kernel, arguments, n_arguments));
    return opencl_check(
        id_of(d), "clEnqueueNDRangeKernel",
        opencl.clEnqueueNDRangeKernel(d->copies[OPENCL_QUEUE_IN], kernel, 1, NULL, &global, &group, 0, NULL, event));
}

static sm_status sum_or_give(opencl_executable *e, const opencl_collective *c, cl_event *event) {
    enum { MOST_ARGUMENTS = 5 };
    const opencl_peers *p = e->device->peers;
    const sm_tensor *t = &e->base.plan->tensors[c->what.tensor];
    const size_t elem_bytes = opencl_elem_bytes_of(e, c);
    const sm_slice slice = sm_slice_of(c->n_elems, c->what.line_elems, p->rank, p->n_processes);
    const cl_uint n_parts = (cl_uint)p->n_processes, own = (cl_uint)p->rank;
    const cl_uint gives = c->what.kind == SM_COLLECTIVE_ALL_REDUCE;
    const cl_ulong first = (c->bucket >= 0 ? 0 : t->offset_bytes / elem_bytes) + (cl_ulong)slice.first;
    const cl_ulong n = (cl_ulong)(slice.end - slice.first);
    opencl_argument arguments[MOST_ARGUMENTS + OPENCL_MOST_LINKED] = {OPENCL_ARGUMENT(n_parts), OPENCL_ARGUMENT(own)};
    if (c->what.kind == SM_COLLECTIVE_ALL_GATHER) {
        const cl_ulong pairs = elem_bytes / sizeof(cl_ushort);
        const cl_ulong at = first * pairs, n_pairs = n * pairs;
        arguments[2] = (opencl_argument)OPENCL_ARGUMENT(at);
        arguments[3] = (opencl_argument)OPENCL_ARGUMENT(n_pairs);
        name_parts(p, &e->shared[t->arena], arguments + 4);
        return enqueue(e->device, p->links->give, arguments, 4 + OPENCL_MOST_LINKED, n_pairs / 8, event);
    }
    arguments[2] = (opencl_argument)OPENCL_ARGUMENT(gives);
    arguments[3] = (opencl_argument)OPENCL_ARGUMENT(first);
    arguments[4] = (opencl_argument)OPENCL_ARGUMENT(n);
    name_parts(p, c->bucket >= 0 ? &e->rounded[c->bucket] : &e->shared[t->arena], arguments + 5);
    return enqueue(e->device, c->bucket >= 0 ? p->links->sum_rounded : p->links->sum, arguments, 5 + OPENCL_MOST_LINKED,
                   n / 4, event);
}

static sm_status exchange(opencl_executable *e, opencl_collective *c) {
    opencl_device *d = e->device;
    const cl_command_queue queue = d->copies[OPENCL_QUEUE_IN];
    const bool waits = d->peers->links->has_queues;
    SM_TRY(waits ? opencl_await_all(d, queue, OPENCL_READY, c->number, &c->events[0]) : SM_OK);
    SM_TRY(sum_or_give(e, c, NULL));
    SM_TRY(opencl_tell_all(d, queue, OPENCL_TAKEN, c->number));
    return waits ? opencl_await_all(d, queue, OPENCL_TAKEN, c->number, &c->events[1]) : SM_OK;
}

// Exchanges what all are ready for, in the order of the begins. The caller has the lock.
static sm_status go_on(opencl_executable *e) {
    const opencl_peers *p = e->device->peers;
    opencl_linked *l = e->linked;
    while (l->first_left != NULL && !atomic_load(&p->is_aborted)) {
        opencl_collective *c = l->first_left;
        bool is_ready = true;
        SM_TRY(p->links->has_queues ? SM_OK : opencl_have_all(e->device, OPENCL_READY, c->number, &is_ready));
        if (!is_ready) {
            break;
        }
        l->first_left = c == l->last_left ? NULL : c->after;
        l->n_exchanged = c->number;
        SM_TRY(exchange(e, c));
    }
    return SM_OK;
}

static void forget_events(opencl_collective *c) {
    for (int i = 0; i < 2; i++) {
        if (c->events[i] != NULL) {
            opencl.clReleaseEvent(c->events[i]);
            c->events[i] = NULL;
        }
    }
}

static sm_status begin_locked(opencl_executable *e, opencl_collective *c) {
    opencl_linked *l = e->linked;
    c->number = ++e->device->peers->links->n_begun;
    c->after = NULL;
    forget_events(c);
    SM_TRY(opencl_tell_all(e->device, e->device->queue, OPENCL_READY, c->number));
    if (l->first_left == NULL) {
        l->first_left = c;
    } else {
        l->last_left->after = c;
    }
    l->last_left = c;
    return go_on(e);
}

static sm_status begin(sm_executable *executable, const sm_collective *what, void **ticket) {
    opencl_executable *e = (opencl_executable *)executable;
    opencl_collective *c;
    SM_TRY(e->collectives == NULL ? link_all(e) : SM_OK);
    SM_TRY(opencl_begin_collective(e, what, ticket, &c));
    pthread_mutex_lock(&e->linked->lock);
    const sm_status status = begin_locked(e, c);
    pthread_mutex_unlock(&e->linked->lock);
    return status;
}

// --- its end -------------------------------------------------------------------------------------

static sm_status look(opencl_executable *e, const opencl_collective *c, bool *is_done) {
    SM_TRY(go_on(e));
    if (atomic_load(&e->device->peers->is_aborted) || (int32_t)(e->linked->n_exchanged - c->number) < 0) {
        return SM_OK;
    }
    if (c->events[1] == NULL) {
        return opencl_have_all(e->device, OPENCL_TAKEN, c->number, is_done);
    }
    cl_int state = CL_COMPLETE;
    const cl_int code =
        opencl.clGetEventInfo(c->events[1], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    *is_done = code == CL_SUCCESS && state == CL_COMPLETE;
    return opencl_check(id_of(e->device), "clGetEventInfo, of an exchange",
                        code != CL_SUCCESS ? code
                        : state < 0        ? state
                                           : CL_SUCCESS);
}

static sm_status is_done(sm_executable *executable, void *ticket, bool *is_done) {
    opencl_executable *e = (opencl_executable *)executable;
    *is_done = false;
    pthread_mutex_lock(&e->linked->lock);
    const sm_status status = look(e, ticket, is_done);
    pthread_mutex_unlock(&e->linked->lock);
    return status;
}

// From when all were ready to when all had taken.
static int64_t elapsed_ns(sm_executable *executable, void *ticket) {
    const opencl_collective *c = ticket;
    cl_ulong start_ns = 0, end_ns = 0;
    (void)executable;
    return c->events[0] != NULL && c->events[1] != NULL &&
                   opencl.clGetEventProfilingInfo(c->events[0], CL_PROFILING_COMMAND_END, sizeof start_ns, &start_ns,
                                                  NULL) == CL_SUCCESS &&
                   opencl.clGetEventProfilingInfo(c->events[1], CL_PROFILING_COMMAND_END, sizeof end_ns, &end_ns,
                                                  NULL) == CL_SUCCESS &&
                   end_ns > start_ns
               ? (int64_t)(end_ns - start_ns)
               : 0;
}

// Nothing of the queues may still wait for a process that has gone.
bool opencl_end_links(opencl_executable *e) {
    enum { LOOKS = 1000 };
    static const struct timespec rest = {.tv_nsec = 1000000};
    bool are_over = false;
    for (int n = 0; n < LOOKS && !are_over; n++) {
        are_over = true;
        for (opencl_collective *c = e->collectives; c != NULL && are_over; c = c->next) {
            are_over = is_done(&e->base, c, &are_over) == SM_OK && are_over;
        }
        nanosleep(&rest, NULL);
    }
    if (!are_over) {
        opencl_links_abort(&e->device->base);
    }
    const cl_int code = opencl.clFinish(e->device->copies[OPENCL_QUEUE_IN]);
    for (opencl_collective *c = e->collectives; c != NULL; c = c->next) {
        forget_events(c);
    }
    return code == CL_SUCCESS;
}

static bool is_driven(const sm_device *device) { return !((const opencl_device *)device)->peers->links->has_queues; }

const sm_collectives sm_collectives_links = {
    .name = "p2p",
    .title = "the cards' own links",
    .is_of_host = true,
    .suits = opencl_peers_suit,
    .find = opencl_links_find,
    .make_id = opencl_links_make_id,
    .join = opencl_links_join,
    .describe = opencl_links_describe,
    .is_driven = is_driven,
    .begin = begin,
    .is_done = is_done,
    .finish = opencl_finish_collective,
    .elapsed_ns = elapsed_ns,
    .abort = opencl_links_abort,
};
