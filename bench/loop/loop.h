// loop.h: a training loop under the harness: the trainer's own step, with its loader, in place of the harness's, which
// feeds batches that lie ready. First step, checks, warm-up, headline and attribution are those of harness.h:
//
//   headline     nothing is timed within a step but its waiting for data, which a training always times
//   attribution  each step's phases (phases.h); they add up to its wall clock
//
// The first SM_CHECKED_STEPS steps are the harness's, with the batches of the workload that checks them.
#ifndef STEPMARK_BENCH_LOOP_LOOP_H
#define STEPMARK_BENCH_LOOP_LOOP_H

#include "bench/measure/harness.h"
#include "src/train/train_step.h"

typedef struct {
    const sm_workload *workload; // whose checks the first steps have; NULL where a training runs the steps
    sm_train_stepper stepper; // with a loader that begins with step SM_CHECKED_STEPS + 1; likewise, but for the session
    const char *loader;       // as a row says it
    int n_loader_threads;     // 0: inline
    int n_attribution;        // of the protocol; more are not kept

    // Tells a step, as a training does, within its time; NULL: nobody is told.
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

// What the harness measures; `loop` outlives that.
sm_workload sm_loop_workload(sm_loop *loop);

// For a training that runs its steps itself: the recorder of one that is to be timed apart (NULL: there are enough),
// and each step when it is over, with that or NULL. sm_loop_conclude fills all that such steps say of a row, `loop`
// included.
sm_step_phases *sm_loop_time_apart(sm_loop *loop);
sm_status sm_loop_keep(sm_loop *loop, const sm_train_step *step, const sm_step_phases *phases);
sm_status sm_loop_conclude(const sm_loop *loop, sm_row *row);

// Fills the row's `loop`, verdict included, after the harness has filled the rest. Nothing where no step was timed
// apart.
sm_status sm_loop_report(const sm_loop *loop, sm_row *row);

// Its attribution steps.
const sm_loop_step *sm_loop_steps(const sm_loop *loop, int *n);

// They as a trace (trace_events.h): the main line's phases, the device's ops, each thread of the loader, and how many
// loads were ready. `category` of the ops: "cpu_op" or "kernel". The caller owns *trace.
sm_status sm_loop_trace(const sm_loop *loop, const sm_plan *plan, const char *category, const char *device,
                        json_t **trace);

#endif
