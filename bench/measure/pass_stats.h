// pass_stats.h: from the harness's raw times to a row's figures. Part of the harness.
#ifndef STEPMARK_PASS_STATS_H
#define STEPMARK_PASS_STATS_H

#include "bench/measure/harness.h"

// The times of ops are themselves the sample, not a stretch of wall clock.
bool sm_pass_is_op_time(sm_pass_type pass);

// Sums op_ns (plan->n_ops entries) by the ops' phases.
void sm_pass_phase_sums(const sm_plan *plan, const int64_t *op_ns, int64_t by_phase_ns[SM_PHASE_COUNT]);

// Sets attribution_ns, phases and op_ns of a row from the step of median wall clock (the lower of
// two). op_ns holds n_steps x plan->n_ops entries. Does nothing when n_steps is 0.
sm_status sm_pass_attribute(sm_row *row, const sm_plan *plan, const int64_t *walls_ns, const int64_t *op_ns,
                            int n_steps);

// Fills what follows from samples_ns and the peaks: statistics, tokens/s, FLOPs, mfu, efficiency.
sm_status sm_pass_summarize(sm_row *row, const sm_plan *plan, sm_pass_type pass, int n_accum);

#endif
