// memory.h: a plan's tensors in this machine's memory. Shared by the backends that
// compute on the host (reference, cpu).
#ifndef STEPMARK_BACKENDS_HOST_MEMORY_H
#define STEPMARK_BACKENDS_HOST_MEMORY_H

#include "backend.h"

// Zeroed memory in whole pages, huge pages asked for where there is room for one; NULL when
// refused. size_bytes > 0; give the same size back to host_unmap (NULL is fine).
void *host_map(size_t size_bytes);
void host_unmap(void *block, size_t size_bytes);

// One block an arena, zeroed, 4 KiB-aligned at least, huge pages asked for.
typedef struct {
    const sm_plan *plan;
    int n_arenas;
    void **arenas; // the plan's own where it says so (sm_arena.memory)
    size_t *sizes_bytes;
    size_t total_bytes;
} host_memory;

// SM_ERR_OOM when the plan asks for more than is available now: says both figures.
// `memory` needs no initialisation and is empty after a failure.
sm_status host_memory_allocate(const sm_plan *plan, host_memory *memory);
void host_memory_free(host_memory *memory);

// A copy of the parameters' arenas.
typedef struct {
    void **arenas; // as many as the plan has; NULL for others
} host_weights;

// keep_weights of backend.h.
sm_status host_keep_weights(const host_memory *memory, sm_weights_action action, host_weights *weights);

// Address of a tensor's first element; NULL where no op uses it.
void *host_tensor(const host_memory *memory, const sm_plan *plan, int tensor);

// upload/download of backend.h.
sm_status host_upload(const host_memory *memory, const sm_plan *plan, int tensor, int64_t offset_elems, int64_t n_elems,
                      const void *data);
sm_status host_download(const host_memory *memory, const sm_plan *plan, int tensor, int64_t offset_elems,
                        int64_t n_elems, void *data);

// An op with its operands' addresses. Absent operands are NULL, tensor and address.
typedef struct {
    const sm_op *op;
    const sm_tensor *in_tensor[SM_MAX_IN];
    const sm_tensor *out_tensor[SM_MAX_OUT];
    void *in[SM_MAX_IN];
    void *out[SM_MAX_OUT];
    int skip_in; // which input is `clip`, of a kind that does nothing where it is negative (op_table.h); or
                 // SM_NO_OPERAND
} host_op;

// The op with its tensors and no addresses: what is known before there is memory.
host_op host_describe_op(const sm_plan *plan, const sm_op *op);

// The bound op as later micro-batches of a step do it: itself, or where that differs (sm_op_later), in `later`.
typedef struct {
    sm_op op;
    host_op bound;
} host_later;
const host_op *host_find_later(const sm_plan *plan, const host_op *op, host_later *later);

// Is it an update of a step that is skipped?
bool host_is_skipped(const host_op *op);

// Binds every op of the plan (plan->n_ops entries); the caller frees the array.
sm_status host_bind(const host_memory *memory, const sm_plan *plan, host_op **ops);

// The machine's total and available memory in bytes; a cgroup's limit counts.
size_t host_total_bytes(void);
size_t host_available_bytes(void);

// Monotonic clock.
int64_t host_now_ns(void);

#endif
