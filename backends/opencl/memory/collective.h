// collective.h: what collective.c shares with the two ways to exchange: by_nccl.c and by_links.c.
#ifndef STEPMARK_BACKENDS_OPENCL_MEMORY_COLLECTIVE_H
#define STEPMARK_BACKENDS_OPENCL_MEMORY_COLLECTIVE_H

#include "backends/opencl/memory/memory.h"
#include "shard.h"

typedef struct opencl_collective {
    sm_collective what;
    cuda_address address; // of the tensor, or of its rounded copy
    int64_t n_elems;
    int bucket; // whose rounded gradients are exchanged; -1: the tensor itself
    opencl_point begun;
    cuda_event started, ended;
    bool is_in_stream; // at least a part of it
    struct opencl_collective *next;
    // by_nccl.c
    struct opencl_collective *first, *last; // of those that it was handed over with
    atomic_bool is_handed_over;
    // by_links.c
    uint32_t number;
    size_t landing_at;
    struct opencl_collective *before, *after; // in the order of their begins
} opencl_collective;

// The ticket's first part of a begin: rounds, and marks the point of the queue from which it may travel.
sm_status opencl_begin_collective(opencl_executable *e, const sm_collective *what, void **ticket,
                                  opencl_collective **begun);
sm_status opencl_finish_collective(sm_executable *executable, void *ticket); // widens

static inline sm_slice opencl_slice_of(const opencl_peers *p, const opencl_collective *c, int rank) {
    return sm_slice_of(c->n_elems, c->what.line_elems, rank, p->n_processes);
}

// Of what travels.
static inline size_t opencl_elem_bytes_of(const opencl_executable *e, const opencl_collective *c) {
    return c->bucket >= 0 ? sizeof(uint16_t) : sm_dtype_size(e->base.plan->tensors[c->what.tensor].dtype);
}

// --- by_links.c --------------------------------------------------------------------------------------

size_t opencl_landing_bytes(const sm_plan *plan);
sm_status opencl_reserve_landing(opencl_executable *e);
bool opencl_links_are_over(opencl_executable *e); // looks once
void opencl_free_landing(opencl_executable *e);

#endif
