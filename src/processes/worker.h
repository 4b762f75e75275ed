// worker.h: work in a process of its own. A driver that hangs or crashes then takes neither the program nor its
// results with it: a thread that waits inside of a driver cannot be ended, its process can.
//
// The worker is forked, not started again: it has everything that the program has read and decided. It reports its work
// by messages, JSON objects, that its parent reads one by one.
#ifndef STEPMARK_WORKER_H
#define STEPMARK_WORKER_H

#include <jansson.h>

#include "src/processes/process.h"

// Takes one message, and owns it no longer than the call. Sets *deadline_ns anew where the worker begins something that
// has its own limit: a time of sm_now_ns, INT64_MAX for none. A failure ends the worker, and is passed on.
typedef sm_status (*sm_worker_receive)(void *ctx, const json_t *message, int64_t *deadline_ns);

typedef struct {
    int (*work)(void *ctx); // in the worker: its exit code
    sm_worker_receive receive;
    void *ctx;
    int64_t deadline_ns; // until a message sets another
    double stop_s;       // what the worker has to end by itself, once it was asked to

    const volatile sig_atomic_t *interrupted; // as in process.h
} sm_worker_job;

// Runs it to its end, and says how it ended: there is nothing to free.
sm_status sm_worker_run(const sm_worker_job *job, sm_process_result *end);

// --- in the worker ---------------------------------------------------------------------------------

// Sends a message and takes it over. Outside of a worker nothing is sent.
sm_status sm_worker_send(json_t *message);

// What is under way may take so long once its deadline is over or it was asked to end, because steps take that long.
// As cheap as a store.
void sm_worker_set_step_ns(int64_t longest_step_ns);

// Asked to end, the worker saves what it has, which takes as long as it takes: it is not ended before it says that this
// is over.
void sm_worker_set_saving(bool saving);

#endif
