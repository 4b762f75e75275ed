// pass_stats.h: computes a row's figures from the harness's raw times. Part of the harness.
#ifndef STEPMARK_PASS_STATS_H
#define STEPMARK_PASS_STATS_H

#include "bench/measure/harness.h"

// Whether a sample is a sum of op times, not a stretch of wall-clock time.
bool sm_pass_is_op_time(sm_pass_type pass);

// Sums op_ns (plan->n_ops entries) by the ops' phases.
void sm_pass_phase_sums(const sm_plan *plan, const int64_t *op_ns, int64_t by_phase_ns[SM_PHASE_COUNT]);

// Sets attribution_ns, phases and op_ns of a row from the step with median wall-clock time (the lower of two). op_ns
// has n_steps x plan->n_ops entries. Does nothing if n_steps is 0.
void sm_pass_attribute(sm_row *row, const sm_plan *plan, const int64_t *walls_ns, const int64_t *op_ns, int n_steps);

// Fills all figures that depend on samples_ns and the peaks: statistics, tokens/s, FLOPs, mfu, efficiency.
sm_status sm_pass_summarize(sm_row *row, const sm_plan *plan, sm_pass_type pass, int n_accum);

#endif
