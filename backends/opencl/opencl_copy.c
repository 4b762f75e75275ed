// opencl_copy.c: copies between the device and the host beside what is computed: gradients on their way to other
// processes. Each direction has a queue of its own, so that both ways are in use, and the computing queue is waited for
// by an event and never held up.
#include "opencl.h"

static const char *id_of(const opencl_executable *e) { return e->device->base.info.id; }

static sm_status open_queue(opencl_device *device, cl_command_queue *queue) {
    cl_device_id target = device->part != NULL ? device->part : device->facts.id;
    cl_int code = CL_SUCCESS;
    if (*queue == NULL) {
        *queue = opencl.clCreateCommandQueue(device->context, target, 0, &code);
    }
    return opencl_check(device->base.info.id, "clCreateCommandQueue, for copies", code);
}

// An event behind all that was enqueued so far.
static sm_status mark(opencl_executable *e, cl_event *event) {
    cl_command_queue queue = e->device->queue;
    SM_TRY(opencl_check(id_of(e), "clEnqueueMarkerWithWaitList",
                        opencl.clEnqueueMarkerWithWaitList(queue, 0, NULL, event)));
    return opencl_check(id_of(e), "clFlush", opencl.clFlush(queue));
}

static sm_status begin_out(opencl_executable *e, const opencl_span *s, void *host, cl_event *copied) {
    cl_event computed = NULL;
    SM_TRY(open_queue(e->device, &e->device->copies[SM_COPY_OUT]));
    SM_TRY(mark(e, &computed));
    const cl_int code = opencl.clEnqueueReadBuffer(e->device->copies[SM_COPY_OUT], s->buffer, CL_FALSE, s->offset_bytes,
                                                   s->size_bytes, host, 1, &computed, copied);
    opencl.clReleaseEvent(computed);
    return opencl_check(id_of(e), "clEnqueueReadBuffer", code);
}

static sm_status begin_in(opencl_executable *e, const opencl_span *s, const void *host, cl_event *copied) {
    SM_TRY(open_queue(e->device, &e->device->copies[SM_COPY_IN]));
    const cl_int code = opencl.clEnqueueWriteBuffer(e->device->copies[SM_COPY_IN], s->buffer, CL_FALSE, s->offset_bytes,
                                                    s->size_bytes, host, 0, NULL, copied);
    return opencl_check(id_of(e), "clEnqueueWriteBuffer", code);
}

sm_status opencl_begin_copy(sm_executable *executable, sm_copy_direction direction, int tensor, int64_t offset_elems,
                            int64_t n_elems, void *host, void **ticket) {
    opencl_executable *e = (opencl_executable *)executable;
    cl_event copied = NULL;
    opencl_span s;
    SM_TRY(opencl_find_span(e, tensor, offset_elems, n_elems, &s));
    SM_TRY(opencl_check_lost(e));
    SM_TRY(direction == SM_COPY_OUT ? begin_out(e, &s, host, &copied) : begin_in(e, &s, host, &copied));
    *ticket = copied;
    return opencl_check(id_of(e), "clFlush", opencl.clFlush(e->device->copies[direction]));
}

sm_status opencl_wait_copy(sm_executable *executable, void *ticket) {
    const opencl_executable *e = (const opencl_executable *)executable;
    cl_event copied = ticket;
    const cl_int code = opencl.clWaitForEvents(1, &copied);
    opencl.clReleaseEvent(copied);
    return opencl_check(id_of(e), "clWaitForEvents", code);
}

// A buffer over the memory has the driver pin its pages, so that it copies from and to them at the bus's speed and at
// once (H100, driver 580: 55 GB/s; pages that are not pinned: 12 out and 8 in, the caller waiting). It is used for
// nothing else.
sm_status opencl_pin(sm_executable *executable, void *memory, size_t size_bytes) {
    opencl_executable *e = (opencl_executable *)executable;
    cl_int code = CL_SUCCESS;
    if (e->device->facts.is_cpu || e->n_pinned == OPENCL_MAX_PINNED) {
        return SM_OK;
    }
    cl_mem pinned =
        opencl.clCreateBuffer(e->device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, size_bytes, memory, &code);
    SM_TRY(opencl_check(id_of(e), "clCreateBuffer, of pinned memory", code));
    e->pinned[e->n_pinned++] = pinned;
    return SM_OK;
}
