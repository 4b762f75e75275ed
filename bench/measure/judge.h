// judge.h: facts about a sample that show how far to rely on its median. Part of the harness.
#ifndef STEPMARK_JUDGE_H
#define STEPMARK_JUDGE_H

#include "bench/rows/row.h"
#include "bench/stats/stats.h"

// Percentiles that a sample can show: p of n samples if n (1 - p) >= 1, so that at least one sample is expected beyond
// it: p95 from 20 samples on, p99 from 100.
enum { SM_P95_MIN_SAMPLES = 20, SM_P99_MIN_SAMPLES = 100 };

// Fills noise_percent, p95_ns, p99_ns, drift_percent, drift_p and bimodality of a row with samples; `stats` are theirs.
// Warns of drift (2% or more over the sample, p < 0.01), of two modes, of outliers (3 or more, and a tenth of the
// sample), and of noise.
sm_status sm_judge_samples(sm_row *row, const sm_stats *stats);

// Compares the losses of the measured steps with those of the checked ones among them: the first two and the last.
// SM_ERR_MISMATCH if one is further outside of their range than that is wide and than losses vary from batch to batch.
sm_status sm_judge_losses(const sm_row *row);

// Warns if a row's mfu is above 1: no step exceeds the device's peak, so other load disturbed the peak's measurement.
void sm_judge_peak(sm_row *row);

#endif
