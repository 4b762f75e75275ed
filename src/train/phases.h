// phases.h: where the time of a training step goes: phases of the main thread that do not overlap, so they add up to
// its wall-clock time.
//
// A stretch of time gets its phase at its end:
//
//     sm_phases_begin(p);
//     ...  sm_phases_lap(p, SM_STEP_WAIT);      // from the beginning until here
//     ...  sm_phases_lap(p, SM_STEP_TRANSFER);  // from there until here
//     sm_phases_end(p);
//
// If another clock measured several phases within a stretch, sm_phases_add takes their times out of it before its lap.
// So ops that the device's clock times have their own phases, and the rest of the stretch is the cost of launching
// them.
//
// Work of other threads does not appear: the main thread waits for it, or it costs nothing.
#pragma once

#include "plan.h"

// X(code, member, name, meaning)
#define SM_STEP_PHASE_LIST(X)                                                                                       \
    X(SM_STEP_READ, read, "read", "reading data, if the loader is inline")                                          \
    X(SM_STEP_TOKENISE, tokenise, "tokenise", "turning text into token ids, if the loader is inline")               \
    X(SM_STEP_COLLATE, collate, "collate", "making a batch of sequences, if the loader is inline")                  \
    X(SM_STEP_WAIT, wait, "wait", "waiting for the loader's threads")                                               \
    X(SM_STEP_TRANSFER, transfer, "transfer", "copying batch and settings to the device, and loss and norm back")   \
    X(SM_STEP_FORWARD, forward, "forward", "ops of the forward")                                                    \
    X(SM_STEP_BACKWARD, backward, "backward", "ops of the backward")                                                \
    X(SM_STEP_ALL_REDUCE, all_reduce, "all-reduce", "waiting for other processes")                                  \
    X(SM_STEP_UNSCALE, unscale, "unscale", "ops of the optimizer before its update: the gradients' norm, clipping") \
    X(SM_STEP_UPDATE, update, "update", "ops of the optimizer's update")                                            \
    X(SM_STEP_LOSS_SCALER, loss_scaler, "loss scaler",                                                              \
      "ops of the loss scale, or of factors' scales, and reading its result")                                       \
    X(SM_STEP_ZERO_GRAD, zero_grad, "zero-grad", "ops that zero gradients")                                         \
    X(SM_STEP_LAUNCH, launch, "launch", "launching ops, less the time of the ops: launches, and gaps between ops")  \
    X(SM_STEP_LOG, log, "log", "reporting the step, on screen and in the log")                                      \
    X(SM_STEP_UNACCOUNTED, unaccounted, "unaccounted", "the wall clock less all other phases")

typedef enum { SM_STEP_PHASE_LIST(SM_CODE) SM_STEP_PHASE_COUNT } sm_step_phase;

const char *sm_step_phase_name(sm_step_phase phase);
sm_step_phase sm_step_phase_of(const sm_plan *plan, const sm_op *op); // the phase of an op's time

// A stretch of the main thread's time, by the clock of clock.h.
typedef struct {
    sm_step_phase phase;
    int64_t begin_ns;
    int64_t end_ns;
} sm_step_span;

enum { SM_STEP_MOST_SPANS = 512 }; // for each step; later ones are dropped

// The phases of one step. All functions accept NULL, and then read no clock.
typedef struct {
    int64_t ns[SM_STEP_PHASE_COUNT]; // after the end they add up to wall_ns
    int64_t wall_ns;
    int64_t *op_ns;     // plan->n_ops entries, the caller's: times of this step's ops, as in sm_backend.execute
    int64_t *lapped_ns; // likewise: the part of these that already belongs to a phase

    int64_t begin_ns;
    int64_t mark_ns;  // end of the last lap
    int64_t taken_ns; // taken out of the stretch since then
    int n_spans;
    sm_step_span spans[SM_STEP_MOST_SPANS];
} sm_step_phases;

void sm_phases_begin(sm_step_phases *p, const sm_plan *plan); // starts a step: zeroes everything, also the ops' times
void sm_phases_lap(sm_step_phases *p, sm_step_phase phase);
void sm_phases_add(sm_step_phases *p, sm_step_phase phase, int64_t ns);
void sm_phases_end(sm_step_phases *p); // time outside of laps is unaccounted

// The argument op_ns of sm_session_run; NULL if `p` is NULL.
int64_t *sm_phases_op_times(sm_step_phases *p);

// A lap after ops have completed: each op's time goes to its own phase, the rest of the stretch to the launch.
void sm_phases_lap_ops(sm_step_phases *p, const sm_plan *plan);
