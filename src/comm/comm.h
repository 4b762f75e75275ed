// comm.h: the processes that train together, and their messages. Everything here is called by all of them, in the same
// order. A single process (not started by mpirun or srun, or a build without MPI) is rank 0 of 1, and every function
// then returns at once with the result for one. NULL stands for that, too.
//
// Below it is MPI, only in comm_mpi.c; comm.c knows a transport, a struct of functions.
#ifndef STEPMARK_COMM_H
#define STEPMARK_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

typedef struct sm_comm sm_comm;

typedef struct {
    double timeout_s; // a wait for another process that takes longer ends the run; 0: the default
    bool is_messages; // processes of one host do not share memory either: they send messages
} sm_comm_options;

#define SM_COMM_TIMEOUT_S 60.0

// Joins the processes that were started together; a single one is fine. Call it once, before threads.
sm_status sm_comm_open(const sm_comm_options *options, sm_comm **comm);
void sm_comm_close(sm_comm *comm); // NULL is fine

int sm_comm_rank(const sm_comm *comm);           // 0 .. size - 1
int sm_comm_size(const sm_comm *comm);           // processes in all
int sm_comm_local_rank(const sm_comm *comm);     // among those of this host
int sm_comm_local_size(const sm_comm *comm);     // how many this host has
bool sm_comm_shares_memory(const sm_comm *comm); // all with all

// Binds this process to its share of the host's cores, as many as *n_cores, where there are several on the host and the
// launcher has left that open: then each may use what the others may. 0: nothing was changed.
sm_status sm_comm_bind(sm_comm *comm, int *n_cores);

sm_status sm_comm_barrier(sm_comm *comm);

// One rank's bytes, for all.
sm_status sm_comm_broadcast(sm_comm *comm, int from, void *data, size_t size_bytes);

// Each process's size_bytes, in the order of ranks, for all: `all` has room for size times as many.
sm_status sm_comm_gather(sm_comm *comm, const void *mine, size_t size_bytes, void *all);

// values[i] = the sum over the processes, in the order of ranks: the same bits for all.
sm_status sm_comm_sum(sm_comm *comm, double *values, int n);

// The outcome of all processes: the worst status of any, for all, with the message of the lowest rank that has it,
// which it names. A failure is worse than SM_ERR_INTERRUPTED, which is worse than SM_OK.
sm_status sm_comm_agree(sm_comm *comm, sm_status status);

// Have all processes the same values? SM_ERR_USAGE names the first thing that differs, the rank, and both values, and
// ends with the advice. `names` and their number may differ: a name that one process lacks has there no value. Where
// `status` is a failure, of any process, all get that failure: the process could not send its values.
typedef struct {
    const char *name;  // "--lr"
    const char *value; // "0.001"
} sm_comm_fact;

sm_status sm_comm_compare(sm_comm *comm, sm_status status, const sm_comm_fact *facts, int n_facts, const char *advice);

// Have all processes agreed on a failure? Then each ends in order, and one of them says why.
bool sm_comm_has_agreed(const sm_comm *comm);

// Of processes that share memory and see one failure, the first that asks may say it. Asked once.
bool sm_comm_is_first_to_speak(const sm_comm *comm);

// Ends all processes at once. Returns only if there is no other process.
void sm_comm_abort(sm_comm *comm, int exit_code);

#endif
