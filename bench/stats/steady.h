// steady.h: properties of a series of timings, in the order of measurement: has it settled, is the sample large enough,
// does it drift, is it two populations rather than one. They never remove anything from a sample.
#ifndef STEPMARK_STEADY_H
#define STEPMARK_STEADY_H

#include "bench/stats/stats.h"

#include <stdbool.h>

// Warm-up is over when the last 3 steps all failed to beat the fastest before them by more than
// 1%. steps_ns[0] is the very first step: it sets the mark, and so at least 3 more are needed.
bool sm_steady_is_warm(const int64_t *steps_ns, int64_t n);

// How far the 95% interval of the median reaches from it, in percent of it: the larger side. NaN
// where there is no interval (below 6 samples).
double sm_steady_noise_percent(const sm_stats *stats);

// A figure is steady up to these (bench/compare/noise_verdict.h), and usable up to the last: percent of the median.
enum { SM_NOISE_LIMIT = 5, SM_SPREAD_LIMIT = 10, SM_USABLE_LIMIT = 50 };

// A monotonic trend. percent: Theil and Sen's slope (median over all pairs) times the sample's
// length, in percent of its median; p: two-sided, of Mann and Kendall's test with correction for
// ties. Both NaN below 8 samples. Samples of more than 256 are first cut into that many blocks,
// each standing for itself by its median.
typedef struct {
    double percent;
    double p;
} sm_trend;

enum { SM_TREND_MIN_SAMPLES = 8 };

sm_trend sm_steady_trend(const int64_t *samples, int64_t n);

// The best cut of the sorted sample into two groups (least squares), each of at least a fifth of
// it. distance is Ashman's D = sqrt(2) (mean_hi - mean_lo) / sqrt(var_lo + var_hi): about 2.7
// where one normal population was cut in two, 3.5 for a uniform one. All NaN below 12 samples.
typedef struct {
    double distance;
    double mean_lo;
    double mean_hi;
    double share_hi; // of the samples
} sm_modes;

enum { SM_MODES_MIN_SAMPLES = 12 };

sm_modes sm_steady_modes(const int64_t *samples, int64_t n);

// Beyond this distance, and with means more than 2% apart, a sample is called bimodal: samples of
// 18 and more out of one normal, uniform or exponential population get there in less than 1%.
bool sm_steady_is_bimodal(const sm_modes *modes);

#endif
