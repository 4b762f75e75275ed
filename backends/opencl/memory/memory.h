// memory.h: a plan's tensors in the device's memory, copies between it and the host, and waiting for the device.
//
//   memory.c  arenas, scratch, uploads and downloads
//   copy.c    copies during computation
//   collective.c  exchanges with other processes' devices
//   by_nccl.c     by NCCL
//   by_links.c    by the cards' own links, with the driver alone
//   wait.c    waits that end at a deadline
#pragma once

#include "backends/opencl/peers/peers.h"

enum { OPENCL_STAGING_SLOTS = 16, OPENCL_MAX_PINNED = 256 };

// Data uploaded in a step (batches, settings) are copied here first, so that the caller need not wait for the device.
typedef struct {
    size_t slot_bytes; // the largest batch tensor
    unsigned char *bytes[OPENCL_STAGING_SLOTS];
    cl_event written[OPENCL_STAGING_SLOTS]; // NULL: free
    int next;
} opencl_staging;

// Host memory of a processor's buffer; NULL if the driver allocates it.
typedef struct {
    void *host;
    size_t size_bytes;
} opencl_pages;

// Rounds or adds data between the device and the host, in one direction: each has its own thread.
typedef struct {
    cl_kernel plain; // NULL: copied unchanged
    cl_kernel rounded;
    cl_mem landing; // between the copy and the kernel
    size_t landing_bytes;
} opencl_copy_way;

// The queue of an op's launches, and their part of the scratch: of norms whose sums go aside, places in turn.
typedef enum { OPENCL_IN_QUEUE, OPENCL_ASIDE, OPENCL_SUMS_ASIDE, OPENCL_COURSES } opencl_course;
// After them: sums of squares, by their place in the gradients' arena.
enum { OPENCL_SQUARES = OPENCL_COURSES, OPENCL_PARTS_OF_SCRATCH };
enum { OPENCL_NORM_PLACES = 4, OPENCL_SQUARE_ELEMS = 1024 };

// A plan on a device, shared by all layers. Members are grouped by the layers that own them.
typedef struct opencl_executable {
    sm_executable base;
    opencl_device *device;
    int n_arenas; // the plan's, which may be freed before a lost device is
    cl_mem *arenas;
    opencl_shared *shared; // n_arenas: the arenas that CUDA reaches, too, and their buffers; others are empty
    cl_mem *weights;       // copies of the parameters' arenas (opencl_keep_weights); NULL for others
    opencl_pages *pages;   // n_arenas + 1: memory of the arenas and the scratch
    cl_mem scratch;        // data between launches of one op; NULL if no op needs it
    bool uses_aside;       // the queue aside
    size_t scratch_at[OPENCL_PARTS_OF_SCRATCH]; // floats
    size_t norm_elems;                          // of a place
    int n_norms;                                // backward, bound so far
    opencl_staging staging;
    cl_mem pinned[OPENCL_MAX_PINNED]; // host memory that other processes see, too (opencl_pin)
    int n_pinned;
    opencl_copy_way ways[2]; // out and in
    opencl_shared *rounded;  // for each bucket, its gradients in bf16; NULL: none
    int n_rounded;
    cl_kernel round, widen;                // from and to these
    struct opencl_collective *collectives; // tickets
    bool (*end_collectives)(
        struct opencl_executable *e); // of the way by which they were begun: whether all are over, and
                                      // if they wait for processes that have gone, ends them
    uint64_t n_enqueued;              // launches of ops so far
    bool is_idle;                     // the queue has done all that was enqueued, as far as is known
    struct opencl_landing *landing;   // what arrives by links; NULL: nothing does
    struct opencl_executable *next_kept;
    // launch
    struct opencl_launch *launches;
    int n_launches;
    int cap_launches;
    opencl_wanted *wanted; // while ops are bound only to get the names of their programs; else NULL
    // families
    int n_on_units; // ops on matrix units, and those whose sizes do not suit the family's kernels for units
    int n_beside_units;
    void *family_data; // the family's own data; NULL: none
    // the device layer
    sm_range *launches_of; // op i, and at n_ops + i as in later micro-batches
    cl_event *events;      // n_launches, for the profiled queue
} opencl_executable;

// --- memory.c ------------------------------------------------------------------------------------

// The computing queue, for something to be enqueued.
static inline cl_command_queue opencl_queue(opencl_executable *e) {
    e->is_idle = false;
    return e->device->queue;
}

// Whether the device exchanges the tensors of a role with its peers.
static inline bool opencl_is_exchanged(const opencl_device *device, const sm_plan *plan, sm_role role) {
    return opencl_has_peers(device) && sm_plan_is_exchanged(plan, role);
}

// Arenas and scratch, zeroed. SM_ERR_OOM has the requested and the available bytes.
sm_status opencl_allocate(opencl_executable *e, size_t scratch_bytes);
void opencl_free_memory(opencl_executable *e);
sm_status opencl_upload(sm_executable *executable, int tensor, int64_t offset_elems, int64_t n_elems, const void *data);
sm_status opencl_download(sm_executable *executable, int tensor, int64_t offset_elems, int64_t n_elems, void *data);
sm_status opencl_keep_weights(sm_executable *executable, sm_weights_action action);

// The buffer and the bytes of a part of a tensor.
typedef struct {
    cl_mem buffer;
    size_t offset_bytes;
    size_t size_bytes;
} opencl_span;

sm_status opencl_find_span(const opencl_executable *e, int tensor, int64_t offset_elems, int64_t n_elems,
                           opencl_span *s);

// --- copy.c --------------------------------------------------------------------------------------

sm_status opencl_begin_copy(sm_executable *executable, const sm_copy *copy, void **ticket);
sm_status opencl_wait_copy(sm_executable *executable, void *ticket);
bool opencl_is_copied(sm_executable *executable, void *ticket);
sm_status opencl_pin(sm_executable *executable, void *memory, size_t size_bytes);
void opencl_free_copies(opencl_executable *e);
size_t opencl_copy_bytes(const sm_plan *plan); // for the sums of two processes

// --- collective.c --------------------------------------------------------------------------------

extern const sm_collectives sm_collectives_nccl, sm_collectives_links; // declared again by src/session/registry.c
size_t opencl_exchange_bytes(const sm_plan *plan);                     // of what it reserves
sm_status opencl_reserve_exchange(opencl_executable *e);
bool opencl_free_collectives(opencl_executable *e); // false: they are not over, and nothing may be freed

// --- by_links.c ----------------------------------------------------------------------------------

// Memory for what arrives; none if the device is not joined by links.
size_t opencl_landing_bytes(const opencl_device *device, const sm_plan *plan);
sm_status opencl_reserve_landing(opencl_executable *e);
void opencl_free_landing(opencl_executable *e);

// --- wait.c --------------------------------------------------------------------------------------

// Waits for the event, NULL: the whole queue. SM_ERR_TIMEOUT at the executable's deadline: the device is lost, then.
sm_status opencl_wait(opencl_executable *e, const char *doing, cl_command_queue queue, cl_event event);
// Fails when the device is lost.
sm_status opencl_check_lost(const opencl_executable *e);
void opencl_end_waiter(opencl_device *device);
// The time of an event of the profiled queue; 0 if unknown.
sm_status opencl_event_ns(const opencl_device *device, cl_event event, int64_t *elapsed_ns);

// Keep a lost device's executable, or the device, which nobody uses any more.
void opencl_keep_executable(opencl_executable *e);
void opencl_keep_device(opencl_device *device);
// Frees what was kept of that device; SM_ERR_TIMEOUT if it is still lost.
sm_status opencl_reclaim(const opencl_facts *facts, const char *device_id);
