// memory.h: a plan's tensors in the device's memory, copies between it and the host, and waiting for the device.
//
//   memory.c  arenas, scratch, uploads and downloads
//   copy.c    copies beside what is computed
//   wait.c    waits that end at a deadline
#ifndef STEPMARK_BACKENDS_OPENCL_MEMORY_MEMORY_H
#define STEPMARK_BACKENDS_OPENCL_MEMORY_MEMORY_H

#include "backends/opencl/program/program.h"

enum { OPENCL_STAGING_SLOTS = 16, OPENCL_MAX_PINNED = 64 };

// What is uploaded in a step (batches, settings) is copied here first, so that the caller need not wait for the device.
typedef struct {
    size_t slot_bytes; // the largest batch tensor fits
    unsigned char *bytes[OPENCL_STAGING_SLOTS];
    cl_event written[OPENCL_STAGING_SLOTS]; // NULL: free
    int next;
} opencl_staging;

// Host memory that a processor's buffer lies in; NULL where the driver has its own.
typedef struct {
    void *host;
    size_t size_bytes;
} opencl_pages;

// What is rounded or added on its way between the device and the host: one way's, as each has a thread of its own.
typedef struct {
    cl_kernel plain; // NULL: copied as it is
    cl_kernel rounded;
    cl_mem landing; // between the copy and the kernel
    size_t landing_bytes;
} opencl_copy_way;

// A plan on a device, as all layers hand it on. Parts are the layers' that they are named after.
typedef struct opencl_executable {
    sm_executable base;
    opencl_device *device;
    int n_arenas; // the plan's, which may be gone before a lost device is
    cl_mem *arenas;
    cl_mem *weights;     // copies of the parameters' (opencl_keep_weights); NULL where there are none
    opencl_pages *pages; // n_arenas + 1: where the arenas and the scratch lie
    cl_mem scratch;      // what launches of one op hand to one another; NULL where none does
    opencl_staging staging;
    cl_mem pinned[OPENCL_MAX_PINNED]; // host memory that other processes see, too (opencl_pin)
    int n_pinned;
    opencl_copy_way ways[2]; // out and in
    struct opencl_executable *next_kept;
    // launch
    struct opencl_launch *launches;
    int n_launches;
    int cap_launches;
    opencl_wanted *wanted; // while ops are bound for the names of their programs alone; else NULL
    // families
    int n_on_units; // ops on matrix units, and those for which the family has such kernels, but not for these sizes
    int n_beside_units;
    void *family_data; // what the family keeps for the executable; NULL: nothing
    // the device layer
    sm_range *launches_of; // op i, and at n_ops + i as later micro-batches do it
    cl_event *events;      // n_launches, for the profiled queue
} opencl_executable;

// --- memory.c ------------------------------------------------------------------------------------

// Arenas and scratch, zeroed. SM_ERR_OOM says what was asked and what there is.
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
size_t opencl_copy_bytes(const sm_plan *plan); // that two processes' sums land in

// --- wait.c --------------------------------------------------------------------------------------

// Waits for the event or, where that is NULL, for all of the queue. SM_ERR_TIMEOUT at the executable's deadline: the
// device is lost then. `doing` names the call in messages.
sm_status opencl_wait(opencl_executable *e, const char *doing, cl_command_queue queue, cl_event event);
// Fails when the device is lost.
sm_status opencl_check_lost(const opencl_executable *e);
void opencl_end_waiter(opencl_device *device);
// What it took, of an event of the profiled queue that has come; 0 where that is not known.
sm_status opencl_event_ns(const opencl_device *device, cl_event event, int64_t *elapsed_ns);

// A lost device's executable or itself, which are not needed any more.
void opencl_keep_executable(opencl_executable *e);
void opencl_keep_device(opencl_device *device);
// Frees what was kept of that device; SM_ERR_TIMEOUT when it has not come back.
sm_status opencl_reclaim(const opencl_facts *facts, const char *device_id);

#endif
