// test_stats.c: statistics of timings against values computed by hand.
#include "tests/support/test.h"
#include "bench/stats/stats.h"

TEST(test_ten_samples) {
    const int64_t samples[] = {9, 1, 8, 2, 7, 3, 100, 4, 6, 5};
    const sm_stats s = sm_stats_of(samples, 10);
    assert_int_equal(s.n, 10);
    assert_near(s.mean, 14.5);
    assert_near(s.min, 1);
    assert_near(s.q1, 3.25);
    assert_near(s.median, 5.5);
    assert_near(s.q3, 7.75);
    assert_near(s.max, 100);
    assert_near(s.mad, 2.5); // deviations 0.5 0.5 1.5 1.5 2.5 2.5 3.5 3.5 4.5 94.5
    assert_near(s.stddev, sqrt(8182.5 / 9));
    assert_near(s.ci95_lo, 2); // n = 10: k = 2, coverage 97.9%
    assert_near(s.ci95_hi, 9);
    assert_int_equal(s.n_outliers, 1); // fences -3.5 and 14.5
    assert_int_equal(samples[0], 9);   // in their own order still
}

// Quartiles 2 and 4: the fences are at -1 and 7, and a sample on one is none of those outside.
TEST(test_outliers_are_outside_of_the_fences) {
    static const struct {
        int64_t first, last;
        int n_outliers;
    } cases[] = {{-1, 7, 0}, {-2, 7, 1}, {-1, 8, 1}, {-2, 8, 2}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int64_t samples[] = {cases[i].first, 2, 3, 4, cases[i].last};
        assert_int_equal(sm_stats_of(samples, 5).n_outliers, cases[i].n_outliers);
    }
}

TEST(test_one_sample) {
    const int64_t sample = 42;
    const sm_stats s = sm_stats_of(&sample, 1);
    assert_near(s.mean, 42);
    assert_near(s.median, 42);
    assert_near(s.q1, 42);
    assert_near(s.q3, 42);
    assert_near(s.mad, 0);
    assert_true(isnan(s.stddev));
    assert_true(isnan(s.ci95_lo) && isnan(s.ci95_hi));
    assert_int_equal(s.n_outliers, 0);
}

TEST(test_equal_samples) {
    const int64_t samples[] = {5, 5, 5, 5, 5, 5};
    const sm_stats s = sm_stats_of(samples, 6);
    assert_near(s.stddev, 0);
    assert_near(s.mad, 0);
    assert_near(s.ci95_lo, 5);
    assert_near(s.ci95_hi, 5);
    assert_int_equal(s.n_outliers, 0);
}

TEST(test_no_samples) {
    const sm_stats s = sm_stats_of(NULL, 0);
    assert_true(s.n == 0 && isnan(s.mean) && isnan(s.median) && isnan(s.max) && isnan(s.ci95_lo));
}

// Large, close samples: a day in nanoseconds, a nanosecond apart.
TEST(test_large_samples) {
    const int64_t day_ns = 86400000000000;
    const int64_t samples[] = {day_ns, day_ns + 1, day_ns + 2};
    const sm_stats s = sm_stats_of(samples, 3);
    assert_true(s.mean == (double)(day_ns + 1));
    assert_near(s.stddev, 1);
}

TEST(test_real_samples) {
    const double samples[] = {0.5, 0.25};
    const sm_stats s = sm_stats_of_reals(samples, 2);
    assert_near(s.mean, 0.375);
    assert_near(s.median, 0.375);
    assert_near(s.stddev, 0.125 * sqrt(2));
}

// The published table of the interval's ranks (Hollander and Wolfe, sign test at 0.05).
TEST(test_ci95_ranks) {
    static const struct {
        int64_t n, k;
    } cases[] = {{1, 0},  {5, 0},  {6, 1},  {8, 1},   {9, 2},   {11, 2},  {12, 3},
                 {15, 4}, {20, 6}, {25, 8}, {30, 10}, {50, 18}, {100, 40}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(sm_stats_ci95_rank(cases[i].n), cases[i].k);
    }
    // Where 2^-n is no number any more, the normal approximation must be close.
    int64_t n = 20000;
    double normal = (double)n / 2 - 1.959964 * sqrt((double)n) / 2;
    assert_true(fabs((double)sm_stats_ci95_rank(n) - normal) <= 1.5);
}

TEST(test_quantiles) {
    const double sorted[] = {1, 2, 4};
    assert_near(sm_stats_quantile(sorted, 3, 0), 1);
    assert_near(sm_stats_quantile(sorted, 3, 0.25), 1.5);
    assert_near(sm_stats_quantile(sorted, 3, 0.9), 3.6);
    assert_near(sm_stats_quantile(sorted, 3, 1), 4);
}
