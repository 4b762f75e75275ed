// session.h: a plan prepared on a device, and the host's operations on it: feed a batch, run phases, read results.
// Generic over plans: knows no architecture.
#ifndef STEPMARK_SESSION_H
#define STEPMARK_SESSION_H

#include "backend.h"
#include "src/optim/optimizer.h"
#include "src/session/exchange.h"

typedef struct {
    sm_device *device; // not owned
    sm_plan *plan;     // owned
    sm_executable *executable;
    uint64_t n_micro_steps; // runs of the forward range so far: the dropout counter
    bool zeroed;            // gradients are as zero-grad left them: no backward has run since
    sm_exchange *exchange;  // with other processes; NULL: there are none
    int64_t comm_ns;        // waited for other processes so far, in ops
    void *staging;          // one buffer for conversions, as large as the largest tensor asked for
    size_t staging_bytes;
} sm_session;

// Does the device support the plan's mode and every op? SM_ERR_UNSUPPORTED names the part that it does not support.
sm_status sm_session_supports(const sm_device *device, const sm_plan *plan);

// Checks that the device supports the plan, assigns memory within the device's limits,
// prepares. Takes the plan over, also when it fails.
sm_status sm_session_open(sm_device *device, sm_plan *plan, sm_session **session);
// The same for one of several processes (plan->processes), all of which open theirs. NULL: there is one.
sm_status sm_session_open_among(sm_comm *comm, sm_device *device, sm_plan *plan, sm_session **session);
void sm_session_close(sm_session *session); // NULL is fine

// Bytes that a session of this plan, its memory assigned, takes on the device: tensors and the kernels' own.
size_t sm_session_memory(const sm_device *device, const sm_plan *plan);

// Copies the first n_elems of a floating tensor from or to host f32, whatever the tensor's dtype (bf16: rounded
// to nearest even; u8: whole numbers up to 255). Writing a parameter writes its working copy as well.
sm_status sm_session_write(sm_session *session, int tensor, int64_t n_elems, const float *values);
sm_status sm_session_write_part(sm_session *session, int tensor, int64_t offset_elems, int64_t n_elems,
                                const float *values); // the same from offset_elems on
sm_status sm_session_read(sm_session *session, int tensor, int64_t n_elems, float *values);
sm_status sm_session_read_part(sm_session *session, int tensor, int64_t offset_elems, int64_t n_elems,
                               float *values); // the same from offset_elems on

// Where the whole of an f32 tensor lies in the host's memory, until it is released; NULL: it does not.
sm_status sm_session_find(sm_session *session, int tensor, const float **values);

// Writes fresh parameters, drawn from `seed` (params.h): of several processes, all write those of process 0, as another
// C library or processor may draw others.
sm_status sm_session_draw(sm_session *session, uint64_t seed);

// B*T token ids and targets (-1 = ignored). Ids are not checked here; the data layer does.
sm_status sm_session_set_batch(sm_session *session, const int32_t *tokens, const int32_t *targets);

// Where in its row each of the B*T positions' documents begins (op_table.h), in a plan of documents; until then every
// row is one. Stays for the batches that follow. Not checked here either.
sm_status sm_session_set_documents(sm_session *session, const int32_t *starts);

// Settings for step `step` (1, 2, ...) made of `n_accum` micro-batches. The optimizer counts steps less those that were
// skipped, as in PyTorch, whose GradScaler does not call it for them.
sm_status sm_session_set_hyper(sm_session *session, const sm_step_settings *settings, int64_t step, int64_t n_accum);

// How much the next micro-batches' mean loss counts in their step: by default 1 / micro-batches, as
// sm_session_set_hyper sets it for all. For micro-batches with targets of -1: real targets / those of the step.
sm_status sm_session_set_share(sm_session *session, double share);

// Waits, then reads how many steps were skipped since the state was new, because a gradient was not finite, and the
// factor on the loss: 0 and 1 in plans without a scaler.
sm_status sm_session_skipped(sm_session *session, int64_t *n_skipped);
sm_status sm_session_loss_scale(sm_session *session, double *scale);

// A set of phases, as bits 1 << SM_PHASE_*.
enum {
    SM_RUN_ZERO_GRAD = 1 << SM_PHASE_ZERO_GRAD,
    SM_RUN_FORWARD = 1 << SM_PHASE_FORWARD,
    SM_RUN_BACKWARD = 1 << SM_PHASE_BACKWARD,
    SM_RUN_OPTIMIZER = 1 << SM_PHASE_OPTIMIZER,
    // More micro-batches of the step follow: gradients are not summed over the processes yet.
    SM_RUN_MORE = 1 << SM_PHASE_COUNT,
    // Losses alone are wanted: the ops of the backward in the forward's range (the chunked head's) are left out.
    SM_RUN_NO_GRADIENTS = 1 << (SM_PHASE_COUNT + 1),
    // Updates are left out: weights and the optimizer's state stay. The gradients' norm is computed.
    SM_RUN_NO_UPDATES = 1 << (SM_PHASE_COUNT + 2),
    SM_RUN_STEP = SM_RUN_ZERO_GRAD | SM_RUN_FORWARD | SM_RUN_BACKWARD | SM_RUN_OPTIMIZER,
};

// Executes the ranges in `phases` in order; neighbours run as one range. op_ns as in
// sm_backend.execute (NULL: no timing). Allocates nothing.
sm_status sm_session_run(sm_session *session, unsigned phases, int64_t *op_ns);

// An observer of ops while phases run: they then run in pieces, each op that it asks for by itself.
typedef struct {
    void *ctx;
    bool (*wants)(void *ctx, int op);                            // plan->ops[op]
    sm_status (*before)(void *ctx, sm_session *session, int op); // with all before it done, and
    sm_status (*after)(void *ctx, sm_session *session, int op);  // with the op done, too; nothing else runs meanwhile
} sm_watcher;

// sm_session_run in pieces, by the same executable: the results are the same, bit by bit.
sm_status sm_session_run_watched(sm_session *session, unsigned phases, int64_t *op_ns, const sm_watcher *watcher);

sm_status sm_session_synchronize(sm_session *session);

// Waits, then reads the last micro-batch's mean loss, or the last global gradient norm.
sm_status sm_session_loss(sm_session *session, double *loss);
sm_status sm_session_grad_norm(sm_session *session, double *norm);

#endif
