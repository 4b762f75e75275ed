#include <unistd.h>

#include "backends/host/descriptors.h"
#include "backends/opencl/peers/peers.h"

// NVIDIA's driver 580 ends the process where it imports as much or more.
enum { IMPORTED_BYTES = 512 << 20 };
enum { FILE_DESCRIPTORS = 1, EXTERNAL_MEMORY_OPAQUE_FD_KHR = 0x2060 };

// Own memory, or another card's: the driver then reaches that by the cards' link.
static sm_status map(const opencl_device *device, cuda_memory memory, size_t size_bytes, cuda_address *mapped) {
    const cuda_access access = {.location = {1, device->peers->card}, .flags = 3};
    cuda_address address = 0;
    SM_TRY(cuda_check(id_of(device), "cuMemAddressReserve", cuda.address_reserve(&address, size_bytes, 0, 0, 0)));
    sm_status status = cuda_check(id_of(device), "cuMemMap", cuda.memory_map(address, size_bytes, 0, memory, 0));
    if (status != SM_OK) {
        (void)cuda.address_free(address, size_bytes);
        return status;
    }
    *mapped = address;
    return cuda_check(id_of(device), "cuMemSetAccess", cuda.memory_allow(address, size_bytes, &access, 1));
}

static void unmap(cuda_address address, size_t size_bytes) {
    if (address != 0) {
        (void)cuda.memory_unmap(address, size_bytes);
        (void)cuda.address_free(address, size_bytes);
    }
}

static sm_status export(const opencl_device *device, const opencl_shared *s, int *descriptor) {
    return cuda_check(id_of(device), "cuMemExportToShareableHandle",
                      cuda.memory_export(descriptor, s->memory, FILE_DESCRIPTORS, 0));
}

// OpenCL owns the descriptor once it has taken it.
static sm_status import(const opencl_device *device, opencl_shared *s) {
    int descriptor = -1;
    cl_int code = CL_SUCCESS;
    SM_TRY(export(device, s, &descriptor));
    const cl_ulong properties[] = {EXTERNAL_MEMORY_OPAQUE_FD_KHR, (cl_ulong)descriptor, 0};
    s->buffer = device->peers->create_with_properties(device->context, properties, CL_MEM_READ_WRITE, s->size_bytes,
                                                      NULL, &code);
    if (code != CL_SUCCESS) {
        s->buffer = NULL;
        close(descriptor);
    }
    return opencl_check(id_of(device), "clCreateBufferWithProperties, of CUDA's memory", code);
}

sm_status opencl_share(opencl_device *device, size_t size_bytes, opencl_shared *shared) {
    const cuda_memory_properties properties = {
        .type = 1, .handle_types = FILE_DESCRIPTORS, .location = {1, device->peers->card}};
    opencl_shared s = {0};
    size_t granule = 0;
    *shared = s;
    SM_TRY(cuda_check(id_of(device), "cuCtxSetCurrent", cuda.context_set(device->peers->context)));
    SM_TRY(
        cuda_check(id_of(device), "cuMemGetAllocationGranularity", cuda.memory_granularity(&granule, &properties, 0)));
    s.size_bytes = (size_bytes + granule - 1) / granule * granule;
    SM_FAIL_IF(s.size_bytes >= IMPORTED_BYTES, SM_ERR_UNSUPPORTED,
               "%s: OpenCL imports only pieces of less than 512 MiB, and this has %zu bytes", id_of(device),
               s.size_bytes);
    SM_TRY(cuda_check(id_of(device), "cuMemCreate", cuda.memory_create(&s.memory, s.size_bytes, &properties, 0)));
    sm_status status = map(device, s.memory, s.size_bytes, &s.address);
    status = status == SM_OK ? import(device, &s) : status;
    if (status != SM_OK) {
        opencl_unshare(device, &s);
        return status;
    }
    *shared = s;
    return SM_OK;
}

void opencl_unshare(const opencl_device *device, opencl_shared *shared) {
    for (int rank = 0; shared->linked != NULL && rank < device->peers->n_processes; rank++) {
        if (rank != device->peers->rank) {
            unmap(shared->linked[rank].address, shared->size_bytes);
            (void)(shared->linked[rank].memory != 0 ? cuda.memory_release(shared->linked[rank].memory) : CUDA_SUCCESS);
        }
    }
    free(shared->linked);
    opencl_release_buffer(shared->buffer);
    unmap(shared->address, shared->size_bytes);
    if (shared->size_bytes != 0) {
        (void)cuda.memory_release(shared->memory);
    }
    *shared = (opencl_shared){0};
}

// --- other processes' memory -----------------------------------------------------------------------

static sm_status send_to_all(const opencl_device *device, const opencl_shared *s) {
    const opencl_peers *p = device->peers;
    SM_CLOSED int descriptor = -1;
    const sm_status exported = export(device, s, &descriptor);
    sm_status status = SM_OK;
    for (int rank = 0; rank < p->n_processes && status == SM_OK; rank++) {
        status = rank == p->rank ? SM_OK : host_send_descriptor(p->links->connections[rank], descriptor, s->size_bytes);
    }
    return exported != SM_OK ? exported : status;
}

static sm_status take_from(const opencl_device *device, opencl_shared *s, int rank) {
    opencl_linked *l = &s->linked[rank];
    uint64_t size_bytes = 0;
    int descriptor = -1;
    SM_TRY(host_receive_descriptor(device->peers->links->connections[rank], &descriptor, &size_bytes));
    const bool is_same = size_bytes == s->size_bytes;
    const int code = is_same ? cuda.memory_import(&l->memory, (void *)(intptr_t)descriptor, FILE_DESCRIPTORS) : 0;
    close(descriptor);
    SM_FAIL_IF(!is_same, SM_ERR_INTERNAL, "%s: rank %d links %llu bytes, and this process %zu", id_of(device), rank,
               (unsigned long long)size_bytes, s->size_bytes);
    SM_TRY(cuda_check(id_of(device), "cuMemImportFromShareableHandle", code));
    return map(device, l->memory, s->size_bytes, &l->address);
}

sm_status opencl_link(opencl_device *device, opencl_shared *s) {
    const opencl_peers *p = device->peers;
    s->linked = sm_calloc((size_t)p->n_processes, sizeof *s->linked);
    s->linked[p->rank].address = s->address;
    SM_TRY(cuda_check(id_of(device), "cuCtxSetCurrent", cuda.context_set(p->context)));
    SM_TRY(send_to_all(device, s));
    for (int rank = 0; rank < p->n_processes; rank++) {
        SM_TRY(rank == p->rank ? SM_OK : take_from(device, s, rank));
    }
    return SM_OK;
}

// A copy from the host returns before the card has it.
sm_status opencl_write_shared(const opencl_device *device, const opencl_shared *shared, size_t at, uint32_t number) {
    SM_TRY(
        cuda_check(id_of(device), "cuMemcpyHtoD", cuda.copy_from_host(shared->address + at, &number, sizeof number)));
    return cuda_check(id_of(device), "cuCtxSynchronize", cuda.synchronize());
}
