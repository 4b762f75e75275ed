// stats.c: order statistics of timings. See stats.h for the definitions.
#include "bench/stats/stats.h"

#include <math.h>

static const double confidence = 0.95;
static const double fence_iqr = 1.5;

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void sm_sort(double *values, int64_t n) { qsort(values, (size_t)n, sizeof(*values), compare_doubles); }

double sm_stats_quantile(const double *sorted, int64_t n, double p) {
    double h = (double)(n - 1) * p;
    int64_t below = (int64_t)floor(h);
    return below >= n - 1 ? sorted[n - 1] : sorted[below] + (h - (double)below) * (sorted[below + 1] - sorted[below]);
}

// Adds up P(Bin(n,1/2) = i) from i = 0 while the tail stays within what the interval may
// leave out on one side. Each term is taken from logarithms: 2^-n alone would underflow.
int64_t sm_stats_ci95_rank(int64_t n) {
    double left_out = (1 - confidence) / 2, tail = 0;
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

// --- steadiness --------------------------------------------------------------------------------

enum { WARM_STEPS = 3, MAX_TREND_POINTS = 256, MODE_SHARE = 5 };

static const double warm_improvement = 0.01;
static const double bimodal_distance = 7;
static const double bimodal_gap = 0.02; // relative

bool sm_steady_is_warm(const int64_t *steps_ns, int64_t n) {
    int64_t last_better = 0;
    double best = n > 0 ? (double)steps_ns[0] : 0;
    for (int64_t i = 1; i < n; i++) {
        double step = (double)steps_ns[i];
        last_better = step < best * (1 - warm_improvement) ? i : last_better;
        best = step < best ? step : best;
    }
    return n - 1 - last_better >= WARM_STEPS;
}

double sm_steady_noise_percent(const sm_stats *stats) {
    double above = stats->ci95_hi - stats->median, below = stats->median - stats->ci95_lo;
    return stats->median > 0 ? 100 * (above > below ? above : below) / stats->median : NAN;
}

SM_WORDS(sm_noise_name, sm_noise, SM_NOISE_LIST)

sm_noise sm_judge_noise(double noise_percent, double spread_percent) {
    const bool is_steady = noise_percent <= SM_NOISE_LIMIT && spread_percent <= SM_SPREAD_LIMIT;
    return isnan(noise_percent) ? SM_NOISE_TOO_FEW : is_steady ? SM_NOISE_STEADY : SM_NOISE_NOISY;
}

// --- trend -----------------------------------------------------------------------------------

// The sample as at most MAX_TREND_POINTS points, in order. `scratch` has room for n.
static int64_t make_points(const int64_t *samples, int64_t n, double *scratch, double points[MAX_TREND_POINTS]) {
    int64_t n_points = n < MAX_TREND_POINTS ? n : MAX_TREND_POINTS;
    for (int64_t p = 0; p < n_points; p++) {
        int64_t first = p * n / n_points;
        int64_t end = (p + 1) * n / n_points;
        for (int64_t i = first; i < end; i++) {
            scratch[i - first] = (double)samples[i];
        }
        sm_sort(scratch, end - first);
        points[p] = sm_stats_quantile(scratch, end - first, 0.5);
    }
    return n_points;
}

// Variance of the number of ascents less descents under no trend: groups of t equal values take
// their t(t-1)(2t+5) out of it. Sorts `points`.
static double kendall_variance(double *points, int64_t n) {
    double variance = (double)n * (double)(n - 1) * (double)(2 * n + 5);
    sm_sort(points, n);
    for (int64_t first = 0; first < n;) {
        int64_t end = first + 1;
        while (end < n && points[end] == points[first]) {
            end++;
        }
        double t = (double)(end - first);
        variance -= t * (t - 1) * (2 * t + 5);
        first = end;
    }
    return variance / 18;
}

sm_trend sm_steady_trend(const int64_t *samples, int64_t n) {
    double points[MAX_TREND_POINTS];
    const int64_t most_pairs = (int64_t)MAX_TREND_POINTS * (MAX_TREND_POINTS - 1) / 2;
    if (n < SM_TREND_MIN_SAMPLES) {
        return (sm_trend){NAN, NAN};
    }
    SM_FREED double *scratch = sm_malloc((size_t)(n > most_pairs ? n : most_pairs) * sizeof(*scratch));
    const int64_t n_points = make_points(samples, n, scratch, points);
    int64_t n_pairs = 0, score = 0; // ascents less descents
    for (int64_t i = 0; i < n_points; i++) {
        for (int64_t j = i + 1; j < n_points; j++) {
            score += (points[j] > points[i]) - (points[j] < points[i]);
            scratch[n_pairs++] = (points[j] - points[i]) / (double)(j - i);
        }
    }
    sm_sort(scratch, n_pairs);
    const double rise = sm_stats_quantile(scratch, n_pairs, 0.5) * (double)(n_points - 1);
    const double variance = kendall_variance(points, n_points);
    const double median = sm_stats_quantile(points, n_points, 0.5); // sorted by now
    const double distance = fabs((double)score) - 1;                // continuity
    return (sm_trend){.percent = median > 0 ? 100 * rise / median : NAN,
                      .p = variance > 0 && distance > 0 ? erfc(distance / sqrt(2 * variance)) : 1};
}

// --- modes -----------------------------------------------------------------------------------

// Mean and variance of n values from their sum and the sum of their squares.
static double mean_and_variance(double sum, double squares, double n, double *variance) {
    double mean = sum / n;
    double v = squares / n - mean * mean;
    *variance = v > 0 ? v : 0;
    return mean;
}

// `x` is sorted. Distances from its median keep the sums of squares exact enough.
static void best_cut(const double *x, int64_t n, sm_modes *modes) {
    const double middle = x[n / 2];
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += x[i] - middle;
        squares += (x[i] - middle) * (x[i] - middle);
    }
    int64_t smallest = (n + MODE_SHARE - 1) / MODE_SHARE;
    double least = INFINITY, sum_lo = 0, squares_lo = 0;
    for (int64_t k = 1; k <= n - smallest; k++) { // the k lowest against the rest
        double d = x[k - 1] - middle;
        sum_lo += d;
        squares_lo += d * d;
        if (k < smallest) {
            continue;
        }
        const double n_lo = (double)k, n_hi = (double)(n - k);
        double variance_lo, variance_hi;
        double mean_lo = mean_and_variance(sum_lo, squares_lo, n_lo, &variance_lo);
        double mean_hi = mean_and_variance(sum - sum_lo, squares - squares_lo, n_hi, &variance_hi);
        double within = n_lo * variance_lo + n_hi * variance_hi;
        if (within < least) {
            least = within;
            double spread = sqrt((variance_lo + variance_hi) / 2);
            double gap = mean_hi - mean_lo;
            double distance = spread > 0 ? gap / spread : gap > 0 ? 1e6 : 0; // 1e6: two values only
            *modes = (sm_modes){distance, middle + mean_lo, middle + mean_hi, n_hi / (double)n};
        }
    }
}

sm_modes sm_steady_modes(const int64_t *samples, int64_t n) {
    sm_modes modes = {NAN, NAN, NAN, NAN};
    if (n >= SM_MODES_MIN_SAMPLES) {
        SM_FREED double *values = sm_reals_of(samples, n);
        sm_sort(values, n);
        best_cut(values, n, &modes);
    }
    return modes;
}

bool sm_steady_is_bimodal(const sm_modes *modes) {
    return modes->distance > bimodal_distance && modes->mean_hi - modes->mean_lo > bimodal_gap * modes->mean_lo;
}
