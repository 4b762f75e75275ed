#include "backends/opencl/peers/peers.h"

#include "os/beside.h"

// Another vendor's library with the same functions (AMD's RCCL) would need its driver's table next to cuda.h's, and an
// OpenCL that imports that driver's memory.
static const char needed[] = "cl_khr_external_memory_opaque_fd";

bool opencl_peers_suit(const sm_device *device) {
    const opencl_facts *f = &((const opencl_device *)device)->facts;
    return f->compute_capability > 0 || opencl_has_extension(f->id, needed);
}

// --- finding -------------------------------------------------------------------------------------

// CUDA's number of the same card: both say its UUID.
static sm_status find_card(const opencl_device *device, int *card) {
    unsigned char uuid[CUDA_UUID_BYTES];
    int n = 0;
    SM_TRY(cuda_check(id_of(device), "cuDeviceGetCount", cuda.device_get_count(&n)));
    for (*card = 0; device->facts.has_uuid && *card < n; ++*card) {
        SM_TRY(cuda_check(id_of(device), "cuDeviceGetUuid", cuda.device_get_uuid(uuid, *card)));
        if (memcmp(uuid, device->facts.uuid, sizeof uuid) == 0) {
            return SM_OK;
        }
    }
    return sm_fail(SM_ERR_UNSUPPORTED, "none of CUDA's %d devices is this one: see CUDA_VISIBLE_DEVICES", n);
}

static sm_status find(opencl_device *device) {
    opencl_peers p = {0};
    if (device->peers != NULL) {
        return SM_OK;
    }
    SM_FAIL_IF(!opencl_has_extension(device->facts.id, needed) ||
                   !opencl_find_function("clCreateBufferWithProperties", &p.create_with_properties),
               SM_ERR_UNSUPPORTED, "the OpenCL driver or its loader has no %s", needed);
    SM_TRY(cuda_load());
    SM_TRY(find_card(device, &p.card));
    SM_TRY(cuda_check(id_of(device), "cuDevicePrimaryCtxRetain", cuda.context_retain(&p.context, p.card)));
    device->peers = sm_calloc(1, sizeof *device->peers);
    *device->peers = p;
    return SM_OK;
}

// CUDA begins once OpenCL's context is there, next to what follows. Both at once take longer than in turn: four processes
// with four H200s had both contexts after 2.45 s instead of 2.0.
static os_beside early;
static bool is_foreseen;

static void *find_early(void *device) { return find(device) == SM_OK ? &early : NULL; }

void opencl_peers_foresee(void) { is_foreseen = true; }

bool opencl_peers_await(void) { return os_await_beside(&early) || is_foreseen; }

void opencl_peers_begin_early(opencl_device *device) {
    if (is_foreseen) {
        os_begin_beside(&early, find_early, device);
        is_foreseen = false;
    }
}

sm_status opencl_peers_find_card(sm_device *base) {
    (void)os_await_beside(&early);
    return find((opencl_device *)base); // tells what failed
}

sm_status opencl_peers_find(sm_device *base, const char *library) {
    SM_TRY(opencl_peers_find_card(base));
    return nccl_load(library);
}

// --- joining -------------------------------------------------------------------------------------

sm_status opencl_peers_make_id(sm_device *base, unsigned char id[SM_COLLECTIVES_ID_BYTES]) {
    nccl_id made;
    SM_TRY(nccl_check(id_of((opencl_device *)base), "ncclGetUniqueId", nccl.get_id(&made)));
    memcpy(id, made.bytes, sizeof made.bytes);
    return SM_OK;
}

// Both see what the other wrote, at the first and the last number of the memory.
static sm_status try_memory(opencl_device *device) {
    opencl_peers *p = device->peers;
    const size_t last_byte = p->words.size_bytes - sizeof(uint32_t);
    const size_t places[] = {0, last_byte};
    for (size_t i = 0; i < 2; i++) {
        uint32_t number = 0x5EED0001u + (uint32_t)i, seen = 0;
        SM_TRY(opencl_write_shared(device, &p->words, places[i], number));
        SM_TRY(OPENCL_CALL(device, clEnqueueReadBuffer, device->queue, p->words.buffer, CL_TRUE, places[i], sizeof seen,
                           &seen, 0, NULL, NULL));
        bool is_same = seen == number;
        number += 0x100;
        SM_TRY(OPENCL_CALL(device, clEnqueueWriteBuffer, device->queue, p->words.buffer, CL_TRUE, places[i],
                           sizeof number, &number, 0, NULL, NULL));
        SM_TRY(OPENCL_CALL(device, clFinish, device->queue));
        SM_TRY(cuda_check(id_of(device), "cuMemcpyDtoH",
                          cuda.copy_to_host(&seen, p->words.address + places[i], sizeof seen)));
        SM_FAIL_IF(!is_same || seen != number, SM_ERR_UNSUPPORTED,
                   "%s: OpenCL and CUDA do not see the same numbers in imported memory", id_of(device));
    }
    return SM_OK;
}

sm_status opencl_peers_begin(opencl_device *device, int rank, int n_processes) {
    opencl_peers *p = device->peers;
    const int n_words = OPENCL_TRIED + n_processes;
    SM_TRY(cuda_check(id_of(device), "cuCtxSetCurrent", cuda.context_set(p->context)));
    if (p->stream == NULL) {
        SM_TRY(cuda_check(id_of(device), "cuStreamCreate", cuda.stream_create(&p->stream, 1)));
        SM_TRY(opencl_share(device, opencl_word_at(n_words), &p->words));
        SM_TRY(try_memory(device));
        for (int i = 0; i < n_words; i++) {
            SM_TRY(opencl_write_shared(device, &p->words, opencl_word_at(i), 0));
        }
    }
    p->rank = rank;
    p->n_processes = n_processes;
    return SM_OK;
}

static void leave_links(opencl_peers *p) {
    if (p->links != NULL) {
        p->links->leave(p);
    }
}

sm_status opencl_peers_join(sm_device *base, const unsigned char id[SM_COLLECTIVES_ID_BYTES], int rank,
                            int n_processes) {
    opencl_device *device = (opencl_device *)base;
    opencl_peers *p = device->peers;
    nccl_id shared_id;
    leave_links(p); // where these did not work
    SM_TRY(opencl_peers_begin(device, rank, n_processes));
    SM_TRY(opencl_choose_order(device));
    atomic_store(&p->is_aborted, false);
    memcpy(shared_id.bytes, id, sizeof shared_id.bytes);
    p->is_busy = true;
    const int code = nccl.join(&p->comm, n_processes, shared_id, rank);
    p->is_busy = false;
    return nccl_check(id_of(device), "ncclCommInitRank", code);
}

void opencl_peers_describe(const sm_device *base, char text[SM_COLLECTIVES_TEXT_SIZE]) {
    static const char *const orders[] = {
        [OPENCL_ORDER_FLAG] = "a flag in shared memory", [OPENCL_ORDER_HOST] = "the host"};
    const opencl_peers *p = ((const opencl_device *)base)->peers;
    char library[SM_COLLECTIVES_TEXT_SIZE / 2];
    nccl_describe(library, sizeof library);
    snprintf(text, SM_COLLECTIVES_TEXT_SIZE, "NCCL %s; ordered by %s", library, orders[p->order]);
}

// --- the end -------------------------------------------------------------------------------------

void opencl_peers_abort(sm_device *base) {
    opencl_peers *p = ((opencl_device *)base)->peers;
    if (p != NULL && p->comm != NULL && !atomic_exchange(&p->is_aborted, true)) {
        (void)cuda.context_set(p->context);
        (void)nccl.abort(p->comm);
    }
}

void opencl_peers_leave(opencl_device *device) {
    (void)os_await_beside(&early);
    opencl_peers *p = device->peers;
    if (p == NULL || p->is_busy) {
        return;
    }
    (void)cuda.context_set(p->context);
    if (p->comm != NULL && !atomic_load(&p->is_aborted)) {
        (void)nccl.destroy(p->comm);
    }
    leave_links(p);
    opencl_unshare(device, &p->words);
    if (p->stream != NULL) {
        (void)cuda.stream_destroy(p->stream);
    }
    (void)cuda.context_release(p->card);
    free(p);
    device->peers = NULL;
}
