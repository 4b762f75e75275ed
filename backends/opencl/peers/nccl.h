// nccl.h: NCCL's functions, loaded at run time with own declarations. AMD's RCCL has the same ones, on HIP's streams.
#pragma once

#include "backends/opencl/peers/cuda.h"

typedef void *nccl_comm;
typedef struct {
    unsigned char bytes[128];
} nccl_id;

enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7 };
enum { NCCL_BYTES = 0, NCCL_F32 = 7, NCCL_BF16 = 9 }; // data types
enum { NCCL_SUM = 0 };

// X(name, name in the library, arguments)
#define NCCL_FUNCTION_LIST(X)                                                                                          \
    X(get_version, "ncclGetVersion", (int *version))                                                                   \
    X(get_id, "ncclGetUniqueId", (nccl_id * id))                                                                       \
    X(join, "ncclCommInitRank", (nccl_comm * comm, int n, nccl_id id, int rank))                                       \
    X(destroy, "ncclCommDestroy", (nccl_comm comm))                                                                    \
    X(abort, "ncclCommAbort", (nccl_comm comm))                                                                        \
    X(async_error, "ncclCommGetAsyncError", (nccl_comm comm, int *code))                                               \
    X(begin_group, "ncclGroupStart", (void))                                                                           \
    X(end_group, "ncclGroupEnd", (void))                                                                               \
    X(all_reduce, "ncclAllReduce",                                                                                     \
      (cuda_address from, cuda_address to, size_t n, int type, int sum, nccl_comm comm, cuda_stream stream))           \
    X(reduce, "ncclReduce",                                                                                            \
      (cuda_address from, cuda_address to, size_t n, int type, int sum, int rank, nccl_comm comm, cuda_stream stream)) \
    X(reduce_scatter, "ncclReduceScatter",                                                                             \
      (cuda_address from, cuda_address to, size_t n_each, int type, int sum, nccl_comm comm, cuda_stream stream))      \
    X(broadcast, "ncclBroadcast",                                                                                      \
      (cuda_address from, cuda_address to, size_t n, int type, int rank, nccl_comm comm, cuda_stream stream))          \
    X(all_gather, "ncclAllGather",                                                                                     \
      (cuda_address from, cuda_address to, size_t n_each, int type, nccl_comm comm, cuda_stream stream))

typedef struct {
#define X(name, symbol, arguments) int(*name) arguments;
    NCCL_FUNCTION_LIST(X)
#undef X
    const char *(*error_text)(int code);
} nccl_functions;

extern nccl_functions nccl;

// Loads the library once: `path`, else $STEPMARK_NCCL, else the usual places. SM_ERR_UNSUPPORTED says what is missing.
// Fixes its algorithm and protocol for this process, unless the environment does: another choice sums in another order.
sm_status nccl_load(const char *path);

// "2.28.9, Ring, Simple"
void nccl_describe(char *text, size_t size_bytes);

// "DEVICE: DOING: NCCL: ...", unless the code is NCCL_SUCCESS.
sm_status nccl_check(const char *device_id, const char *doing, int code);
