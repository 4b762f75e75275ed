// worker.h: work in a separate process, so that a driver that hangs or crashes does not affect the program or its
// results: a thread that waits inside a driver cannot be ended, but its process can.
//
// The worker has the program's state: it is forked or, where the system cannot, told what it needs of it (`told`). It
// reports its work by messages, JSON objects, which its parent reads one by one.
#ifndef STEPMARK_WORKER_H
#define STEPMARK_WORKER_H

#include <jansson.h>

#include "src/processes/process.h"

// Receives a message, valid during the call. Sets *deadline_ns when the worker begins something with its own limit: a
// time of sm_now_ns, INT64_MAX for none. A failure ends the worker, and is returned.
typedef sm_status (*sm_worker_receive)(void *ctx, const json_t *message, int64_t *deadline_ns);

typedef struct {
    int (*work)(void *ctx); // in the worker: its exit code
    sm_worker_receive receive;
    void *ctx;
    const char *told; // as in os/child.h, with memory that both share
    os_shared_place shared;
    int64_t deadline_ns; // until a message sets another
    double stop_s;       // for the worker to end by itself after a request
    os_limit memory;     // of its allocations; most 0: none

    const volatile sig_atomic_t *interrupted; // as in process.h
} sm_worker_job;

// Runs it to its end; *end tells how it ended, and has nothing to free.
sm_status sm_worker_run(const sm_worker_job *job, sm_process_result *end);

// --- in the worker ---------------------------------------------------------------------------------

// Sends a message and takes ownership of it. Sends nothing outside of a worker.
sm_status sm_worker_send(json_t *message);

// The time that the current work may need after its deadline, or after a request to end, because steps take that long.
// As cheap as a store.
void sm_worker_set_step_ns(int64_t longest_step_ns);

// While it saves, a worker that was asked to end is not ended before it resets this.
void sm_worker_set_saving(bool saving);

#endif
