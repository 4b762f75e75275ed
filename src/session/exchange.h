// exchange.h: the ops of a plan that are done with other processes, between a session and the communicator.
//
// A backend that works in host memory has its gradients (and, with a sharded optimizer, its parameters) in memory that
// the processes of the host share. For another device they are copied there and back while it computes.
#ifndef STEPMARK_EXCHANGE_H
#define STEPMARK_EXCHANGE_H

#include "backend.h"
#include "src/comm/comm.h"

typedef struct sm_exchange sm_exchange;

// For a plan whose memory is assigned and that is not prepared yet: gives its arenas memory where the device works in
// host memory. *exchange is NULL where the plan is one process's.
sm_status sm_exchange_open(sm_comm *comm, const sm_device *device, sm_plan *plan, sm_exchange **exchange);
// Once the plan is prepared: lets the device reach the host memory that it copies to and from.
sm_status sm_exchange_pin(sm_exchange *exchange, sm_executable *executable);
void sm_exchange_close(sm_exchange *exchange); // NULL is fine; after the executable was released

// Does op `op` of the plan. A start returns at once. Adds to *waited_ns the time that the caller waited for other
// processes and for copies, without the time that the device still computed.
sm_status sm_exchange_run(sm_exchange *exchange, sm_executable *executable, int op, int64_t *waited_ns);

// Process 0's bytes, for all. NULL: there is one process.
sm_status sm_exchange_broadcast(sm_exchange *exchange, void *data, size_t size_bytes);

// Waits for whatever is under way.
sm_status sm_exchange_finish(sm_exchange *exchange);

// Copies elements of a sharded state between host memory and the slices that hold them. Reading is called by all
// processes alike, and all get the values; in writing each takes its own.
sm_status sm_exchange_read(sm_exchange *exchange, sm_executable *executable, int tensor, int64_t offset_elems,
                           int64_t n_elems, float *values);
sm_status sm_exchange_write(sm_exchange *exchange, sm_executable *executable, int tensor, int64_t offset_elems,
                            int64_t n_elems, const float *values);

#endif
