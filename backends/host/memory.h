// memory.h: a plan's tensors in this machine's memory, for the backends that compute on the host (reference, cpu).
#pragma once

#include "backend.h"

// Zeroed memory in whole pages, with huge pages requested if large enough; NULL if refused. size_bytes > 0; give the
// same size to host_unmap (NULL is fine).
void *host_map(size_t size_bytes);
void host_unmap(void *block, size_t size_bytes);

// An op with its operands' addresses. For absent operands tensor and address are NULL.
typedef struct {
    const sm_op *op;
    union { // as in sm_op
        struct {
            const sm_tensor *in_tensor[SM_MAX_IN];
            const sm_tensor *out_tensor[SM_MAX_OUT];
        };
        const sm_tensor *tensors[SM_MAX_OPERANDS];
    };
    union {
        struct {
            void *in[SM_MAX_IN];
            void *out[SM_MAX_OUT];
        };
        void *operands[SM_MAX_OPERANDS];
    };
    int skip_in; // index of the input `clip` of a kind that does nothing if it is negative (op_table.h); or
                 // SM_NO_OPERAND
} host_op;

// The op with its tensors but without addresses, for use before there is memory.
host_op host_describe_op(const sm_plan *plan, const sm_op *op);

// The bound op in later micro-batches of a step: itself, or, if it differs (sm_op_later), in `later`.
typedef struct {
    sm_op op;
    host_op bound;
} host_later;
const host_op *host_find_later(const sm_plan *plan, const host_op *op, host_later *later);

// Whether it is an update of a skipped step.
bool host_is_skipped(const host_op *op);

// The first member of an executable of a backend that computes on the host: the plan's memory and bound ops. Each arena
// is one zeroed block, aligned to at least 4 KiB, with huge pages requested.
typedef struct {
    sm_executable base;
    int n_arenas;
    void **arenas; // or the plan's own memory (sm_arena.memory)
    size_t *sizes_bytes;
    size_t total_bytes;
    void **kept;  // a copy of the parameters' arenas, NULL for those of other roles; NULL: none
    host_op *ops; // every op of the plan
} host_executable;

// Makes all of it for base.plan. SM_ERR_OOM if the plan needs more than is available now, with both figures; then, as
// always, host_free() frees what there is, but not e itself.
sm_status host_prepare(host_executable *e);
void host_free(host_executable *e);

// Address of a tensor's first element; NULL if no op uses it.
void *host_tensor(const host_executable *e, int tensor);

// Functions of backend.h for such executables; execute() returns when everything is done.
sm_status host_synchronize(sm_executable *executable);
sm_status host_upload(sm_executable *executable, int tensor, int64_t offset_elems, int64_t n_elems, const void *data);
sm_status host_download(sm_executable *executable, int tensor, int64_t offset_elems, int64_t n_elems, void *data);
sm_status host_keep_weights(sm_executable *executable, sm_weights_action action);
const void *host_address(const sm_executable *executable, int tensor);

// The machine's total and available memory in bytes, within the limits of cgroups.
size_t host_total_bytes(void);
size_t host_available_bytes(void);

// Monotonic clock.
int64_t host_now_ns(void);

// The processor time that this thread has taken: other load does not count. Where the system counts it in long ticks
// (Windows: 16 ms), it is the time that has passed.
int64_t host_thread_busy_ns(void);
bool host_counts_thread(void);
