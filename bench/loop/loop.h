// loop.h: measures a training loop with the harness: the trainer's own step and loader replace the harness's step with
// its prepared batches. First step, checks, warm-up, headline and attribution are those of harness.h:
//
//   headline     nothing is timed within a step but its waiting for data, which a training always times
//   attribution  each step's phases (phases.h); they add up to its wall clock
//
// The first SM_CHECKED_STEPS steps are the harness's, with the batches of the checking workload.
#pragma once

#include "bench/measure/harness.h"
#include "bench/profile/profile.h"
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

sm_loop *sm_loop_open(const sm_loop_settings *settings);
void sm_loop_close(sm_loop *loop); // NULL is fine

// The workload for the harness; `loop` must outlive it.
sm_workload sm_loop_workload(sm_loop *loop);

// For a training that runs its steps itself: returns the recorder of a step to be instrumented (NULL: there are
// enough); then give it each finished step, with that or NULL. sm_loop_conclude fills all fields of a row from these
// steps, including `loop`.
sm_step_phases *sm_loop_time_apart(sm_loop *loop);
void sm_loop_keep(sm_loop *loop, const sm_train_step *step, const sm_step_phases *phases);
sm_status sm_loop_conclude(const sm_loop *loop, sm_row *row);

// Fills the row's `loop` and its verdict after the harness filled the rest; nothing without instrumented steps.
sm_status sm_loop_report(const sm_loop *loop, sm_row *row);

// Its attribution steps.
const sm_loop_step *sm_loop_steps(const sm_loop *loop, int *n);

// These steps as a trace (profile.h): the main thread's phases, the device's ops, each thread of the loader, and
// the number of ready loads. `category` of the ops: "cpu_op" or "kernel". The caller owns it.
json_t *sm_loop_trace(const sm_loop *loop, const sm_plan *plan, const char *category, const char *device);

extern const sm_table sm_loop_table;

// The row of `rows` that is a loop of the same work; of several, the last. NULL: there is none.
const json_t *sm_loop_baseline(const json_t *rows, const json_t *row);

// The phases of a training loop's row: a record for each that took time in it or in the baseline (NULL: none), then the
// whole instrumented step, then the undisturbed step. A change is that of stats.h, with its 95% interval, where both
// have six steps. The caller owns them.
json_t *sm_loop_records(const json_t *row, const json_t *baseline);

// Finds what bounds a training loop: the cause whose removal alone would speed it up most.
//
//   input          making a step's batches: waiting for the loader's threads, or reading, tokenising and collating
//                  inline; and copying them to the device
//   communication  waiting for other processes
//   launches       ops that take less than a call costs, and what a headline step has beyond its ops and phases; removed,
//                  such ops take the shortest possible time
//   compute        ops that arithmetic bounds: removed, they take the time of their memory traffic
//   memory         ops that memory bounds: removed, they take the time of their arithmetic
//
// No step is shorter than the loader threads' time for its data, unless the input is removed: so a loop with a slower
// loader is bound by input, even if its device is busy all the time.

// X(code, name)
#define SM_LOOP_BOUND_LIST(X)       \
    X(SM_LOOP_COMPUTE, "compute")   \
    X(SM_LOOP_MEMORY, "memory")     \
    X(SM_LOOP_LAUNCHES, "launches") \
    X(SM_LOOP_INPUT, "input")       \
    X(SM_LOOP_COMMUNICATION, "communication")

typedef enum { SM_LOOP_BOUND_LIST(SM_CODE) SM_LOOP_BOUND_COUNT } sm_loop_bound;

// A mean step, in nanoseconds.
typedef struct {
    double step_ns;                        // headline
    double loader_ns;                      // lower bound of a step: the loader threads' time for its data; 0: inline
    double taken_ns[SM_LOOP_BOUND_COUNT];  // of the step
    double gained_ns[SM_LOOP_BOUND_COUNT]; // if it were removed, ignoring the loader
    bool knows_ops;                        // the ceilings are known, and so the bounds of the ops
} sm_loop_division;

// The step without that cause.
double sm_loop_without_ns(const sm_loop_division *division, sm_loop_bound bound);

// SM_LOOP_BOUND_COUNT if unknown.
sm_loop_bound sm_loop_judge(const sm_loop_division *division);

// Fills bound, bound_share, ceiling_ts, ceilings and verdict of a row whose other figures are set. `work_ns` is the
// time of a headline step without its data: a median, so that preempted steps have no effect.
sm_status sm_loop_verdict(const sm_plan *plan, double work_ns, sm_row *row);

// Removes the verdict if the row, with all its figures set, supports none (compare.h); `verdict` says why, then.
void sm_loop_withhold_verdict(sm_row *row);
