// shared.c: see peers/peers.h.
#include <unistd.h>

#include "backends/opencl/peers/peers.h"

enum { FILE_DESCRIPTORS = 1, EXTERNAL_MEMORY_OPAQUE_FD_KHR = 0x2060 };

static sm_status map(const opencl_device *device, opencl_shared *s) {
    const cuda_access access = {.location = {1, device->peers->card}, .flags = 3};
    cuda_address address = 0;
    SM_TRY(cuda_check(id_of(device), "cuMemAddressReserve", cuda.address_reserve(&address, s->size_bytes, 0, 0, 0)));
    sm_status status = cuda_check(id_of(device), "cuMemMap", cuda.memory_map(address, s->size_bytes, 0, s->memory, 0));
    if (status != SM_OK) {
        (void)cuda.address_free(address, s->size_bytes);
        return status;
    }
    s->address = address;
    return cuda_check(id_of(device), "cuMemSetAccess", cuda.memory_allow(address, s->size_bytes, &access, 1));
}

// OpenCL owns the descriptor once it has taken it.
static sm_status import(const opencl_device *device, opencl_shared *s) {
    int descriptor = -1;
    cl_int code = CL_SUCCESS;
    SM_TRY(cuda_check(id_of(device), "cuMemExportToShareableHandle",
                      cuda.memory_export(&descriptor, s->memory, FILE_DESCRIPTORS, 0)));
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
    SM_TRY(cuda_check(id_of(device), "cuMemCreate", cuda.memory_create(&s.memory, s.size_bytes, &properties, 0)));
    sm_status status = map(device, &s);
    status = status == SM_OK ? import(device, &s) : status;
    if (status != SM_OK) {
        opencl_unshare(&s);
        return status;
    }
    *shared = s;
    return SM_OK;
}

void opencl_unshare(opencl_shared *shared) {
    opencl_release_buffer(shared->buffer);
    if (shared->address != 0) {
        (void)cuda.memory_unmap(shared->address, shared->size_bytes);
        (void)cuda.address_free(shared->address, shared->size_bytes);
    }
    if (shared->size_bytes != 0) {
        (void)cuda.memory_release(shared->memory);
    }
    *shared = (opencl_shared){0};
}

// A copy from the host returns before the card has it.
sm_status opencl_write_shared(const opencl_device *device, const opencl_shared *shared, size_t at, uint32_t number) {
    SM_TRY(
        cuda_check(id_of(device), "cuMemcpyHtoD", cuda.copy_from_host(shared->address + at, &number, sizeof number)));
    return cuda_check(id_of(device), "cuCtxSynchronize", cuda.synchronize());
}
