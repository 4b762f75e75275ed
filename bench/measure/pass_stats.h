// pass_stats.h: computes a row's figures from the harness's raw times. Part of the harness.
#ifndef STEPMARK_PASS_STATS_H
#define STEPMARK_PASS_STATS_H

#include "bench/measure/harness.h"
#include "bench/rows/row.h"
#include "bench/stats/stats.h"

// Whether a sample is a sum of op times, not a stretch of wall-clock time.
bool sm_pass_is_op_time(sm_pass_type pass);

// Sums op_ns (plan->n_ops entries) by the ops' phases.
void sm_pass_phase_sums(const sm_plan *plan, const int64_t *op_ns, int64_t by_phase_ns[SM_PHASE_COUNT]);

// Sets attribution_ns, phases and op_ns of a row from the step with median wall-clock time (the lower of two). op_ns
// has n_steps x plan->n_ops entries. Does nothing if n_steps is 0.
void sm_pass_attribute(sm_row *row, const sm_plan *plan, const int64_t *walls_ns, const int64_t *op_ns, int n_steps);

// Fills all figures that depend on samples_ns and the peaks: statistics, tokens/s, FLOPs, mfu, efficiency.
void sm_pass_summarize(sm_row *row, const sm_plan *plan, sm_pass_type pass, int n_accum);

// Facts about a sample that show how far to rely on its median. Part of the harness.

// Percentiles that a sample can show: p of n samples if n (1 - p) >= 1, so that at least one sample is expected beyond
// it: p95 from 20 samples on, p99 from 100.
enum { SM_P95_MIN_SAMPLES = 20, SM_P99_MIN_SAMPLES = 100 };

// Fills noise_percent, p95_ns, p99_ns, drift_percent, drift_p and bimodality of a row with samples; `stats` are theirs.
// Warns of drift (2% or more over the sample, p < 0.01), of two modes, of outliers (3 or more, and a tenth of the
// sample), and of noise.
void sm_judge_samples(sm_row *row, const sm_stats *stats);

// Compares the losses of the measured steps with those of the checked ones among them: the first two and the last.
// SM_ERR_MISMATCH if one is further outside of their range than that is wide and than losses vary from batch to batch.
sm_status sm_judge_losses(const sm_row *row);

// Warns if a row's mfu is above 1: no step exceeds the device's peak, so other load disturbed the peak's measurement.
void sm_judge_peak(sm_row *row);

#endif
