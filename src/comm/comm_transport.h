// comm_transport.h: how processes reach one another: the functions of MPI that comm.c and comm_reduce.c need. comm.c
// opens comm_mpi.c, whose table of functions it then calls: the two know each other.
#ifndef STEPMARK_COMM_TRANSPORT_H
#define STEPMARK_COMM_TRANSPORT_H

#include "src/comm/comm.h"

// A message under way: the transport's own.
typedef struct {
    _Alignas(8) unsigned char bytes[16];
} sm_comm_request;

typedef struct {
    sm_status (*broadcast)(sm_comm *comm, int from, void *data, size_t size_bytes);
    sm_status (*gather)(sm_comm *comm, const void *mine, size_t size_bytes, void *all);

    // Memory that all processes of the group see: parts[i] is member i's. Where there is none, SM_ERR_UNSUPPORTED.
    sm_status (*share)(sm_comm *comm, size_t size_bytes, void **parts);

    // Messages of the thread that sums; they do not meet those above.
    sm_status (*send)(sm_comm *comm, int rank, const void *data, size_t size_bytes, sm_comm_request *request);
    sm_status (*receive)(sm_comm *comm, int rank, void *data, size_t size_bytes, sm_comm_request *request);
    sm_status (*wait)(sm_comm *comm, int rank, sm_comm_request *request);

    void (*abort)(sm_comm *comm, int exit_code);
    void (*close)(sm_comm *comm); // frees it, too
} sm_comm_transport;

typedef struct sm_reducer sm_reducer; // comm_reduce.c

// A transport's own data follow it.
struct sm_comm {
    const sm_comm_transport *transport; // NULL: alone
    sm_comm_options options;
    int rank, size;
    int local_rank, local_size;
    bool has_agreed; // on a failure

    // A group shares memory: the processes of a host, or one process. Groups count by their lowest rank.
    int n_groups;
    int *group_of; // a rank's
    int n_members; // of this process's group, in the order of ranks
    int *members;
    int64_t *pids; // of its members

    sm_reducer *reducer; // NULL until something is shared
};

// comm_reduce.c
void sm_reducer_free(sm_reducer *reducer); // NULL is fine

// Has that member of this process's group ended? *until_ns: when the wait for it must end; both fail with its rank. A
// waiting thread calls it repeatedly.
sm_status sm_comm_check_wait(const sm_comm *comm, int rank, int64_t until_ns);
int64_t sm_comm_wait_until_ns(const sm_comm *comm);

#ifdef SM_MPI
// comm_mpi.c: *comm is NULL where this process was not started by mpirun or srun.
sm_status sm_comm_open_mpi(const sm_comm_options *options, sm_comm **comm);
#endif

#endif
