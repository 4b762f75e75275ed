// comm_transport.h: how processes reach one another: what comm.c asks of MPI.
#ifndef STEPMARK_COMM_TRANSPORT_H
#define STEPMARK_COMM_TRANSPORT_H

#include "comm.h"

typedef struct {
    sm_status (*broadcast)(sm_comm *comm, void *data, size_t size_bytes);
    sm_status (*gather)(sm_comm *comm, const void *mine, size_t size_bytes, void *all);
    void (*abort)(sm_comm *comm, int exit_code);
    void (*close)(sm_comm *comm); // frees it, too
} sm_comm_transport;

// A transport's own data follow it.
struct sm_comm {
    const sm_comm_transport *transport; // NULL: alone
    sm_comm_options options;
    int rank, size;
    int local_rank, local_size;
    int n_hosts;
};

#ifdef SM_MPI
// comm_mpi.c: *comm is NULL where this process was not started by mpirun or srun.
sm_status sm_comm_open_mpi(const sm_comm_options *options, sm_comm **comm);
#endif

#endif
