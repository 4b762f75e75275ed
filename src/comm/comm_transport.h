// comm_transport.h: the functions of MPI that comm.c and comm_reduce.c need. comm.c opens comm_mpi.c and calls its
// table of functions.
#ifndef STEPMARK_COMM_TRANSPORT_H
#define STEPMARK_COMM_TRANSPORT_H

#include "src/comm/comm.h"

// A message in flight; its contents are private to the transport.
typedef struct {
    _Alignas(8) unsigned char bytes[16];
} sm_comm_request;

typedef struct {
    sm_status (*broadcast)(sm_comm *comm, int from, void *data, size_t size_bytes);
    sm_status (*gather)(sm_comm *comm, const void *mine, size_t size_bytes, void *all);

    // Makes each process a group of its own.
    sm_status (*part)(sm_comm *comm);

    // Allocates memory that all processes of the group see: parts[i] is member i's. SM_ERR_UNSUPPORTED if there is
    // none.
    sm_status (*share)(sm_comm *comm, size_t size_bytes, void **parts);

    // Messages of the summing thread; they never match those above.
    sm_status (*send)(sm_comm *comm, int rank, const void *data, size_t size_bytes, sm_comm_request *request);
    sm_status (*receive)(sm_comm *comm, int rank, void *data, size_t size_bytes, sm_comm_request *request);
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

    // A group is a set of processes that share memory: those of a host, or a single one. Groups are ordered by their
    // lowest rank.
    int n_groups;
    int *group_of; // for each rank
    int n_members; // of this process's group, in the order of ranks
    int *members;
    int64_t *pids; // of the members

    sm_reducer *reducer; // NULL until memory is shared
};

// comm_reduce.c
void sm_reducer_free(sm_reducer *reducer); // NULL is fine

// Fails with the rank if that member of this process's group has ended, or if the time until_ns has passed. A waiting
// thread calls it repeatedly.
sm_status sm_comm_check_wait(const sm_comm *comm, int rank, int64_t until_ns);
int64_t sm_comm_wait_until_ns(const sm_comm *comm);

#ifdef SM_MPI
// comm_mpi.c: *comm is NULL if mpirun or srun did not start this process.
sm_status sm_comm_open_mpi(const sm_comm_options *options, sm_comm **comm);
#endif

#endif
