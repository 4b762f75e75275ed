// compare_stats.h: how much longer b takes than a, how sure that is, and the smallest visible change. No assumption on
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
#ifndef STEPMARK_COMPARE_STATS_H
#define STEPMARK_COMPARE_STATS_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>

enum { SM_COMPARE_EXACT = 80 };

// Differences are of logarithms: exp(x) - 1 is the change as a fraction.
typedef struct {
    double estimate;
    bool has_interval; // false: so few values that no result could reach alpha
    double lo, hi;     // the interval of 1 - alpha; NaN without one
    double p_value;    // two-sided
    double
        detectable; // a true difference of this size would have been seen in 4 of 5 such samples; NaN without interval
} sm_difference;

// Values are positive. All NaN if a side is empty. Of more than 8192 values of a side every second, third, ... counts.
sm_difference sm_compare_paired(const double *a, const double *b, size_t n, double alpha);
sm_difference sm_compare_unpaired(const double *a, size_t n_a, const double *b, size_t n_b, double alpha);

// z with P(|N(0,1)| > z) = alpha.
double sm_normal_two_sided(double alpha);

#endif
