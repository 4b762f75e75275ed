// phases.h: the phases of a training loop's row as records, optionally against a baseline: a line for each phase that
// took time in either, then the whole instrumented step, then the undisturbed step.
#ifndef STEPMARK_BENCH_LOOP_PHASES_H
#define STEPMARK_BENCH_LOOP_PHASES_H

#include "bench/tables/record.h"

extern const sm_table sm_loop_table;

// The row of `rows` that is a loop of the same work; of several, the last. NULL: there is none.
const json_t *sm_loop_baseline(const json_t *rows, const json_t *row);

// `baseline` may be NULL. A change is that of compare_stats.h, with its 95% interval, where both have six steps.
// *records: of sm_loop_table; the caller owns it.
sm_status sm_loop_records(const json_t *row, const json_t *baseline, json_t **records);

#endif
