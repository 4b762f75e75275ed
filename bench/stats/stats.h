// stats.h: statistics of a set of timings. Order statistics first: timings are skewed, and their mean follows the worst
// of them.
//
// Definitions
//   quantiles    linear interpolation at h = (n-1) p of the sorted sample (Hyndman and Fan 1996,
//                type 7: what numpy, R and spreadsheets give by default)
//   mad          median of |x - median|, not scaled to a normal's sigma
//   stddev       with n-1; needs two samples
//   ci95         of the median, free of any assumption on the distribution: the order statistics
//                x(k), x(n+1-k) with the largest k for which 1 - 2 P(Bin(n,1/2) < k) >= 0.95.
//                The binomial is summed exactly for every n. Below six samples even
//                [min, max] covers the median with less than 95%: there is no interval.
//   mean's ci95  of a series in the order of time, whose neighbours may resemble each other: the series is
//                cut into 20 blocks (10 below 100 samples, 5 below 20), whose means are taken as independent
//                (batch means); Student's t of their spread
//   n_outliers   samples outside of Tukey's fences [q1 - 1.5 IQR, q3 + 1.5 IQR]. They are
//                counted and stay in every other figure.
#ifndef STEPMARK_STATS_H
#define STEPMARK_STATS_H

#include "status.h"

#include <stdint.h>

// All in the samples' unit. NaN where the sample is too small to say: stddev, ci95; all without samples.
typedef struct {
    int64_t n;
    double mean;
    double stddev;
    double min;
    double q1;
    double median;
    double q3;
    double p95;
    double max;
    double mad;
    double ci95_lo;
    double ci95_hi;
    int64_t n_outliers;
} sm_stats;

enum { SM_STATS_CI_MIN_SAMPLES = 6 };

// Leaves `samples` in their order; sorts a copy of its own (8 n bytes). Samples up to 2^53 are exact.
sm_stats sm_stats_of(const int64_t *samples, int64_t n);
sm_stats sm_stats_of_reals(const double *samples, int64_t n);

// Ascending.
void sm_sort(double *values, int64_t n);

// A copy as reals, in the same order; the caller frees it.
double *sm_reals_of(const int64_t *samples, int64_t n);

// k of the interval above, counted from 1; 0 where n is too small for one.
int64_t sm_stats_ci95_rank(int64_t n);

// Half the width of the interval of the mean, as above; NaN below five samples.
double sm_stats_mean_ci95_half(const double *series, int64_t n);

// Quantile p in [0, 1] of n >= 1 ascending values.
double sm_stats_quantile(const double *sorted, int64_t n, double p);

#endif
