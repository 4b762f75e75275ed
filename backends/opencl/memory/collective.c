// collective.c: exchanges with other processes' devices (collectives.h), by NCCL (by_nccl.c) or by the cards' own links
// (by_links.c): the gradients' arenas, and with a sharded optimizer the weights', lie in memory that both OpenCL and
// CUDA reach, so that nothing is copied to the host.
//
// In bf16 the computing queue rounds a bucket to a buffer of its own, which is exchanged, and widens it back.

#include "backends/opencl/memory/collective.h"

size_t opencl_exchange_bytes(const sm_plan *plan) {
    size_t size_bytes = 0;
    for (int i = 0; i < plan->n_buckets && plan->processes.is_bf16; i++) {
        size_bytes += (size_t)plan->buckets[i].n_elems * sizeof(uint16_t);
    }
    return size_bytes;
}

// --- rounded gradients ---------------------------------------------------------------------------

static sm_status reserve_rounded(opencl_executable *e) {
    static const char options[] = "-DDATA_BF16";
    const sm_plan *plan = e->base.plan;
    SM_TRY(opencl_get_kernel(e->device, "exchange", options, "exchange_round", &e->round));
    SM_TRY(opencl_get_kernel(e->device, "exchange", options, "exchange_widen", &e->widen));
    e->rounded = sm_calloc((size_t)plan->n_buckets + 1, sizeof *e->rounded);
    for (; e->n_rounded < plan->n_buckets; e->n_rounded++) {
        opencl_shared *s = &e->rounded[e->n_rounded];
        SM_TRY(opencl_share(e->device, (size_t)plan->buckets[e->n_rounded].n_elems * sizeof(uint16_t), s));
        e->base.memory_bytes += s->size_bytes;
    }
    return SM_OK;
}

sm_status opencl_reserve_exchange(opencl_executable *e) {
    return opencl_is_exchanged(e->device, e->base.plan, SM_ROLE_GRADIENT) && e->base.plan->processes.is_bf16
               ? reserve_rounded(e)
               : SM_OK;
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
    const opencl_argument arguments[] = {OPENCL_ARGUMENT(n), OPENCL_ARGUMENT(s.buffer), OPENCL_ARGUMENT(at),
                                         OPENCL_ARGUMENT(rounded)};
    const cl_kernel kernel = rounds ? e->round : e->widen;
    SM_TRY(opencl_set_arguments(e->device, kernel, arguments, 4));
    return OPENCL_CALL(e->device, clEnqueueNDRangeKernel, opencl_queue(e), kernel, 1, NULL, &global, &group, 0, NULL,
                       NULL);
}

// --- tickets -------------------------------------------------------------------------------------

bool opencl_free_collectives(opencl_executable *e) {
    if (e->collectives != NULL && !e->end_collectives(e)) {
        return false;
    }
    while (e->collectives != NULL) {
        opencl_collective *c = e->collectives;
        e->collectives = c->next;
        opencl_release_event(c->computed);
        free(c);
    }
    for (int i = 0; e->rounded != NULL && i < e->n_rounded; i++) {
        opencl_unshare(e->device, &e->rounded[i]);
    }
    free(e->rounded);
    opencl_release_kernel(e->round);
    opencl_release_kernel(e->widen);
    return true;
}

sm_status opencl_begin_collective(opencl_executable *e, const sm_collective *what, void **ticket,
                                  opencl_collective **begun) {
    const sm_tensor *t = &e->base.plan->tensors[what->tensor];
    opencl_collective *c = *ticket;
    SM_TRY(opencl_check_lost(e));
    SM_TRY(cuda_check(id_of(e->device), "cuCtxSetCurrent", cuda.context_set(e->device->peers->context)));
    if (c == NULL) {
        c = sm_calloc(1, sizeof *c);
        c->next = e->collectives;
        e->collectives = c;
    }
    *ticket = *begun = c;
    c->what = *what;
    c->n_elems = sm_tensor_elems(t);
    c->bucket = what->is_bf16 ? e->base.plan->n_buckets - 1 : -1;
    while (c->bucket >= 0 && e->base.plan->buckets[c->bucket].gradient != what->tensor) {
        c->bucket--;
    }
    return c->bucket >= 0 ? convert(e, c, true) : SM_OK;
}

sm_status opencl_finish_collective(sm_executable *executable, void *ticket) {
    opencl_executable *e = (opencl_executable *)executable;
    const opencl_collective *c = ticket;
    return c->bucket >= 0 ? convert(e, c, false) : SM_OK;
}
