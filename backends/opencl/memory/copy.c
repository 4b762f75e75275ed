// copy.c: copies between the device and the host during computation: gradients exchanged with other processes.
//
// Each direction has its own queue, so that both are in use; events make copies wait for the computing queue, which is
// never held up. Data that are rounded or added on the way go to a buffer first, and the queue's order prevents
// overwriting it. (Kernels in separate queues, ordered by events, made steps on two H100 10% slower: driver 580 starts
// late what waits for another queue's event.)
#include "backends/opencl/memory/memory.h"

enum { OUT, IN };

// --- kernels of a way ----------------------------------------------------------------------------------

// Not during a step: a program may have to be built, and only one thread may use the list of programs.
static sm_status get_kernels(opencl_executable *e) {
    static const char options[] = "-DDATA_BF16";
    if (e->ways[IN].plain != NULL) {
        return SM_OK;
    }
    SM_TRY(opencl_get_kernel(e->device, "exchange", options, "exchange_round", &e->ways[OUT].rounded));
    SM_TRY(opencl_get_kernel(e->device, "exchange", options, "exchange_add_rounded", &e->ways[IN].rounded));
    return opencl_get_kernel(e->device, "exchange", options, "exchange_add", &e->ways[IN].plain);
}

void opencl_free_copies(opencl_executable *e) {
    for (int i = OUT; i <= IN; i++) {
        opencl_release_kernel(e->ways[i].plain);
        opencl_release_kernel(e->ways[i].rounded);
        opencl_release_buffer(e->ways[i].landing);
    }
}

static sm_status reserve_landing(opencl_executable *e, opencl_copy_way *way, size_t size_bytes) {
    cl_int code = CL_SUCCESS;
    if (size_bytes <= way->landing_bytes) {
        return SM_OK;
    }
    opencl_release_buffer(way->landing); // the driver keeps it until the started work is done
    way->landing = opencl.clCreateBuffer(e->device->context, CL_MEM_READ_WRITE, size_bytes, NULL, &code);
    way->landing_bytes = code == CL_SUCCESS ? size_bytes : 0;
    return opencl_check(id_of(e->device), "clCreateBuffer, for copies", code);
}

size_t opencl_copy_bytes(const sm_plan *plan) {
    size_t most_bytes = 0;
    for (int i = 0; i < plan->n_buckets && plan->processes.n == 2; i++) {
        const size_t size_bytes = sm_tensor_bytes(&plan->tensors[plan->buckets[i].gradient]);
        most_bytes = size_bytes > most_bytes ? size_bytes : most_bytes;
    }
    return most_bytes;
}

// Runs a kernel between the landing buffer and the tensor, after `computed` unless that is NULL.
static sm_status run(opencl_executable *e, int way, cl_kernel kernel, const sm_copy *copy, const opencl_span *s,
                     cl_event computed, cl_event *done) {
    const cl_ulong at = s->offset_bytes / sizeof(float);
    const cl_mem landing = e->ways[way].landing;
    const cl_ulong n = (cl_ulong)copy->n_elems;
    const opencl_argument of_out[] = {OPENCL_ARGUMENT(n), OPENCL_ARGUMENT(s->buffer), OPENCL_ARGUMENT(at),
                                      OPENCL_ARGUMENT(landing)};
    const opencl_argument of_in[] = {OPENCL_ARGUMENT(n), OPENCL_ARGUMENT(landing), OPENCL_ARGUMENT(s->buffer),
                                     OPENCL_ARGUMENT(at)};
    const size_t group = (size_t)e->device->sizes.group;
    const size_t vector = (size_t)e->device->sizes.vector;
    const size_t global = ((size_t)copy->n_elems + group * vector - 1) / (group * vector) * group;
    SM_TRY(opencl_set_arguments(e->device, kernel, way == OUT ? of_out : of_in, 4));
    return OPENCL_CALL(e->device, clEnqueueNDRangeKernel, e->device->copies[way], kernel, 1, NULL, &global, &group,
                       computed != NULL ? 1 : 0, computed != NULL ? &computed : NULL, done);
}

// --- copies ----------------------------------------------------------------------------------------------

static sm_status read_after(opencl_executable *e, const opencl_span *s, void *host, cl_event computed,
                            cl_event *copied) {
    return OPENCL_CALL(e->device, clEnqueueReadBuffer, e->device->copies[OUT], s->buffer, CL_FALSE, s->offset_bytes,
                       s->size_bytes, host, computed != NULL ? 1 : 0, computed != NULL ? &computed : NULL, copied);
}

static sm_status begin_out(opencl_executable *e, const sm_copy *copy, const opencl_span *s, cl_event *copied) {
    cl_event computed = NULL; // after everything enqueued so far
    opencl_copy_way *way = &e->ways[OUT];
    SM_TRY(OPENCL_CALL(e->device, clEnqueueMarkerWithWaitList, e->device->queue, 0, NULL, &computed));
    SM_TRY(OPENCL_CALL(e->device, clFlush, e->device->queue));
    sm_status status;
    if (copy->is_bf16) {
        const opencl_span half = {way->landing, 0, s->size_bytes / 2};
        status = run(e, OUT, way->rounded, copy, s, computed, NULL);
        status = status == SM_OK ? read_after(e, &half, copy->host, NULL, copied) : status;
    } else {
        status = read_after(e, s, copy->host, computed, copied);
    }
    opencl.clReleaseEvent(computed);
    return status;
}

static sm_status write_span(opencl_executable *e, const opencl_span *s, const void *host, cl_event *copied) {
    return OPENCL_CALL(e->device, clEnqueueWriteBuffer, e->device->copies[IN], s->buffer, CL_FALSE, s->offset_bytes,
                       s->size_bytes, host, 0, NULL, copied);
}

static sm_status begin_add(opencl_executable *e, const sm_copy *copy, const opencl_span *s, cl_event *added) {
    const opencl_copy_way *way = &e->ways[IN];
    const opencl_span landing = {way->landing, 0, copy->is_bf16 ? s->size_bytes / 2 : s->size_bytes};
    SM_TRY(write_span(e, &landing, copy->host, NULL));
    return run(e, IN, copy->is_bf16 ? way->rounded : way->plain, copy, s, NULL, added);
}

sm_status opencl_begin_copy(sm_executable *executable, const sm_copy *copy, void **ticket) {
    opencl_executable *e = (opencl_executable *)executable;
    const int way = copy->kind == SM_COPY_OUT ? OUT : IN;
    cl_command_queue *queue = &e->device->copies[way];
    cl_int code = CL_SUCCESS;
    cl_event copied = NULL;
    opencl_span s;
    SM_TRY(opencl_find_span(e, copy->tensor, copy->offset_elems, copy->n_elems, &s));
    SM_TRY(opencl_check_lost(e));
    if (*queue == NULL) {
        *queue = opencl.clCreateCommandQueue(e->device->context, opencl_target(e->device), 0, &code);
    }
    SM_TRY(opencl_check(id_of(e->device), "clCreateCommandQueue, for copies", code));
    if (copy->is_bf16 || copy->kind == SM_COPY_ADD) {
        SM_TRY(reserve_landing(e, &e->ways[way], copy->is_bf16 ? s.size_bytes / 2 : s.size_bytes));
    }
    switch (copy->kind) {
    case SM_COPY_OUT: SM_TRY(begin_out(e, copy, &s, &copied)); break;
    case SM_COPY_IN: SM_TRY(write_span(e, &s, copy->host, &copied)); break;
    case SM_COPY_ADD: SM_TRY(begin_add(e, copy, &s, &copied)); break;
    }
    *ticket = copied;
    return OPENCL_CALL(e->device, clFlush, *queue);
}

sm_status opencl_wait_copy(sm_executable *executable, void *ticket) {
    const opencl_executable *e = (const opencl_executable *)executable;
    cl_event copied = ticket;
    const cl_int code = opencl.clWaitForEvents(1, &copied);
    opencl.clReleaseEvent(copied);
    return opencl_check(id_of(e->device), "clWaitForEvents", code);
}

bool opencl_is_copied(sm_executable *executable, void *ticket) {
    bool is_copied = true;
    const sm_status status = opencl_look_at(id_of(((const opencl_executable *)executable)->device), ticket, &is_copied);
    return status != SM_OK || is_copied;
}

// A buffer over the memory makes the driver pin its pages, for asynchronous copies at the bus's speed (H100, driver
// 580: 55 GB/s; unpinned: 12 out and 8 in, with the caller waiting). It has no other use.
sm_status opencl_pin(sm_executable *executable, void *memory, size_t size_bytes) {
    opencl_executable *e = (opencl_executable *)executable;
    cl_int code = CL_SUCCESS;
    SM_TRY(get_kernels(e));
    const bool is_bf16 = e->base.plan->processes.is_bf16;
    const size_t landing_bytes = opencl_copy_bytes(e->base.plan) / (is_bf16 ? 2 : 1);
    SM_TRY(is_bf16 ? reserve_landing(e, &e->ways[OUT], landing_bytes) : SM_OK); // now, not during a step
    SM_TRY(reserve_landing(e, &e->ways[IN], landing_bytes));
    if (e->device->facts.is_cpu || e->n_pinned == OPENCL_MAX_PINNED) {
        return SM_OK;
    }
    cl_mem pinned =
        opencl.clCreateBuffer(e->device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, size_bytes, memory, &code);
    SM_TRY(opencl_check(id_of(e->device), "clCreateBuffer, of pinned memory", code));
    e->pinned[e->n_pinned++] = pinned;
    return SM_OK;
}
