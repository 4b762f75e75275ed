// loop.h: measures a training loop with the harness: the trainer's own step and loader replace the harness's step with
// its prepared batches. First step, checks, warm-up, headline and attribution are those of harness.h:
//
//   headline     nothing is timed within a step but its waiting for data, which a training always times
//   attribution  each step's phases (phases.h); they add up to its wall clock
//
// The first SM_CHECKED_STEPS steps are the harness's, with the batches of the checking workload.
#ifndef STEPMARK_BENCH_LOOP_LOOP_H
#define STEPMARK_BENCH_LOOP_LOOP_H

#include "bench/measure/harness.h"
#include "src/train/train_step.h"

typedef struct {
    const sm_workload *workload; // checks the first steps; NULL if a training runs the steps
    sm_train_stepper stepper; // with a loader that begins at step SM_CHECKED_STEPS + 1; if a training runs the steps,
                              // only the session counts
    const char *loader;       // as in a row
    int n_loader_threads;     // 0: inline
    int n_attribution;        // as in the protocol; further ones are dropped

    // Logs a step, as in a training, within its time; NULL: no log.
    sm_status (*log)(void *ctx, const sm_train_step *step);
    void *log_ctx;
} sm_loop_settings;

// An attribution step, for the trace.
typedef struct {
    sm_step_phases phases; // op_ns: plan->n_ops
    sm_train_step step;
} sm_loop_step;

typedef struct sm_loop sm_loop;

sm_status sm_loop_open(const sm_loop_settings *settings, sm_loop **loop);
void sm_loop_close(sm_loop *loop); // NULL is fine

// The workload for the harness; `loop` must outlive it.
sm_workload sm_loop_workload(sm_loop *loop);

// For a training that runs its steps itself: returns the recorder of a step to be instrumented (NULL: there are
// enough); then give it each finished step, with that or NULL. sm_loop_conclude fills all fields of a row from these
// steps, including `loop`.
sm_step_phases *sm_loop_time_apart(sm_loop *loop);
sm_status sm_loop_keep(sm_loop *loop, const sm_train_step *step, const sm_step_phases *phases);
sm_status sm_loop_conclude(const sm_loop *loop, sm_row *row);

// Fills the row's `loop`, including the verdict, after the harness has filled the rest. Does nothing without
// instrumented steps.
sm_status sm_loop_report(const sm_loop *loop, sm_row *row);

// Its attribution steps.
const sm_loop_step *sm_loop_steps(const sm_loop *loop, int *n);

// These steps as a trace (trace_events.h): the main thread's phases, the device's ops, each thread of the loader, and
// the number of ready loads. `category` of the ops: "cpu_op" or "kernel". The caller owns *trace.
void sm_loop_trace(const sm_loop *loop, const sm_plan *plan, const char *category, const char *device, json_t **trace);

#endif
