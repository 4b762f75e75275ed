// session.h: a plan prepared on a device, and the host's operations on it: feed a batch, run phases, read results.
// Generic over plans: knows no architecture.
#pragma once

#include "backend.h"
#include "src/optim/optimizer.h"

#include "src/comm/comm.h"

// Runs a plan's ops of communication: it stands between a session and the communicator.
//
// A backend that works in host memory keeps its gradients (and, with a sharded optimizer, its parameters) in memory
// that the host's processes share. For other devices they are copied there and back while the device computes.
typedef struct sm_exchange sm_exchange;

// For a plan with assigned memory that is not prepared yet: if the device works in host memory, provides the arenas'
// memory. *exchange is NULL for a plan of one process.
sm_status sm_exchange_open(sm_comm *comm, sm_device *device, sm_plan *plan, sm_exchange **exchange);
// After the plan is prepared: lets the device reach the host memory that it copies to and from.
sm_status sm_exchange_pin(sm_exchange *exchange, sm_executable *executable);
// The transport of exchanges, in words; "" for a NULL exchange. And the lack that rules out a faster one; "": none.
const char *sm_exchange_transport(const sm_exchange *exchange);
const char *sm_exchange_advice(const sm_exchange *exchange);
// The device of each process, where they differ in kind or share a card; "" where each has one of its own, all alike.
enum { SM_DEVICES_SIZE = 512 };
const char *sm_exchange_devices(const sm_exchange *exchange);
typedef struct {
    char host[64], id[32], uuid[40], name[SM_TEXT_SIZE]; // of a process's device
    bool is_host_processor;
} sm_place;
void sm_list_places(const sm_place *all, int n, char text[SM_DEVICES_SIZE]); // the same, of n processes
void sm_exchange_close(sm_exchange *exchange); // NULL is fine; call it after the executable is released
SM_OWNABLE(sm_exchange, sm_exchange_close)

// Runs op `op` of the plan. A start returns at once. Adds to *waited_ns the time that the caller waited for other
// processes and for copies, without the time that the device still computed.
sm_status sm_exchange_run(sm_exchange *exchange, sm_executable *executable, int op, int64_t *waited_ns);

// With a sharded optimizer a process has only its slices of the gradients' sums, and only its slices of weights that
// are gathered as copies. Completes these weights, before anyone but an update reads or writes them; with_gradients:
// the gradients, too, for checks. All must call it.
sm_status sm_exchange_complete(sm_exchange *exchange, sm_executable *executable, bool with_gradients);

// Sends process 0's bytes to all. NULL: a single process.
sm_status sm_exchange_broadcast(sm_exchange *exchange, void *data, size_t size_bytes);

// Whether all processes have these bytes. NULL: they do.
sm_status sm_exchange_is_same(sm_exchange *exchange, const void *data, size_t size_bytes, bool *is_same);

// Waits for what is in progress in this tensor's memory; SM_NO_TENSOR: for everything.
//
// Processes read at different ops, as each draws its own checks. Exchanges that a read does not need stay in progress,
// because all processes hand over the same exchanges together, at ops that all of them reach.
sm_status sm_exchange_finish(sm_exchange *exchange, int tensor);

typedef struct {
    sm_device *device; // not owned
    sm_plan *plan;     // owned
    sm_executable *executable;
    uint64_t n_micro_steps; // runs of the forward range so far: dropout's counter
    bool zeroed;            // no backward has run since zero-grad
    sm_exchange *exchange;  // with other processes; NULL: a single process
    int64_t comm_ns;        // total time that ops waited for other processes
    void *staging;          // a buffer for conversions, as large as the largest so far
    size_t staging_bytes;
} sm_session;

// Copy elements between host f32 and the tensor of this process, whatever its dtype.
sm_status sm_session_upload(sm_session *session, int tensor, int64_t offset_elems, int64_t n_elems,
                            const float *values);
sm_status sm_session_download(sm_session *session, int tensor, int64_t offset_elems, int64_t n_elems, float *values);
// The same for a sharded state, in slices. All processes must call a read, and get the values; a write takes its own.
sm_status sm_exchange_write(sm_session *session, int tensor, int64_t offset_elems, int64_t n_elems,
                            const float *values);
sm_status sm_exchange_read(sm_session *session, int tensor, int64_t offset_elems, int64_t n_elems, float *values);

// Copies the model's parameters, in parts; of those that `to` reads in place (sm_tensor.memory) the working copies.
sm_status sm_session_copy_params(sm_session *from, sm_session *to);

// Whether the device supports the plan's mode and every op. SM_ERR_UNSUPPORTED names the unsupported part.
sm_status sm_session_supports(const sm_device *device, const sm_plan *plan);

// Checks that the device supports the plan, assigns memory within its limits, prepares. Owns the plan, also on failure.
sm_status sm_session_open(sm_device *device, sm_plan *plan, sm_session **session);
// The same for one of several processes (plan->processes), all of which must call it. NULL: a single process.
sm_status sm_session_open_among(sm_comm *comm, sm_device *device, sm_plan *plan, sm_session **session);
void sm_session_close(sm_session *session); // NULL is fine
SM_OWNABLE(sm_session, sm_session_close)

// Bytes that a session of this plan, with memory assigned, takes on the device: tensors and the kernels' own memory.
size_t sm_session_memory(const sm_device *device, const sm_plan *plan);

// Copy the first n_elems of a floating tensor from or to host f32, whatever the tensor's dtype (bf16: rounded to
// nearest even; u8: whole numbers up to 255). Writing a parameter also writes its working copy.
sm_status sm_session_write(sm_session *session, int tensor, int64_t n_elems, const float *values);
sm_status sm_session_write_part(sm_session *session, int tensor, int64_t offset_elems, int64_t n_elems,
                                const float *values); // the same, starting at offset_elems
sm_status sm_session_read(sm_session *session, int tensor, int64_t n_elems, float *values);
sm_status sm_session_read_part(sm_session *session, int tensor, int64_t offset_elems, int64_t n_elems,
                               float *values); // the same, starting at offset_elems

// The address of a whole f32 tensor in host memory, valid until its release; NULL: it is elsewhere.
sm_status sm_session_find(sm_session *session, int tensor, const float **values);

// Writes initial parameters, drawn from `seed` (params.h). All processes write those of process 0, since another C
// library or processor may draw others.
sm_status sm_session_draw(sm_session *session, uint64_t seed);
// Begins to draw in a thread, while a device opens, what that then writes. The plan, now its, has all parameters.
void sm_session_draw_early(sm_plan *plan, uint64_t seed);
const float *sm_early_values(const sm_tensor *t, uint64_t seed); // of a parameter; NULL: they were not drawn
void sm_early_end(void);

// B*T token ids and targets (-1 = ignored). Ids are not checked here; the data layer does.
sm_status sm_session_set_batch(sm_session *session, const int32_t *tokens, const int32_t *targets);

// For each of the B*T positions, the start of its document within its row (op_table.h), in a plan of documents; without
// it every row is one document. Valid for all following batches. Not checked here either.
sm_status sm_session_set_documents(sm_session *session, const int32_t *starts);

// Settings for step `step` (1, 2, ...) with `n_accum` micro-batches. The optimizer does not count skipped steps, as in
// PyTorch, whose GradScaler does not call it for them.
sm_status sm_session_set_hyper(sm_session *session, const sm_step_settings *settings, int64_t step, int64_t n_accum);

// The weight of the next micro-batches' mean loss in their step: by default 1 / micro-batches, as sm_session_set_hyper
// sets it for all. For micro-batches with targets of -1: real targets / those of the step.
sm_status sm_session_set_share(sm_session *session, double share);

// Waits, then reads the number of steps skipped so far because a gradient was not finite; and the factor on the loss. 0
// and 1 in plans without a scaler.
sm_status sm_session_skipped(sm_session *session, int64_t *n_skipped);
sm_status sm_session_loss_scale(sm_session *session, double *scale);

// A set of phases, as bits 1 << SM_PHASE_*.
enum {
    SM_RUN_ZERO_GRAD = 1 << SM_PHASE_ZERO_GRAD,
    SM_RUN_FORWARD = 1 << SM_PHASE_FORWARD,
    SM_RUN_BACKWARD = 1 << SM_PHASE_BACKWARD,
    SM_RUN_OPTIMIZER = 1 << SM_PHASE_OPTIMIZER,
    // More micro-batches of the step follow: do not sum gradients over the processes yet.
    SM_RUN_MORE = 1 << SM_PHASE_COUNT,
    // Leave out the backward's ops in the forward's range (the chunked head's): only losses are wanted.
    SM_RUN_NO_GRADIENTS = 1 << (SM_PHASE_COUNT + 1),
    // Leave out updates: weights and the optimizer's state do not change. The gradients' norm is computed.
    SM_RUN_NO_UPDATES = 1 << (SM_PHASE_COUNT + 2),
    SM_RUN_STEP = SM_RUN_ZERO_GRAD | SM_RUN_FORWARD | SM_RUN_BACKWARD | SM_RUN_OPTIMIZER,
};

// Executes the ranges in `phases` in order; neighbours run as one range. op_ns as in
// sm_backend.execute (NULL: no timing). Allocates nothing.
sm_status sm_session_run(sm_session *session, unsigned phases, int64_t *op_ns);

// An observer of ops while phases run. The phases then run in pieces, and each op that it wants runs by itself.
typedef struct {
    void *ctx;
    bool (*wants)(void *ctx, int op);                            // plan->ops[op]
    sm_status (*before)(void *ctx, sm_session *session, int op); // after all ops before it, and
    sm_status (*after)(void *ctx, sm_session *session, int op);  // after the op; nothing else runs meanwhile
} sm_watcher;

// sm_session_run in pieces, by the same executable: the results are bit-identical.
sm_status sm_session_run_watched(sm_session *session, unsigned phases, int64_t *op_ns, const sm_watcher *watcher);

sm_status sm_session_synchronize(sm_session *session);

// Wait, then read the last micro-batch's mean loss, or the last global gradient norm.
sm_status sm_session_loss(sm_session *session, double *loss);
sm_status sm_session_grad_norm(sm_session *session, double *norm);
