// exchange.h: runs a plan's ops of communication: it stands between a session and the communicator.
//
// A backend that works in host memory keeps its gradients (and, with a sharded optimizer, its parameters) in memory
// that the host's processes share. For other devices they are copied there and back while the device computes.
#ifndef STEPMARK_EXCHANGE_H
#define STEPMARK_EXCHANGE_H

#include "backend.h"
#include "src/comm/comm.h"

typedef struct sm_exchange sm_exchange;

// For a plan with assigned memory that is not prepared yet: if the device works in host memory, provides the arenas'
// memory. *exchange is NULL for a plan of one process.
sm_status sm_exchange_open(sm_comm *comm, sm_device *device, sm_plan *plan, sm_exchange **exchange);
// After the plan is prepared: lets the device reach the host memory that it copies to and from.
sm_status sm_exchange_pin(sm_exchange *exchange, sm_executable *executable);
// How what is exchanged travels, in words; "" for a NULL exchange. And what is missing for a faster way; "": nothing.
const char *sm_exchange_transport(const sm_exchange *exchange);
const char *sm_exchange_advice(const sm_exchange *exchange);
void sm_exchange_close(sm_exchange *exchange); // NULL is fine; call it after the executable is released
SM_OWNABLE(sm_exchange, sm_exchange_close)

// Runs op `op` of the plan. A start returns at once. Adds to *waited_ns the time that the caller waited for other
// processes and for copies, without the time that the device still computed.
sm_status sm_exchange_run(sm_exchange *exchange, sm_executable *executable, int op, int64_t *waited_ns);

// With a sharded optimizer each process has the sums of its slices alone: completes those of the others, for checks.
sm_status sm_exchange_complete_gradients(sm_exchange *exchange, sm_executable *executable);

// Sends process 0's bytes to all. NULL: a single process.
sm_status sm_exchange_broadcast(sm_exchange *exchange, void *data, size_t size_bytes);

// Whether all processes have these bytes. NULL: they do.
sm_status sm_exchange_is_same(sm_exchange *exchange, const void *data, size_t size_bytes, bool *is_same);

// Waits for what is in progress in this tensor's memory; SM_NO_TENSOR: for everything.
//
// Processes read at different ops, as each draws its own checks: what a read does not need stays in progress, because all
// hand over the same exchanges together, at ops that all come to.
sm_status sm_exchange_finish(sm_exchange *exchange, int tensor);

// Copies elements of a sharded state between host memory and the slices that hold them. All processes must call a read,
// and all get the values; in a write each takes its own.
sm_status sm_exchange_read(sm_exchange *exchange, sm_executable *executable, int tensor, int64_t offset_elems,
                           int64_t n_elems, float *values);
sm_status sm_exchange_write(sm_exchange *exchange, sm_executable *executable, int tensor, int64_t offset_elems,
                            int64_t n_elems, const float *values);

#endif
