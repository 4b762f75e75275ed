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
#pragma once

#include "status.h"

// All in the samples' unit. NaN where the sample is too small to say: stddev, ci95; all without samples.
typedef struct {
    int64_t n;
    double mean, stddev;
    double min, q1, median, q3, p95, max;
    double mad, ci95_lo, ci95_hi;
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

// --- whether samples are steady ------------------------------------------------------------------

// Warm-up is over when the last 3 steps all failed to beat the fastest before them by more than
// 1%. steps_ns[0] is the very first step: it sets the mark, and so at least 3 more are needed.
bool sm_steady_is_warm(const int64_t *steps_ns, int64_t n);

// How far the 95% interval of the median reaches from it, in percent of it: the larger side. NaN
// where there is no interval (below 6 samples).
double sm_steady_noise_percent(const sm_stats *stats);

// Whether another run would give about the same figure: the interval of its median lies within SM_NOISE_LIMIT percent
// of it, and half of the samples within SM_SPREAD_LIMIT. Beyond SM_USABLE_LIMIT it is of no use. X(code, name)
enum { SM_NOISE_LIMIT = 5, SM_SPREAD_LIMIT = 10, SM_USABLE_LIMIT = 50 };
#define SM_NOISE_LIST(X)         \
    X(SM_NOISE_STEADY, "steady") \
    X(SM_NOISE_NOISY, "noisy")   \
    X(SM_NOISE_TOO_FEW, "too few") // for an interval

typedef enum { SM_NOISE_LIST(SM_CODE) } sm_noise;

const char *sm_noise_name(sm_noise noise); // the noise_verdict of a row

// spread_percent: the median absolute deviation.
sm_noise sm_judge_noise(double noise_percent, double spread_percent);

// The fields of a row that are such figures of its samples. X(field, member)
#define SM_STATS_FIELDS(X) \
    X(median_ns, median)   \
    X(mad_ns, mad)         \
    X(q1_ns, q1)           \
    X(q3_ns, q3)           \
    X(min_ns, min)         \
    X(max_ns, max)         \
    X(ci95_lo_ns, ci95_lo) \
    X(ci95_hi_ns, ci95_hi) \
    X(avg_ns, mean)        \
    X(stddev_ns, stddev)

// A monotonic trend. percent: Theil and Sen's slope (median over all pairs) times the sample's length, in percent of
// its median; p: two-sided, of Mann and Kendall's test with correction for ties. Both NaN below 8 samples. Samples of
// more than 256 are first cut into that many blocks, each standing for itself by its median.
typedef struct {
    double percent, p;
} sm_trend;

enum { SM_TREND_MIN_SAMPLES = 8 };

sm_trend sm_steady_trend(const int64_t *samples, int64_t n);

// The best cut of the sorted sample into two groups (least squares), each of at least a fifth of
// it. distance is Ashman's D = sqrt(2) (mean_hi - mean_lo) / sqrt(var_lo + var_hi): about 2.7
// where one normal population was cut in two, 3.5 for a uniform one. All NaN below 12 samples.
typedef struct {
    double distance, mean_lo, mean_hi;
    double share_hi; // of the samples
} sm_modes;

enum { SM_MODES_MIN_SAMPLES = 12 };

sm_modes sm_steady_modes(const int64_t *samples, int64_t n);

// Beyond this distance, and with means more than 2% apart, a sample is called bimodal: samples of
// 18 and more out of one normal, uniform or exponential population get there in less than 1%.
bool sm_steady_is_bimodal(const sm_modes *modes);

// --- differences ---------------------------------------------------------------------------------

// How much longer b takes than a, how sure that is, and the smallest visible change. No assumption on
// the distribution of timings but that both sides have the same shape:
//
//   paired    b[i] was measured next to a[i]: differences d[i] = ln b[i] - ln a[i]. Their
//             Hodges-Lehmann estimate (median of all averages of two d), with the interval and
//             the p-value of Wilcoxon's signed-rank test
//   unpaired  the Hodges-Lehmann estimate of a shift (median of all ln b[j] - ln a[i]), with the
//             interval and the p-value of the Mann-Whitney test
//
// Both tests are exact up to SM_COMPARE_EXACT values a side and normal above. The interval holds
// zero if and only if p > alpha (but for ties, where it is the wider of the two).

enum { SM_COMPARE_EXACT = 80 };

// Differences are of logarithms: exp(x) - 1 is the change as a fraction.
typedef struct {
    double estimate;
    bool has_interval; // false: so few values that no result could reach alpha
    double lo, hi;     // the interval of 1 - alpha; NaN without one
    double p_value;    // two-sided
    double detectable; // true difference of this size: seen in 4 of 5 such samples; NaN without interval
} sm_difference;

// Values are positive. All NaN if a side is empty. Of more than 8192 values of a side every second, third, ... counts.
sm_difference sm_compare_paired(const double *a, const double *b, size_t n, double alpha);
sm_difference sm_compare_unpaired(const double *a, size_t n_a, const double *b, size_t n_b, double alpha);

// z with P(|N(0,1)| > z) = alpha.
double sm_normal_two_sided(double alpha);
