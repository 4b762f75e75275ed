// stats.c: order statistics of timings. See stats.h for the definitions.
#include "bench/stats/stats.h"

#include <math.h>

static const double confidence = 0.95;
static const double fence_iqr = 1.5;

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

void sm_sort(double *values, int64_t n) { qsort(values, (size_t)n, sizeof(*values), compare_doubles); }

double sm_stats_quantile(const double *sorted, int64_t n, double p) {
    double h = (double)(n - 1) * p;
    int64_t below = (int64_t)floor(h);
    if (below >= n - 1) {
        return sorted[n - 1];
    }
    return sorted[below] + (h - (double)below) * (sorted[below + 1] - sorted[below]);
}

// Adds up P(Bin(n,1/2) = i) from i = 0 while the tail stays within what the interval may
// leave out on one side. Each term is taken from logarithms: 2^-n alone would underflow.
int64_t sm_stats_ci95_rank(int64_t n) {
    double left_out = (1 - confidence) / 2;
    double tail = 0;
    int64_t k = 0;
    while (k < n / 2) {
        double i = (double)k;
        double log_ways = lgamma((double)n + 1) - lgamma(i + 1) - lgamma((double)n - i + 1);
        tail += exp(log_ways - (double)n * log(2));
        if (!(tail <= left_out)) {
            break;
        }
        k++;
    }
    return k;
}

// Sums distances from the first value, so that large samples lose no digits.
static double mean_of(const double *values, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += values[i] - values[0];
    }
    return values[0] + sum / (double)n;
}

static double stddev_of(const double *values, int64_t n, double mean) {
    if (n < 2) {
        return NAN;
    }
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = values[i] - mean;
        sum += d * d;
    }
    return sqrt(sum / (double)(n - 1));
}

double sm_stats_mean_ci95_half(const double *series, int64_t n) {
    enum { MOST_BLOCKS = 20 };
    double means[MOST_BLOCKS];
    int64_t n_blocks = n >= 100 ? 20 : n >= 20 ? 10 : 5;
    double t = n_blocks == 20 ? 2.0930 : n_blocks == 10 ? 2.2622 : 2.7764; // 97.5% of n_blocks - 1 degrees of freedom
    if (n < n_blocks) {
        return NAN;
    }
    for (int64_t i = 0; i < n_blocks; i++) {
        int64_t begin = i * n / n_blocks;
        means[i] = mean_of(series + begin, (i + 1) * n / n_blocks - begin);
    }
    double mean = mean_of(means, n_blocks);
    return t * stddev_of(means, n_blocks, mean) / sqrt((double)n_blocks);
}

// Takes `values` over: sorts them, then uses them up for the deviations.
static sm_stats compute(double *values, int64_t n) {
    sm_stats s = {0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 0};
    if (n > 0) {
        sm_sort(values, n);
        s = (sm_stats){.n = n, .mean = mean_of(values, n), .min = values[0], .max = values[n - 1]};
        s.stddev = stddev_of(values, n, s.mean);
        s.q1 = sm_stats_quantile(values, n, 0.25);
        s.median = sm_stats_quantile(values, n, 0.5);
        s.q3 = sm_stats_quantile(values, n, 0.75);
        s.p95 = sm_stats_quantile(values, n, 0.95);
        const int64_t k = sm_stats_ci95_rank(n);
        s.ci95_lo = k > 0 ? values[k - 1] : NAN;
        s.ci95_hi = k > 0 ? values[n - k] : NAN;
        const double reach = fence_iqr * (s.q3 - s.q1);
        for (int64_t i = 0; i < n; i++) {
            s.n_outliers += values[i] < s.q1 - reach || values[i] > s.q3 + reach;
            values[i] = fabs(values[i] - s.median);
        }
        sm_sort(values, n);
        s.mad = sm_stats_quantile(values, n, 0.5);
    }
    free(values);
    return s;
}

double *sm_reals_of(const int64_t *samples, int64_t n) {
    double *values = sm_malloc((size_t)n * sizeof(*values) + 1);
    for (int64_t i = 0; i < n; i++) {
        values[i] = (double)samples[i];
    }
    return values;
}

sm_stats sm_stats_of(const int64_t *samples, int64_t n) { return compute(sm_reals_of(samples, n), n); }

sm_stats sm_stats_of_reals(const double *samples, int64_t n) {
    double *values = sm_malloc((size_t)n * sizeof(*values) + 1);
    if (n > 0) {
        memcpy(values, samples, (size_t)n * sizeof(*values));
    }
    return compute(values, n);
}
