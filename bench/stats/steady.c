// steady.c: see stats.h for the definitions.
#include "bench/stats/stats.h"

#include <math.h>

enum { WARM_STEPS = 3, MAX_TREND_POINTS = 256, MODE_SHARE = 5 };

static const double warm_improvement = 0.01;
static const double bimodal_distance = 7;
static const double bimodal_gap = 0.02; // relative

bool sm_steady_is_warm(const int64_t *steps_ns, int64_t n) {
    int64_t last_better = 0;
    double best = n > 0 ? (double)steps_ns[0] : 0;
    for (int64_t i = 1; i < n; i++) {
        double step = (double)steps_ns[i];
        if (step < best * (1 - warm_improvement)) {
            last_better = i;
        }
        best = step < best ? step : best;
    }
    return n - 1 - last_better >= WARM_STEPS;
}

double sm_steady_noise_percent(const sm_stats *stats) {
    double above = stats->ci95_hi - stats->median;
    double below = stats->median - stats->ci95_lo;
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
    double *scratch = sm_malloc((size_t)(n > most_pairs ? n : most_pairs) * sizeof(*scratch));
    const int64_t n_points = make_points(samples, n, scratch, points);
    int64_t score = 0; // ascents less descents
    int64_t n_pairs = 0;
    for (int64_t i = 0; i < n_points; i++) {
        for (int64_t j = i + 1; j < n_points; j++) {
            score += (points[j] > points[i]) - (points[j] < points[i]);
            scratch[n_pairs++] = (points[j] - points[i]) / (double)(j - i);
        }
    }
    sm_sort(scratch, n_pairs);
    const double rise = sm_stats_quantile(scratch, n_pairs, 0.5) * (double)(n_points - 1);
    free(scratch);
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
    double sum = 0;
    double squares = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += x[i] - middle;
        squares += (x[i] - middle) * (x[i] - middle);
    }
    int64_t smallest = (n + MODE_SHARE - 1) / MODE_SHARE;
    double least = INFINITY;
    double sum_lo = 0;
    double squares_lo = 0;
    for (int64_t k = 1; k <= n - smallest; k++) { // the k lowest against the rest
        double d = x[k - 1] - middle;
        sum_lo += d;
        squares_lo += d * d;
        if (k < smallest) {
            continue;
        }
        double n_lo = (double)k;
        double n_hi = (double)(n - k);
        double variance_lo;
        double variance_hi;
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
