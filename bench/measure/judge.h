// judge.h: the facts about a sample that a reader needs before relying on its median. Part of the harness.
#ifndef STEPMARK_JUDGE_H
#define STEPMARK_JUDGE_H

#include "bench/rows/row.h"
#include "bench/stats/stats.h"

// Percentiles that a sample can show: p of n samples where n (1 - p) >= 1, so that at least one
// sample is expected beyond it: p95 from 20 samples on, p99 from 100.
enum { SM_P95_MIN_SAMPLES = 20, SM_P99_MIN_SAMPLES = 100 };

// Fills noise_percent, p95_ns, p99_ns, drift_percent, drift_p and bimodality of a row that has
// samples; `stats` is theirs. Warns of drift (2% or more over the sample, p < 0.01), of two modes,
// and of outliers (3 or more, and a tenth of the sample).
// Says so, too, when the sample is noisy.
sm_status sm_judge_samples(sm_row *row, const sm_stats *stats);

// The losses of the steps that were measured, against the course that the checked ones among them show: the first two
// and the last. SM_ERR_MISMATCH where one lies further outside of their range than that is wide and than losses vary
// from batch to batch.
sm_status sm_judge_losses(const sm_row *row);

// Warns where a row's mfu is above 1: no step does more than the device can, so it was the peak's measurement that
// other load disturbed.
sm_status sm_judge_peak(sm_row *row);

#endif
