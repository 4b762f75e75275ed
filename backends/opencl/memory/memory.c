// memory.c: one buffer for each arena, and one for data between the launches of an op.

#include "backends/host/memory.h"
#include "backends/opencl/memory/memory.h"
#include "os/os.h"

// The device's memory that is available now; all memory if unknown.
static size_t usable_bytes(const opencl_facts *facts) {
    size_t bytes = facts->memory_bytes;
    if (facts->shares_host_memory) {
        size_t available_bytes = host_available_bytes();
        bytes = available_bytes > 0 && available_bytes < bytes ? available_bytes : bytes;
    }
    return bytes;
}

static sm_status fail_memory(const opencl_executable *e, size_t asked_bytes, const char *why) {
    return sm_fail(SM_ERR_OOM,
                   "%s: the plan needs %.2f GiB, %.2f GiB usable, of %.2f GiB at most in one piece: %s; use a smaller "
                   "batch or model",
                   id_of(e->device), (double)asked_bytes / (1 << 30),
                   (double)usable_bytes(&e->device->facts) / (1 << 30),
                   (double)e->device->facts.max_alloc_bytes / (1 << 30), why);
}

// A processor's buffer: our own huge pages, which the kernel zeroes on first touch, by the threads that use them.
// Drivers use small pages, which cost a processor more than AdamW's arithmetic.
static cl_int create_in_pages(opencl_executable *e, size_t size_bytes, opencl_pages *pages, cl_mem *buffer) {
    cl_int code = CL_OUT_OF_HOST_MEMORY;
    *pages = (opencl_pages){host_map(size_bytes), size_bytes};
    if (pages->host != NULL) {
        os_keep_from_children(pages->host, size_bytes); // otherwise each linker that a driver forks would copy it
        *buffer = opencl.clCreateBuffer(e->device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, size_bytes,
                                        pages->host, &code);
    }
    return code;
}

// Another device's buffer, filled with zeros: drivers allocate memory on first use, and a failure should come here. The
// pattern has the largest size: NVIDIA's driver (580) counts patterns in 32 bits, so filling 12 GiB with 4 bytes writes
// outside of the buffer, and 18 GiB leaves most of it unchanged.
enum { PATTERN_BYTES = 128 };

static cl_int fill_with_zeros(opencl_executable *e, cl_mem buffer, size_t size_bytes) {
    static const unsigned char zeros[PATTERN_BYTES];
    const cl_int code =
        opencl.clEnqueueFillBuffer(e->device->queue, buffer, zeros, sizeof zeros, 0, size_bytes, 0, NULL, NULL);
    return code == CL_SUCCESS ? opencl.clFinish(e->device->queue) : code;
}

static cl_int create_filled(opencl_executable *e, size_t size_bytes, cl_mem *buffer) {
    const size_t whole_bytes = (size_bytes + PATTERN_BYTES - 1) / PATTERN_BYTES * PATTERN_BYTES;
    cl_int code = CL_SUCCESS;
    *buffer = opencl.clCreateBuffer(e->device->context, CL_MEM_READ_WRITE, whole_bytes, NULL, &code);
    return code == CL_SUCCESS ? fill_with_zeros(e, *buffer, whole_bytes) : code;
}

// An arena that a library exchanges between devices.
static sm_status create_shared(opencl_executable *e, int arena) {
    opencl_shared *s = &e->shared[arena];
    SM_TRY(opencl_share(e->device, e->base.plan->arenas[arena].size_bytes, s));
    e->arenas[arena] = s->buffer;
    e->base.memory_bytes += s->size_bytes;
    return opencl_check(id_of(e->device), "clEnqueueFillBuffer", fill_with_zeros(e, s->buffer, s->size_bytes));
}

// Whether memory was refused, by any of the codes that drivers use.
static bool is_refused(cl_int code) {
    return code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES || code == CL_OUT_OF_HOST_MEMORY ||
           code == CL_INVALID_BUFFER_SIZE;
}

static size_t largest_batch_bytes(const sm_plan *plan) {
    size_t most = 64;
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_tensor *t = &plan->tensors[i];
        if (t->role == SM_ROLE_BATCH && sm_tensor_bytes(t) > most) {
            most = sm_tensor_bytes(t);
        }
    }
    return most;
}

sm_status opencl_allocate(opencl_executable *e, size_t scratch_bytes) {
    enum { LEAST_BYTES = 256 };
    const sm_plan *plan = e->base.plan;
    const size_t asked_bytes = sm_plan_memory(plan, NULL) + scratch_bytes;
    if (asked_bytes > usable_bytes(&e->device->facts)) {
        return fail_memory(e, asked_bytes, "more than there is");
    }
    e->arenas = sm_calloc((size_t)plan->n_arenas + 1, sizeof *e->arenas);
    e->shared = sm_calloc((size_t)plan->n_arenas + 1, sizeof *e->shared);
    e->pages = sm_calloc((size_t)plan->n_arenas + 1, sizeof *e->pages);
    e->staging.slot_bytes = largest_batch_bytes(plan);
    e->staging.bytes[0] = malloc(OPENCL_STAGING_SLOTS * e->staging.slot_bytes);
    SM_FAIL_IF(e->staging.bytes[0] == NULL, SM_ERR_OOM, "%s: no memory for %d batches", id_of(e->device),
               OPENCL_STAGING_SLOTS);
    for (int i = 1; i < OPENCL_STAGING_SLOTS; i++) {
        e->staging.bytes[i] = e->staging.bytes[0] + (size_t)i * e->staging.slot_bytes;
    }
    for (int i = 0; i <= plan->n_arenas; i++) {
        const bool is_scratch = i == plan->n_arenas;
        if (!is_scratch && opencl_is_exchanged(e->device, plan, plan->arenas[i].role)) {
            const sm_status status = create_shared(e, i);
            if (status == SM_ERR_OOM) {
                return fail_memory(e, asked_bytes, sm_error_message());
            }
            SM_TRY(status);
            continue;
        }
        size_t size_bytes = is_scratch ? scratch_bytes : plan->arenas[i].size_bytes;
        size_bytes = size_bytes < LEAST_BYTES ? LEAST_BYTES : (size_bytes + 3) / 4 * 4;
        cl_mem *buffer = is_scratch ? &e->scratch : &e->arenas[i];
        cl_int code = e->device->facts.is_cpu ? create_in_pages(e, size_bytes, &e->pages[i], buffer)
                                              : create_filled(e, size_bytes, buffer);
        if (is_refused(code)) {
            return fail_memory(e, asked_bytes, opencl_error_name(code));
        }
        SM_TRY(opencl_check(id_of(e->device), "clCreateBuffer", code));
        e->base.memory_bytes += size_bytes;
    }
    return SM_OK;
}

static void drop_weights(opencl_executable *e) {
    for (int i = 0; i < e->n_arenas && e->weights != NULL; i++) {
        opencl_release_buffer(e->weights[i]);
    }
    free(e->weights);
    e->weights = NULL;
}

void opencl_free_memory(opencl_executable *e) {
    for (int i = 0; e->arenas != NULL && e->shared != NULL && i < e->n_arenas; i++) {
        if (e->shared[i].buffer == NULL) {
            opencl_release_buffer(e->arenas[i]);
        }
        opencl_unshare(e->device, &e->shared[i]);
    }
    drop_weights(e);
    opencl_release_buffer(e->scratch);
    for (int i = 0; i < e->n_pinned; i++) {
        opencl.clReleaseMemObject(e->pinned[i]);
    }
    for (int i = 0; i < OPENCL_STAGING_SLOTS; i++) {
        opencl_release_event(e->staging.written[i]);
    }
    for (int i = 0; e->pages != NULL && i <= e->n_arenas; i++) {
        host_unmap(e->pages[i].host, e->pages[i].size_bytes);
    }
    free(e->arenas);
    free(e->shared);
    free(e->pages);
    free(e->staging.bytes[0]);
}

// --- transfers ----------------------------------------------------------------------------------------

sm_status opencl_find_span(const opencl_executable *e, int tensor, int64_t offset_elems, int64_t n_elems,
                           opencl_span *s) {
    const sm_tensor *t = &e->base.plan->tensors[tensor];
    const int64_t n = sm_tensor_elems(t);
    SM_FAIL_IF(offset_elems < 0 || n_elems < 0 || offset_elems > n || n_elems > n - offset_elems, SM_ERR_INTERNAL,
               "%s: elements %lld to %lld of %s, which has %lld", id_of(e->device), (long long)offset_elems,
               (long long)(offset_elems + n_elems), t->name, (long long)n);
    if (t->arena < 0) {
        return sm_fail(SM_ERR_INTERNAL, "%s: %s has no memory: no op uses it", id_of(e->device), t->name);
    }
    const size_t elem_bytes = sm_dtype_size(t->dtype);
    *s = (opencl_span){e->arenas[t->arena], t->offset_bytes + (size_t)offset_elems * elem_bytes,
                       (size_t)n_elems * elem_bytes};
    return SM_OK;
}

// A slot that the device has read; waits for one if all are in use.
static sm_status take_slot(opencl_executable *e, int *slot) {
    *slot = e->staging.next;
    e->staging.next = (*slot + 1) % OPENCL_STAGING_SLOTS;
    cl_event *written = &e->staging.written[*slot];
    if (*written == NULL) {
        return SM_OK;
    }
    SM_TRY(opencl_wait(e, "clWaitForEvents", NULL, *written));
    opencl.clReleaseEvent(*written);
    *written = NULL;
    return SM_OK;
}

// Waiting in a blocking copy would also wait for earlier work in the queue, without a limit. It waits through the
// backend's table, since the device layer also acts when all is done.
static sm_status wait_before_copy(opencl_executable *e) {
    return e->base.deadline_ns != 0 ? e->base.device->backend->synchronize(&e->base) : opencl_check_lost(e);
}

sm_status opencl_upload(sm_executable *executable, int tensor, int64_t offset_elems, int64_t n_elems,
                        const void *data) {
    opencl_executable *e = (opencl_executable *)executable;
    cl_command_queue queue = opencl_queue(e);
    opencl_span s;
    SM_TRY(opencl_find_span(e, tensor, offset_elems, n_elems, &s));
    SM_TRY(opencl_check_lost(e));
    if (s.size_bytes == 0) {
        return SM_OK;
    }
    if (s.size_bytes > e->staging.slot_bytes) {
        SM_TRY(wait_before_copy(e));
        return OPENCL_CALL(e->device, clEnqueueWriteBuffer, queue, s.buffer, CL_TRUE, s.offset_bytes, s.size_bytes,
                           data, 0, NULL, NULL);
    }
    int slot;
    SM_TRY(take_slot(e, &slot));
    memcpy(e->staging.bytes[slot], data, s.size_bytes);
    return OPENCL_CALL(e->device, clEnqueueWriteBuffer, queue, s.buffer, CL_FALSE, s.offset_bytes, s.size_bytes,
                       e->staging.bytes[slot], 0, NULL, &e->staging.written[slot]);
}

sm_status opencl_download(sm_executable *executable, int tensor, int64_t offset_elems, int64_t n_elems, void *data) {
    opencl_executable *e = (opencl_executable *)executable;
    opencl_span s;
    SM_TRY(opencl_find_span(e, tensor, offset_elems, n_elems, &s));
    if (s.size_bytes == 0) {
        return SM_OK;
    }
    SM_TRY(wait_before_copy(e));
    return OPENCL_CALL(e->device, clEnqueueReadBuffer, e->device->queue, s.buffer, CL_TRUE, s.offset_bytes,
                       s.size_bytes, data, 0, NULL, NULL);
}

// --- a copy of the weights ---------------------------------------------------------------------------

enum { EXCHANGE_BYTES = 16 << 20 }; // at a time, through a buffer after the copies

static size_t weights_bytes(const opencl_executable *e, int arena) {
    const sm_arena *a = &e->base.plan->arenas[arena];
    return a->role == SM_ROLE_PARAMETER ? a->size_bytes : 0;
}

static cl_int create_copy(const opencl_executable *e, size_t size_bytes, cl_mem *copy) {
    cl_int code;
    *copy = opencl.clCreateBuffer(e->device->context, CL_MEM_READ_WRITE, size_bytes, NULL, &code);
    return code;
}

// Leaves a tenth free: if memory is short, drivers move buffers.
static sm_status create_weights(opencl_executable *e) {
    size_t needed_bytes = EXCHANGE_BYTES;
    const size_t usable = usable_bytes(&e->device->facts) / 10 * 9;
    const size_t taken_bytes = e->device->facts.shares_host_memory ? 0 : e->base.memory_bytes;
    for (int i = 0; i < e->n_arenas; i++) {
        needed_bytes += weights_bytes(e, i);
    }
    cl_int code = needed_bytes + taken_bytes <= usable ? CL_SUCCESS : CL_MEM_OBJECT_ALLOCATION_FAILURE;
    e->weights = sm_calloc((size_t)e->n_arenas + 1, sizeof *e->weights);
    for (int i = 0; i < e->n_arenas && code == CL_SUCCESS; i++) {
        code = weights_bytes(e, i) > 0 ? create_copy(e, weights_bytes(e, i), &e->weights[i]) : CL_SUCCESS;
    }
    if (code != CL_SUCCESS) {
        drop_weights(e);
        return sm_fail(SM_ERR_OOM, "%s: a copy of the weights needs %.2f GiB next to the plan's %.2f GiB",
                       id_of(e->device), (double)needed_bytes / (1 << 30), (double)e->base.memory_bytes / (1 << 30));
    }
    return SM_OK;
}

// The largest pattern, because of NVIDIA's driver (create_filled).
static cl_int fill_with_stale_bytes(opencl_executable *e, int arena) {
    unsigned char stale[128];
    const sm_arena *a = &e->base.plan->arenas[arena];
    const size_t size_bytes = a->size_bytes / sizeof stale * sizeof stale;
    memset(stale, SM_STALE_BYTE, sizeof stale);
    return a->role == SM_ROLE_BATCH || a->role == SM_ROLE_OPTIMIZER || size_bytes == 0
               ? CL_SUCCESS
               : opencl.clEnqueueFillBuffer(opencl_queue(e), e->arenas[arena], stale, sizeof stale, 0, size_bytes, 0,
                                            NULL, NULL);
}

static cl_int copy_part(opencl_executable *e, cl_mem from, size_t from_byte, cl_mem to, size_t to_byte,
                        size_t size_bytes) {
    return opencl.clEnqueueCopyBuffer(opencl_queue(e), from, to, from_byte, to_byte, size_bytes, 0, NULL, NULL);
}

static cl_int exchange(opencl_executable *e, int arena, cl_mem piece) {
    cl_int code = CL_SUCCESS;
    cl_mem a = e->arenas[arena];
    cl_mem b = e->weights[arena];
    for (size_t first = 0; first < weights_bytes(e, arena) && code == CL_SUCCESS; first += EXCHANGE_BYTES) {
        const size_t left = weights_bytes(e, arena) - first;
        const size_t n = left < EXCHANGE_BYTES ? left : EXCHANGE_BYTES;
        code = copy_part(e, a, first, piece, 0, n);
        code = code == CL_SUCCESS ? copy_part(e, b, first, a, first, n) : code;
        code = code == CL_SUCCESS ? copy_part(e, piece, 0, b, first, n) : code;
    }
    return code;
}

sm_status opencl_keep_weights(sm_executable *executable, sm_weights_action action) {
    opencl_executable *e = (opencl_executable *)executable;
    if (action == SM_WEIGHTS_DROP) {
        drop_weights(e);
        return SM_OK;
    }
    SM_TRY(e->weights == NULL ? create_weights(e) : SM_OK);
    cl_mem piece = NULL;
    cl_int code = action == SM_WEIGHTS_KEEP ? CL_SUCCESS : create_copy(e, EXCHANGE_BYTES, &piece);
    for (int i = 0; i < e->n_arenas && code == CL_SUCCESS; i++) {
        if (weights_bytes(e, i) == 0) {
            code = action == SM_WEIGHTS_RESTORE ? fill_with_stale_bytes(e, i) : CL_SUCCESS;
        } else {
            code = action == SM_WEIGHTS_KEEP ? copy_part(e, e->arenas[i], 0, e->weights[i], 0, weights_bytes(e, i))
                                             : exchange(e, i, piece);
        }
    }
    opencl_release_buffer(piece); // after the started work
    if (is_refused(code)) {
        drop_weights(e);
        return sm_fail(SM_ERR_OOM, "%s: no memory for a copy of the weights: %s", id_of(e->device),
                       opencl_error_name(code));
    }
    SM_TRY(opencl_check(id_of(e->device), "clEnqueueCopyBuffer", code));
    return executable->device->backend->synchronize(executable);
}
