// collective.h: what collective.c shares with the two ways to exchange: by_nccl.c and by_links.c.
#pragma once

#include "backends/opencl/memory/memory.h"
#include "shard.h"

// The next stage of an exchange by links (by_links.c).
typedef enum {
    OPENCL_STAGE_COMPUTED,
    OPENCL_STAGE_ARRIVES,
    OPENCL_STAGE_LANDED,
    OPENCL_STAGE_LEAVES,
    OPENCL_STAGE_TAKEN,
    OPENCL_STAGE_OVER,
} opencl_stage;

typedef struct opencl_collective {
    sm_collective what;
    int64_t n_elems;
    int bucket; // whose rounded gradients are exchanged; -1: the tensor itself
    struct opencl_collective *next;
    // by_nccl.c
    opencl_point begun;
    cuda_event started, ended;
    cuda_address address;                   // of what travels
    struct opencl_collective *first, *last; // of those that it was handed over with
    bool is_in_stream;                      // at least a part of it
    atomic_bool is_handed_over;
    // by_links.c
    uint32_t number;
    opencl_stage stage;
    unsigned slot;                   // of the landing memory
    cl_event computed;               // what the stage waits for; NULL: it is
    int64_t start_ns, busy_ns;       // its own time, without that of earlier ones
    struct opencl_collective *after; // in the order of the begins
} opencl_collective;

// The first part of a begin, for a new ticket or a used one: rounds, and sets the thread's context of CUDA.
sm_status opencl_begin_collective(opencl_executable *e, const sm_collective *what, void **ticket,
                                  opencl_collective **begun);
sm_status opencl_finish_collective(sm_executable *executable, void *ticket); // widens

// Bytes of an element as it is exchanged.
static inline size_t opencl_elem_bytes_of(const opencl_executable *e, const opencl_collective *c) {
    return c->bucket >= 0 ? sizeof(uint16_t) : sm_dtype_size(e->base.plan->tensors[c->what.tensor].dtype);
}
