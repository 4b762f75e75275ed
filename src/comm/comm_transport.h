// comm_transport.h: what the files of this folder share: the functions of MPI that comm.c and comm_reduce.c need, in a
// table of comm_mpi.c's, and the state of the summing thread.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "src/comm/comm_reduce.h"

// A message in flight; its contents are private to the transport.
typedef struct {
    _Alignas(8) unsigned char bytes[16];
} sm_comm_request;

typedef struct {
    sm_status (*broadcast)(sm_comm *comm, int from, void *data, size_t size_bytes);
    sm_status (*gather)(sm_comm *comm, const void *mine, size_t size_bytes, void *all);

    // Makes each process a group of its own.
    sm_status (*part)(sm_comm *comm);

    // Allocates memory that all processes of the group see: parts[i] is member i's. SM_ERR_UNSUPPORTED: none.
    sm_status (*share)(sm_comm *comm, size_t size_bytes, void **parts);

    // Messages of the summing thread; they never match those above.
    sm_status (*begin)(sm_comm *comm, bool sends, int rank, void *data, size_t size_bytes, sm_comm_request *request);
    sm_status (*wait)(sm_comm *comm, int rank, sm_comm_request *request);

    void (*abort)(sm_comm *comm, int exit_code);
    void (*close)(sm_comm *comm); // also frees it
} sm_comm_transport;

typedef struct sm_reducer sm_reducer; // comm_reduce.c

// A transport's own data follow this struct.
struct sm_comm {
    const sm_comm_transport *transport; // NULL: a single process
    sm_comm_options options;
    int rank, size;
    int local_rank, local_size;
    bool has_agreed; // after a failure

    // A group is a set of processes that share memory: a host's, or a single one. Groups are in order of lowest ranks.
    int n_groups;
    int *group_of; // for each rank
    int n_members; // of this process's group, in the order of ranks
    int *members;
    int64_t *pids; // of the members

    sm_reducer *reducer; // NULL until memory is shared
};

// --- comm_reduce.c ---------------------------------------------------------------------------------

void sm_reducer_free(sm_reducer *reducer); // NULL is fine

// Fails with the rank if that member of this process's group has ended, or if until_ns has passed. Call it repeatedly.
sm_status sm_comm_check_wait(const sm_comm *comm, int rank, int64_t until_ns);
int64_t sm_comm_wait_until_ns(const sm_comm *comm);

// The state of the summing thread, which comm_reduce.c and comm_move.c share.
enum { MAX_SEGMENTS = 256, QUEUE_JOBS = 1024, LINE_BYTES = 64 };

typedef struct {
    size_t size_bytes;
    void **parts; // one for each member
    bool is_free; // to be shared again
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
    _Atomic int64_t busy_ns; // in jobs that are finished
    atomic_bool is_awaited;  // the computing thread waits
    bool is_ending;
    bool is_failing;    // the failed job's `fail` is at work
    sm_outcome outcome; // of the first job that failed; later jobs are not done
};

// --- comm_move.c -----------------------------------------------------------------------------------

// Does this process's share of a job that moves elements; its members have arrived.
sm_status sm_reducer_move(sm_reducer *r, const sm_comm_job *job);

// The first process of each group tells those of the others that its group has arrived, and waits for them.
bool sm_comm_leads_group(const sm_comm *comm);
sm_status sm_comm_meet_leaders(sm_comm *comm);

#ifdef SM_MPI
// comm_mpi.c: *comm is NULL if mpirun or srun did not start this process.
sm_status sm_comm_open_mpi(const sm_comm_options *options, sm_comm **comm);
#endif
