// verdict.h: finds what bounds a training loop: the cause whose removal alone would speed it up most.
//
//   input          making a step's batches: waiting for the loader's threads, or reading, tokenising and collating
//                  inline; and copying them to the device
//   communication  waiting for other processes
//   launches       ops that take less than a call costs, and what a headline step has beyond its ops and phases;
//   removed,
//                  such ops take the shortest possible time
//   compute        ops that arithmetic bounds: removed, they take the time of their memory traffic
//   memory         ops that memory bounds: removed, they take the time of their arithmetic
//
// No step is shorter than the loader threads' time for its data, unless the input is removed: so a loop with a slower
// loader is bound by input, even if its device is busy all the time.
#ifndef STEPMARK_BENCH_LOOP_VERDICT_H
#define STEPMARK_BENCH_LOOP_VERDICT_H

#include "bench/profile/profile.h"
#include "bench/rows/row.h"

// X(code, name)
#define SM_LOOP_BOUND_LIST(X)       \
    X(SM_LOOP_COMPUTE, "compute")   \
    X(SM_LOOP_MEMORY, "memory")     \
    X(SM_LOOP_LAUNCHES, "launches") \
    X(SM_LOOP_INPUT, "input")       \
    X(SM_LOOP_COMMUNICATION, "communication")

typedef enum {
#define X(code, name) code,
    SM_LOOP_BOUND_LIST(X)
#undef X
        SM_LOOP_BOUND_COUNT
} sm_loop_bound;

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

// Removes the verdict if the row, with all its figures set, supports none (noise_verdict.h): `verdict` then has the
// reason.
void sm_loop_withhold_verdict(sm_row *row);

#endif
