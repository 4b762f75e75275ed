
#include "backends/opencl/peers/peers.h"
#include "clock.h"

static sm_status mark_by_flag(opencl_device *device, uint32_t flag) {
    return opencl_check(id_of(device), "clEnqueueFillBuffer, of a flag",
                        opencl.clEnqueueFillBuffer(device->queue, device->peers->words.buffer, &flag, sizeof flag, 0,
                                                   sizeof flag, 0, NULL, NULL));
}

sm_status opencl_mark(opencl_device *device, opencl_point *point) {
    opencl_peers *p = device->peers;
    *point = (opencl_point){0};
    if (p->order == OPENCL_ORDER_FLAG) {
        point->flag = ++p->n_flags;
        SM_TRY(mark_by_flag(device, point->flag));
    } else {
        SM_TRY(OPENCL_CALL(device, clEnqueueMarkerWithWaitList, device->queue, 0, NULL, &point->event));
    }
    return OPENCL_CALL(device, clFlush, device->queue);
}

// It looks rarely, because asking the driver delays the thread that launches kernels.
static sm_status wait_on_host(opencl_device *device, cl_event event) {
    static const struct timespec look = {.tv_nsec = 20000};
    bool is_done = false;
    while (!is_done && !atomic_load(&device->peers->is_aborted)) {
        SM_TRY(opencl_look_at(id_of(device), event, &is_done));
        (void)(is_done ? 0 : nanosleep(&look, NULL));
    }
    return SM_OK;
}

sm_status opencl_wait_in_stream(opencl_device *device, opencl_point *point) {
    opencl_peers *p = device->peers;
    if (point->flag == 0 && point->event == NULL) {
        return SM_OK;
    }
    if (p->order == OPENCL_ORDER_FLAG) { // 0: until the number is as large, or larger
        return cuda_check(id_of(device), "cuStreamWaitValue32",
                          cuda.stream_wait_value(p->stream, p->words.address, point->flag, 0));
    }
    const sm_status status = wait_on_host(device, point->event);
    opencl.clReleaseEvent(point->event);
    point->event = NULL;
    return status;
}

// --- what works here -------------------------------------------------------------------------------

enum { TRIAL_NS = 1000000000 };

static sm_status end_by(const opencl_device *device, cuda_event event, bool *ended) {
    static const struct timespec look = {.tv_nsec = 100000};
    const int64_t until_ns = sm_now_ns() + TRIAL_NS;
    int code;
    while ((code = cuda.event_query(event)) == CUDA_NOT_READY && sm_now_ns() < until_ns) {
        nanosleep(&look, NULL);
    }
    *ended = code == CUDA_SUCCESS;
    return code == CUDA_NOT_READY ? SM_OK : cuda_check(id_of(device), "cuEventQuery", code);
}

// A stream that waits for a flag must still wait before it is written, and must end after.
static sm_status try_flag(opencl_device *device, cuda_event event, bool *works) {
    opencl_peers *p = device->peers;
    const uint32_t flag = ++p->n_flags;
    *works = false;
    if (cuda.stream_wait_value(p->stream, p->words.address, flag, 0) != CUDA_SUCCESS) {
        return SM_OK;
    }
    SM_TRY(cuda_check(id_of(device), "cuEventRecord", cuda.event_record(event, p->stream)));
    const bool waits = cuda.event_query(event) == CUDA_NOT_READY;
    SM_TRY(mark_by_flag(device, flag));
    SM_TRY(OPENCL_CALL(device, clFinish, device->queue));
    bool ended = false;
    SM_TRY(end_by(device, event, &ended));
    SM_FAIL_IF(!ended, SM_ERR_UNSUPPORTED, // the stream is of no use any more
               "%s: CUDA does not see what OpenCL writes to memory that both share", id_of(device));
    *works = waits;
    return SM_OK;
}

sm_status opencl_choose_order(opencl_device *device) {
    opencl_peers *p = device->peers;
    cuda_event event = NULL;
    bool works = false;
    p->order = OPENCL_ORDER_HOST;
    if (cuda.stream_wait_value == NULL) {
        return SM_OK;
    }
    SM_TRY(opencl_write_shared(device, &p->words, 0, 0));
    SM_TRY(cuda_check(id_of(device), "cuEventCreate", cuda.event_create(&event, 0)));
    const sm_status status = try_flag(device, event, &works);
    (void)cuda.event_destroy(event);
    p->order = works ? OPENCL_ORDER_FLAG : OPENCL_ORDER_HOST;
    return status;
}
