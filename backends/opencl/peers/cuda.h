// cuda.h: the functions of CUDA's driver (libcuda.so.1) that move memory and order streams, with own declarations and
// loaded at run time: neither its headers nor its toolkit are needed. AMD's HIP has a function for each.
#pragma once

#include "status.h"

typedef uint64_t cuda_address; // in the card's memory
typedef uint64_t cuda_memory;  // a piece of it, which has an address only where it is mapped
typedef void *cuda_stream;
typedef void *cuda_event;

enum { CUDA_UUID_BYTES = 16, CUDA_SUCCESS = 0, CUDA_OUT_OF_MEMORY = 2, CUDA_NOT_READY = 600 };

typedef struct {
    int type; // 1: a device
    int id;
} cuda_location;

typedef struct {
    int type;         // 1: pinned
    int handle_types; // 1: file descriptors
    cuda_location location;
    void *win32;
    unsigned char compression;
    unsigned char is_rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
} cuda_memory_properties;

typedef struct {
    cuda_location location;
    int flags; // 3: reads and writes
} cuda_access;

// X(name, name in the library, arguments)
#define CUDA_FUNCTION_LIST(X)                                                                                         \
    X(init, "cuInit", (unsigned flags))                                                                               \
    X(get_error_name, "cuGetErrorName", (int code, const char **name))                                                \
    X(device_get_count, "cuDeviceGetCount", (int *n))                                                                 \
    X(device_get_uuid, "cuDeviceGetUuid", (unsigned char uuid[CUDA_UUID_BYTES], int device))                          \
    X(context_retain, "cuDevicePrimaryCtxRetain", (void **context, int device))                                       \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                                                  \
    X(context_set, "cuCtxSetCurrent", (void *context))                                                                \
    X(synchronize, "cuCtxSynchronize", (void))                                                                        \
    X(memory_granularity, "cuMemGetAllocationGranularity",                                                            \
      (size_t * size_bytes, const cuda_memory_properties *properties, int option))                                    \
    X(memory_create, "cuMemCreate",                                                                                   \
      (cuda_memory * memory, size_t size_bytes, const cuda_memory_properties *properties, uint64_t flags))            \
    X(memory_release, "cuMemRelease", (cuda_memory memory))                                                           \
    X(memory_export, "cuMemExportToShareableHandle",                                                                  \
      (void *handle, cuda_memory memory, int handle_type, uint64_t flags))                                            \
    X(memory_import, "cuMemImportFromShareableHandle", (cuda_memory * memory, void *handle, int handle_type))         \
    X(address_reserve, "cuMemAddressReserve",                                                                         \
      (cuda_address * address, size_t size_bytes, size_t alignment, cuda_address wanted, uint64_t flags))             \
    X(address_free, "cuMemAddressFree", (cuda_address address, size_t size_bytes))                                    \
    X(memory_map, "cuMemMap",                                                                                         \
      (cuda_address address, size_t size_bytes, size_t offset_bytes, cuda_memory memory, uint64_t flags))             \
    X(memory_unmap, "cuMemUnmap", (cuda_address address, size_t size_bytes))                                          \
    X(memory_allow, "cuMemSetAccess", (cuda_address address, size_t size_bytes, const cuda_access *access, size_t n)) \
    X(host_register, "cuMemHostRegister_v2", (void *memory, size_t size_bytes, unsigned flags))                        \
    X(host_get_address, "cuMemHostGetDevicePointer_v2", (cuda_address * address, void *memory, unsigned flags))        \
    X(host_unregister, "cuMemHostUnregister", (void *memory))                                                         \
    X(copy_to_host, "cuMemcpyDtoH_v2", (void *to, cuda_address from, size_t size_bytes))                              \
    X(copy_from_host, "cuMemcpyHtoD_v2", (cuda_address to, const void *from, size_t size_bytes))                      \
    X(copy, "cuMemcpyDtoDAsync_v2", (cuda_address to, cuda_address from, size_t size_bytes, cuda_stream stream))      \
    X(stream_create, "cuStreamCreate", (cuda_stream * stream, unsigned flags))                                        \
    X(stream_query, "cuStreamQuery", (cuda_stream stream))                                                            \
    X(stream_destroy, "cuStreamDestroy_v2", (cuda_stream stream))                                                     \
    X(event_create, "cuEventCreate", (cuda_event * event, unsigned flags))                                            \
    X(event_record, "cuEventRecord", (cuda_event event, cuda_stream stream))                                          \
    X(event_query, "cuEventQuery", (cuda_event event))                                                                \
    X(event_elapsed, "cuEventElapsedTime", (float *elapsed_ms, cuda_event start, cuda_event end))                     \
    X(event_destroy, "cuEventDestroy_v2", (cuda_event event))

// The functions that order streams by numbers in memory.
#define CUDA_ORDER_FUNCTION_LIST(X)                                               \
    X(stream_wait_value, "cuStreamWaitValue32_v2",                                \
      (cuda_stream stream, cuda_address address, uint32_t value, unsigned flags)) \
    X(stream_write_value, "cuStreamWriteValue32_v2",                              \
      (cuda_stream stream, cuda_address address, uint32_t value, unsigned flags))

typedef struct {
#define X(name, symbol, arguments) int(*name) arguments;
    CUDA_FUNCTION_LIST(X)
    CUDA_ORDER_FUNCTION_LIST(X) // NULL where the driver has it not
#undef X
} cuda_functions;

extern cuda_functions cuda;

// Loads and initialises libcuda.so.1 once. SM_ERR_UNSUPPORTED: the message says what is missing.
sm_status cuda_load(void);

// "DEVICE: DOING: CUDA_ERROR_NAME (code)", unless the code is CUDA_SUCCESS. SM_ERR_OOM for missing memory.
sm_status cuda_check(const char *device_id, const char *doing, int code);
