// comm_reducer.h: what comm_reduce.c and comm_move.c share: the state of the summing thread.
#ifndef STEPMARK_COMM_REDUCER_H
#define STEPMARK_COMM_REDUCER_H

#include <pthread.h>
#include <stdatomic.h>

#include "src/comm/comm_reduce.h"
#include "src/comm/comm_transport.h"

enum { MAX_SEGMENTS = 256, QUEUE_JOBS = 1024, LINE_BYTES = 64 };

typedef struct {
    size_t size_bytes;
    void **parts; // one for each member
} segment;

// The state of a member that the others of its group see.
typedef struct {
    _Alignas(LINE_BYTES) _Atomic uint32_t arrived;
    _Alignas(LINE_BYTES) _Atomic uint32_t done;
    _Alignas(LINE_BYTES) _Atomic uint32_t released;
    _Alignas(LINE_BYTES) atomic_flag has_spoken; // the first member's serves the group
} progress;

struct sm_reducer {
    sm_comm *comm;
    segment segments[MAX_SEGMENTS];
    int n_segments;
    int me;              // index among the members
    progress **progress; // one for each member
    uint32_t n_begun;    // jobs that this process has started
    void *outgoing;      // partial sums for other groups, and those from them
    void *incoming;
    size_t buffer_bytes; // of each

    bool is_running;
    pthread_t thread;
    pthread_mutex_t lock; // protects the members below
    pthread_cond_t changed;
    sm_comm_job queue[QUEUE_JOBS];
    int64_t n_started, n_finished;
    int64_t busy_ns;        // in jobs that are finished
    atomic_bool is_awaited; // the computing thread waits
    bool is_ending;
    bool is_failing;  // the failed job's `fail` is at work
    sm_status status; // of the first job that failed; later jobs are not done
    char message[512];
};

// --- comm_move.c -----------------------------------------------------------------------------------

// Does this process's share of a job that moves elements; its members have arrived.
sm_status sm_reducer_move(sm_reducer *r, const sm_comm_job *job);

// The first process of each group tells those of the others that its group has arrived, and waits for them.
bool sm_comm_leads_group(const sm_comm *comm);
sm_status sm_comm_meet_leaders(sm_comm *comm);

#endif
