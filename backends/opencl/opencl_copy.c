// opencl_copy.c: copies between the device and the host beside what is computed: gradients on their way to other
// processes. Each way has a queue of its own, so that both are in use, and the computing queue is waited for by an
// event and never held up. What is rounded or added on the way lands in one of two buffers, and a kernel in a queue
// beside does it: where the card is busy computing, a kernel waits for its turn, and copies need not.
#include "opencl.h"
#include "opencl_tier.h"

enum { OUT, IN };

static const char *id_of(const opencl_executable *e) { return e->device->base.info.id; }

static int way_of(const sm_copy *copy) { return copy->kind == SM_COPY_OUT ? OUT : IN; }

static sm_status open_queue(opencl_device *device, cl_command_queue *queue) {
    cl_device_id target = device->part != NULL ? device->part : device->facts.id;
    cl_int code = CL_SUCCESS;
    if (*queue == NULL) {
        *queue = opencl.clCreateCommandQueue(device->context, target, 0, &code);
    }
    return opencl_check(device->base.info.id, "clCreateCommandQueue, for copies", code);
}

// --- kernels of a way ----------------------------------------------------------------------------------

// Not in the midst of a step: a program may have to be built, and the list of programs is one thread's.
static sm_status get_kernels(opencl_executable *e) {
    static const char options[] = "-DDATA_BF16";
    if (e->ways[IN].plain != NULL) {
        return SM_OK;
    }
    SM_TRY(opencl_get_kernel(e->device, "exchange", options, "exchange_round", &e->ways[OUT].rounded));
    SM_TRY(opencl_get_kernel(e->device, "exchange", options, "exchange_add_rounded", &e->ways[IN].rounded));
    return opencl_get_kernel(e->device, "exchange", options, "exchange_add", &e->ways[IN].plain);
}

// The driver keeps the buffer until what was begun is done.
static void release_landing(opencl_copy_way *way, int turn) {
    if (way->landing[turn] != NULL) {
        opencl.clReleaseMemObject(way->landing[turn]);
    }
    if (way->left[turn] != NULL) {
        opencl.clReleaseEvent(way->left[turn]);
    }
    way->landing[turn] = NULL;
    way->left[turn] = NULL;
}

void opencl_free_copies(opencl_executable *e) {
    for (int i = OUT; i <= IN; i++) {
        cl_kernel kernels[] = {e->ways[i].plain, e->ways[i].rounded};
        for (int k = 0; k < 2; k++) {
            if (kernels[k] != NULL) {
                opencl.clReleaseKernel(kernels[k]);
            }
        }
        for (int k = 0; k < 2; k++) {
            release_landing(&e->ways[i], k);
        }
    }
}

static sm_status reserve_landings(opencl_executable *e, opencl_copy_way *way, size_t size_bytes) {
    cl_int code = CL_SUCCESS;
    if (size_bytes <= way->landing_bytes) {
        return SM_OK;
    }
    way->landing_bytes = 0;
    for (int k = 0; k < 2 && code == CL_SUCCESS; k++) {
        release_landing(way, k);
        way->landing[k] = opencl.clCreateBuffer(e->device->context, CL_MEM_READ_WRITE, size_bytes, NULL, &code);
    }
    SM_TRY(opencl_check(id_of(e), "clCreateBuffer, for copies", code));
    way->landing_bytes = size_bytes;
    return SM_OK;
}

size_t opencl_copy_bytes(const sm_plan *plan) {
    size_t most_bytes = 0;
    for (int i = 0; i < plan->n_buckets && plan->processes.n == 2; i++) {
        const size_t size_bytes = sm_tensor_bytes(&plan->tensors[plan->buckets[i].gradient]);
        most_bytes = size_bytes > most_bytes ? size_bytes : most_bytes;
    }
    return 2 * most_bytes;
}

// While memory is asked for, and not in the midst of a step.
static sm_status reserve_ahead(opencl_executable *e) {
    const size_t size_bytes = opencl_copy_bytes(e->base.plan) / 2;
    if (!e->base.plan->processes.is_bf16) {
        return reserve_landings(e, &e->ways[IN], size_bytes);
    }
    SM_TRY(reserve_landings(e, &e->ways[OUT], size_bytes / 2));
    return reserve_landings(e, &e->ways[IN], size_bytes / 2);
}

static sm_status set_args(opencl_executable *e, cl_kernel kernel, uint64_t n_elems, const cl_mem buffers[2],
                          const cl_ulong *offsets[2]) {
    cl_uint arg = 0;
    cl_int code = opencl.clSetKernelArg(kernel, arg++, sizeof n_elems, &n_elems);
    for (int i = 0; i < 2; i++) {
        code = code == CL_SUCCESS ? opencl.clSetKernelArg(kernel, arg++, sizeof buffers[i], &buffers[i]) : code;
        if (offsets[i] != NULL) {
            code = code == CL_SUCCESS ? opencl.clSetKernelArg(kernel, arg++, sizeof *offsets[i], offsets[i]) : code;
        }
    }
    return opencl_check(id_of(e), "clSetKernelArg", code);
}

// Runs a kernel of the way between a landing and the tensor, behind those events of `after` that are there.
static sm_status run(opencl_executable *e, int way, cl_kernel kernel, const sm_copy *copy, const opencl_span *s,
                     cl_mem landing, const cl_event after[2], cl_event *done) {
    const cl_ulong at = s->offset_bytes / sizeof(float);
    const cl_mem in_order[2] = {way == OUT ? s->buffer : landing, way == OUT ? landing : s->buffer};
    const cl_ulong *offsets[2] = {way == OUT ? &at : NULL, way == OUT ? NULL : &at};
    const size_t group = (size_t)e->device->tier->group;
    const size_t vector = (size_t)e->device->tier->vector(&e->device->facts);
    const size_t global = ((size_t)copy->n_elems + group * vector - 1) / (group * vector) * group;
    const cl_uint n_after = after[1] != NULL ? 2 : 1;
    SM_TRY(set_args(e, kernel, (uint64_t)copy->n_elems, in_order, offsets));
    return opencl_check(
        id_of(e), "clEnqueueNDRangeKernel",
        opencl.clEnqueueNDRangeKernel(e->device->beside[way], kernel, 1, NULL, &global, &group, n_after, after, done));
}

// --- copies ----------------------------------------------------------------------------------------------

static sm_status flush(opencl_executable *e, cl_command_queue queue) {
    return opencl_check(id_of(e), "clFlush", opencl.clFlush(queue));
}

// An event behind all that was enqueued so far.
static sm_status mark(opencl_executable *e, cl_event *event) {
    cl_command_queue queue = e->device->queue;
    SM_TRY(opencl_check(id_of(e), "clEnqueueMarkerWithWaitList",
                        opencl.clEnqueueMarkerWithWaitList(queue, 0, NULL, event)));
    return flush(e, queue);
}

static sm_status read_behind(opencl_executable *e, const opencl_span *s, void *host, cl_event after, cl_event *copied) {
    cl_command_queue queue = e->device->copies[OUT];
    SM_TRY(opencl_check(id_of(e), "clEnqueueReadBuffer",
                        opencl.clEnqueueReadBuffer(queue, s->buffer, CL_FALSE, s->offset_bytes, s->size_bytes, host, 1,
                                                   &after, copied)));
    return flush(e, queue);
}

// `after`: NULL, or what it waits for.
static sm_status write_behind(opencl_executable *e, const opencl_span *s, const void *host, cl_event after,
                              cl_event *copied) {
    cl_command_queue queue = e->device->copies[IN];
    SM_TRY(opencl_check(id_of(e), "clEnqueueWriteBuffer",
                        opencl.clEnqueueWriteBuffer(queue, s->buffer, CL_FALSE, s->offset_bytes, s->size_bytes, host,
                                                    after != NULL ? 1 : 0, after != NULL ? &after : NULL, copied)));
    return flush(e, queue);
}

// The landing whose turn it is will be free behind `event`.
static void leave(opencl_copy_way *way, cl_event event) {
    if (way->left[way->turn] != NULL) {
        opencl.clReleaseEvent(way->left[way->turn]);
    }
    opencl.clRetainEvent(event);
    way->left[way->turn] = event;
    way->turn = 1 - way->turn;
}

static sm_status round_out(opencl_executable *e, const sm_copy *copy, const opencl_span *s, cl_event computed,
                           cl_event *copied) {
    opencl_copy_way *way = &e->ways[OUT];
    const cl_mem landing = way->landing[way->turn];
    const opencl_span half = {landing, 0, s->size_bytes / 2};
    const cl_event after[2] = {computed, way->left[way->turn]};
    cl_event rounded = NULL;
    SM_TRY(run(e, OUT, way->rounded, copy, s, landing, after, &rounded));
    sm_status status = flush(e, e->device->beside[OUT]);
    status = status == SM_OK ? read_behind(e, &half, copy->host, rounded, copied) : status;
    opencl.clReleaseEvent(rounded);
    if (status == SM_OK) {
        leave(way, *copied);
    }
    return status;
}

static sm_status begin_out(opencl_executable *e, const sm_copy *copy, const opencl_span *s, cl_event *copied) {
    cl_event computed = NULL;
    SM_TRY(mark(e, &computed));
    const sm_status status =
        copy->is_bf16 ? round_out(e, copy, s, computed, copied) : read_behind(e, s, copy->host, computed, copied);
    opencl.clReleaseEvent(computed);
    return status;
}

static sm_status begin_add(opencl_executable *e, const sm_copy *copy, const opencl_span *s, cl_event *added) {
    opencl_copy_way *way = &e->ways[IN];
    const cl_mem landing = way->landing[way->turn];
    const opencl_span landed = {landing, 0, copy->is_bf16 ? s->size_bytes / 2 : s->size_bytes};
    cl_event copied = NULL;
    SM_TRY(write_behind(e, &landed, copy->host, way->left[way->turn], &copied));
    const cl_event after[2] = {copied, NULL};
    sm_status status = run(e, IN, copy->is_bf16 ? way->rounded : way->plain, copy, s, landing, after, added);
    status = status == SM_OK ? flush(e, e->device->beside[IN]) : status;
    opencl.clReleaseEvent(copied);
    if (status == SM_OK) {
        leave(way, *added);
    }
    return status;
}

sm_status opencl_begin_copy(sm_executable *executable, const sm_copy *copy, void **ticket) {
    opencl_executable *e = (opencl_executable *)executable;
    const int way = way_of(copy);
    cl_event copied = NULL;
    opencl_span s;
    SM_TRY(opencl_find_span(e, copy->tensor, copy->offset_elems, copy->n_elems, &s));
    SM_TRY(opencl_check_lost(e));
    SM_TRY(open_queue(e->device, &e->device->copies[way]));
    SM_TRY(open_queue(e->device, &e->device->beside[way]));
    if (copy->is_bf16 || copy->kind == SM_COPY_ADD) {
        SM_TRY(reserve_landings(e, &e->ways[way], copy->is_bf16 ? s.size_bytes / 2 : s.size_bytes));
    }
    switch (copy->kind) {
    case SM_COPY_OUT: SM_TRY(begin_out(e, copy, &s, &copied)); break;
    case SM_COPY_IN: SM_TRY(write_behind(e, &s, copy->host, NULL, &copied)); break;
    case SM_COPY_ADD: SM_TRY(begin_add(e, copy, &s, &copied)); break;
    }
    *ticket = copied;
    return SM_OK;
}

sm_status opencl_wait_copy(sm_executable *executable, void *ticket) {
    const opencl_executable *e = (const opencl_executable *)executable;
    cl_event copied = ticket;
    const cl_int code = opencl.clWaitForEvents(1, &copied);
    opencl.clReleaseEvent(copied);
    return opencl_check(id_of(e), "clWaitForEvents", code);
}

bool opencl_is_copied(sm_executable *executable, void *ticket) {
    (void)executable;
    cl_int state = CL_COMPLETE;
    const cl_int code = opencl.clGetEventInfo(ticket, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    return code != CL_SUCCESS || state <= CL_COMPLETE;
}

// A buffer over the memory has the driver pin its pages, so that it copies from and to them at the bus's speed and at
// once (H100, driver 580: 55 GB/s; pages that are not pinned: 12 out and 8 in, the caller waiting). It is used for
// nothing else.
sm_status opencl_pin(sm_executable *executable, void *memory, size_t size_bytes) {
    opencl_executable *e = (opencl_executable *)executable;
    cl_int code = CL_SUCCESS;
    SM_TRY(get_kernels(e));
    SM_TRY(reserve_ahead(e));
    if (e->device->facts.is_cpu || e->n_pinned == OPENCL_MAX_PINNED) {
        return SM_OK;
    }
    cl_mem pinned =
        opencl.clCreateBuffer(e->device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, size_bytes, memory, &code);
    SM_TRY(opencl_check(id_of(e), "clCreateBuffer, of pinned memory", code));
    e->pinned[e->n_pinned++] = pinned;
    return SM_OK;
}
