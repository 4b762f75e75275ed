// comm.h: the processes that train together, and their messages. All processes call each function here, in the same
// order. A single process (not started by mpirun or srun, or a build without MPI) is rank 0 of 1, and every function
// returns its result at once. A NULL comm means the same.
//
// Only comm_mpi.c uses MPI; comm.c calls it through a transport, a struct of functions.
#pragma once

#include "status.h"

typedef struct sm_comm sm_comm;

// How what the processes exchange travels. auto: the fastest way that works; memory: processes of one host share
// memory, those of several send messages; messages: all send messages, on one host, too; p2p: cards of one host use
// their own links, with the driver alone (collectives.h); nccl: cards use NCCL. X(code, name)
#define SM_TRANSPORT_LIST(X)             \
    X(SM_TRANSPORT_AUTO, "auto")         \
    X(SM_TRANSPORT_MEMORY, "memory")     \
    X(SM_TRANSPORT_MESSAGES, "messages") \
    X(SM_TRANSPORT_P2P, "p2p")           \
    X(SM_TRANSPORT_NCCL, "nccl")

typedef enum { SM_TRANSPORT_LIST(SM_CODE) } sm_transport;

typedef struct {
    double timeout_s; // longest wait for another process before the run ends; 0: the default
    sm_transport transport;
    const char *nccl; // its library; NULL: in the usual places
} sm_comm_options;

const sm_comm_options *sm_comm_options_of(const sm_comm *comm);

#define SM_COMM_TIMEOUT_S 60.0

// Joins the processes that were started together; a single one is fine. Call it once, before threads.
sm_status sm_comm_open(const sm_comm_options *options, sm_comm **comm);
void sm_comm_close(sm_comm *comm); // NULL is fine

int sm_comm_rank(const sm_comm *comm);           // 0 .. size - 1
int sm_comm_size(const sm_comm *comm);           // processes in all
int sm_comm_local_rank(const sm_comm *comm);     // within this host
int sm_comm_local_size(const sm_comm *comm);     // number of processes on this host
bool sm_comm_shares_memory(const sm_comm *comm); // all processes share memory

// Before anything is shared: whether each host has room for size_bytes of shared memory in each of its processes. If
// one lacks it, processes send messages from now on, or, if memory was asked for, this is SM_ERR_OOM; `lack` then says
// what is missing, and is "" otherwise.
enum { SM_COMM_LACK_SIZE = 160 };
sm_status sm_comm_make_room(sm_comm *comm, size_t size_bytes, char lack[SM_COMM_LACK_SIZE]);

// Binds this process to its share of the host's cores and sets *n_cores to their number, if the host has several
// processes and the launcher did not bind them. 0: nothing was changed.
sm_status sm_comm_bind(sm_comm *comm, int *n_cores);

sm_status sm_comm_barrier(sm_comm *comm);

// Calls `wait` with a copy of *ctx in a thread of its own, since it may wait for ever for a process that has died or
// hangs. This names it after the time limit, and the thread is left behind.
sm_status sm_comm_wait_beside(sm_comm *comm, sm_status (*wait)(void *ctx), const void *ctx, size_t ctx_bytes);

// Sends one rank's bytes to all.
sm_status sm_comm_broadcast(sm_comm *comm, int from, void *data, size_t size_bytes);

// Gives every process the size_bytes of each, in the order of ranks: `all` has room for size times as many.
sm_status sm_comm_gather(sm_comm *comm, const void *mine, size_t size_bytes, void *all);

// values[i] = the sum over the processes, in the order of ranks: the same bits for all.
sm_status sm_comm_sum(sm_comm *comm, double *values, int n);

// values[i] = the largest of the processes' values[i].
sm_status sm_comm_max(sm_comm *comm, double *values, int n);

// Gives every process the worst status of any, with the message of the lowest rank that has it, and names that rank. A
// failure is worse than SM_ERR_INTERRUPTED, which is worse than SM_OK.
sm_status sm_comm_agree(sm_comm *comm, sm_status status);

// Checks that all processes have the same values. SM_ERR_USAGE names the first difference, the rank and both values,
// and ends with the advice. Processes may have different names: a missing name has no value. If `status` is a failure
// in any process, all get that failure.
typedef struct {
    const char *name;  // "--lr"
    const char *value; // "0.001"
} sm_comm_fact;

sm_status sm_comm_compare(sm_comm *comm, sm_status status, const sm_comm_fact *facts, int n_facts, const char *advice);

// True once all processes have agreed on a failure: each then ends in order, and one of them reports it.
bool sm_comm_has_agreed(const sm_comm *comm);

// True for the first caller among processes that share memory: it reports the failure that all see. Ask once.
bool sm_comm_is_first_to_speak(const sm_comm *comm);

// Ends all processes at once. Returns only in a single process.
void sm_comm_abort(sm_comm *comm, int exit_code);
