// compare_stats.c: both tests have the same form. There is a set of M sorted differences (the
// averages of two for pairs, all b less a otherwise). The number of them below zero is the
// test's statistic, so the order statistics k and M+1-k bound the shifts that the test would not
// reject, with k from the distribution of that number where there is no difference.
#include "bench/stats/stats.h"

#include <math.h>

enum { MOST_VALUES = 8192 }; // of a side; of more every second, third, ... one is taken
static const double power = 0.8;

static double normal_tail(double z) { return 0.5 * erfc(z / sqrt(2)); }

double sm_normal_two_sided(double alpha) {
    double lo = 0, hi = 40;
    for (int i = 0; i < 200; i++) {
        double middle = (lo + hi) / 2;
        *(2 * normal_tail(middle) > alpha ? &lo : &hi) = middle;
    }
    return lo;
}

// --- the statistic's distribution where there is no difference ---------------------------------

// The distribution of the number of differences below zero: exact[s] is P(number <= s), s = 0 .. M.
typedef struct {
    double *exact; // NULL: normal
    double mean, sd;
} distribution;

static double at_most(const distribution *d, double s) {
    return s < 0 ? 0 : d->exact != NULL ? d->exact[(size_t)s] : normal_tail((d->mean - s - 0.5) / d->sd);
}

static void accumulate(double *ways, size_t n, double n_all) {
    double sum = 0;
    for (size_t s = 0; s < n; s++) {
        sum += ways[s] / n_all;
        ways[s] = sum < 1 ? sum : 1;
    }
}

// Ranks 1..n are each in the sum or not: 2^n sums, all as likely.
static distribution signed_rank_distribution(size_t n, size_t n_set) {
    double count = (double)n;
    distribution d = {NULL, (double)n_set / 2, sqrt(count * (count + 1) * (2 * count + 1) / 24)};
    if (n > SM_COMPARE_EXACT) {
        return d;
    }
    d.exact = sm_calloc(n_set + 1, sizeof(*d.exact));
    d.exact[0] = 1;
    for (size_t rank = 1; rank <= n; rank++) {
        for (size_t s = n_set; s >= rank; s--) {
            d.exact[s] += d.exact[s - rank];
        }
    }
    accumulate(d.exact, n_set + 1, exp2(count));
    return d;
}

// How many of the C(n_a + n_b, n_a) orders have s of the pairs (a, b) inverted: the coefficients
// of the Gaussian binomial, prod over i of (1 - q^(n_b + i)) / (1 - q^i). A coefficient depends
// only on those before it, so the small ones, which matter, are exact.
static distribution rank_sum_distribution(size_t n_a, size_t n_b) {
    size_t n_set = n_a * n_b;
    double all = (double)n_a + (double)n_b;
    distribution d = {NULL, (double)n_set / 2, sqrt((double)n_set * (all + 1) / 12)};
    if (n_a > SM_COMPARE_EXACT || n_b > SM_COMPARE_EXACT) {
        return d;
    }
    d.exact = sm_calloc(n_set + 1, sizeof(*d.exact));
    d.exact[0] = 1;
    for (size_t i = 1; i <= n_a; i++) {
        for (size_t s = n_set; s >= n_b + i; s--) {
            d.exact[s] -= d.exact[s - n_b - i];
        }
        for (size_t s = i; s <= n_set; s++) {
            d.exact[s] += d.exact[s - i];
        }
    }
    accumulate(d.exact, n_set + 1, exp(lgamma(all + 1) - lgamma((double)n_a + 1) - lgamma((double)n_b + 1)));
    return d;
}

// --- estimate, interval, p ---------------------------------------------------------------------

// The largest k, counted from 1, for which the k-th and the k-th last difference bound an
// interval of 1 - alpha; 0 when there is none.
static size_t interval_rank(const distribution *d, size_t n_set, double alpha) {
    size_t k = 0;
    while (k < n_set / 2 && 2 * at_most(d, (double)k) <= alpha) {
        k++;
    }
    return k;
}

// Differences of zero count half on either side, rounded towards the middle.
static double two_sided_p(const distribution *d, const double *set, size_t n_set) {
    double n_below = 0, n_zero = 0;
    for (size_t i = 0; i < n_set; i++) {
        n_below += set[i] < 0;
        n_zero += set[i] == 0;
    }
    double below = n_below + n_zero / 2;
    double smaller = ceil(fmin(below, (double)n_set - below));
    return fmin(1, 2 * at_most(d, smaller));
}

// Frees the set and the distribution.
static sm_difference conclude(double *set, size_t n_set, distribution d, double alpha) {
    sm_sort(set, (int64_t)n_set);
    const size_t k = interval_rank(&d, n_set, alpha);
    sm_difference difference = {.estimate = sm_stats_quantile(set, (int64_t)n_set, 0.5),
                                .has_interval = k > 0,
                                .lo = k > 0 ? set[k - 1] : NAN,
                                .hi = k > 0 ? set[n_set - k] : NAN,
                                .p_value = two_sided_p(&d, set, n_set)};
    // Half the interval is z standard errors; what is seen with that power is z + z_power of them.
    const double z = sm_normal_two_sided(alpha);
    const double z_power = sm_normal_two_sided(2 * (1 - power));
    difference.detectable = (difference.hi - difference.lo) / 2 * (1 + z_power / z);
    free(d.exact);
    free(set);
    return difference;
}

static const sm_difference nothing = {NAN, false, NAN, NAN, NAN, NAN};

static size_t stride_of(size_t n) { return (n + MOST_VALUES - 1) / MOST_VALUES; }

sm_difference sm_compare_paired(const double *a, const double *b, size_t n, double alpha) {
    const size_t stride = stride_of(n);
    size_t n_set = 0, n_taken = 0;
    if (n == 0) {
        return nothing;
    }
    double *set = sm_malloc((n / stride + 1) * (n / stride + 1) * sizeof(*set));
    for (size_t i = 0; i < n; i += stride, n_taken++) {
        for (size_t j = i; j < n; j += stride) {
            set[n_set++] = (log(b[i] / a[i]) + log(b[j] / a[j])) / 2;
        }
    }
    return conclude(set, n_set, signed_rank_distribution(n_taken, n_set), alpha);
}

sm_difference sm_compare_unpaired(const double *a, size_t n_a, const double *b, size_t n_b, double alpha) {
    const size_t stride_a = stride_of(n_a), stride_b = stride_of(n_b);
    size_t n_set = 0, n_taken = 0;
    if (n_a == 0 || n_b == 0) {
        return nothing;
    }
    double *set = sm_malloc((n_a / stride_a + 1) * (n_b / stride_b + 1) * sizeof(*set));
    for (size_t i = 0; i < n_a; i += stride_a, n_taken++) {
        for (size_t j = 0; j < n_b; j += stride_b) {
            set[n_set++] = log(b[j] / a[i]);
        }
    }
    return conclude(set, n_set, rank_sum_distribution(n_taken, n_set / n_taken), alpha);
}
