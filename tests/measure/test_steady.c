// test_steady.c: warm-up, precision, drift and modes, on series with known answers.
#include "tests/support/test.h"
#include "bench/measure/harness.h"

enum { N_MOST = 400, N_TRIALS = 1000 };

// A generator of its own: the same numbers everywhere.
static uint64_t generator;

static double uniform(void) {
    generator = generator * 6364136223846793005u + 1442695040888963407u;
    return ((double)(generator >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void) { return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()); }

static double exponential(void) { return -log(uniform()); }

static int seed(SM_UNUSED void **unused) {
    generator = 20260101;
    return 0;
}

static void fill(double (*draw)(void), double spread, int64_t *samples, int n) {
    for (int i = 0; i < n; i++) {
        samples[i] = (int64_t)(1e8 * (1 + spread * draw()));
    }
}

// --- warm-up ---------------------------------------------------------------------------------

TEST_WITH(warm_after_three_without_progress, seed, NULL) {
    static const struct {
        int64_t steps[8];
        int n;
        bool warm;
    } cases[] = {
        {{100}, 1, false},
        {{100, 50, 50}, 3, false},
        {{100, 50, 50, 50}, 4, false},
        {{100, 50, 50, 50, 50}, 5, true},
        {{100, 100, 100, 100}, 4, true},
        {{100, 90, 80, 70, 60}, 5, false},
        {{1000, 995, 992, 991}, 4, true},     // less than 1% is no progress
        {{100, 50, 60, 55, 49}, 5, false},    // a fastest one again
        {{100, 50, 60, 55, 52, 51}, 6, true}, // slower ones do not start it again
        {{50, 100, 100, 100}, 4, true},       // the first was the fastest
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(sm_steady_is_warm(cases[i].steps, cases[i].n), cases[i].warm);
    }
    assert_false(sm_steady_is_warm(NULL, 0));
}

TEST_WITH(noise_is_the_farther_end, seed, NULL) {
    const sm_stats stats = {.median = 200, .ci95_lo = 190, .ci95_hi = 204};
    const sm_stats without = {.median = 200, .ci95_lo = NAN, .ci95_hi = NAN};
    assert_true(fabs(sm_steady_noise_percent(&stats) - 5) < 1e-12);
    assert_true(isnan(sm_steady_noise_percent(&without)));
}

// --- drift -------------------------------------------------------------------------------------

TEST_WITH(a_line_drifts, seed, NULL) {
    int64_t samples[21];
    for (int i = 0; i < 21; i++) {
        samples[i] = 1000 + 10 * i;
    }
    sm_trend t = sm_steady_trend(samples, 21);
    assert_true(fabs(t.percent - 100 * 200 / 1100.0) < 1e-9);
    assert_true(t.p < 1e-6);
    for (int i = 0; i < 21; i++) {
        samples[i] = 1000 - 10 * i;
    }
    assert_true(sm_steady_trend(samples, 21).percent < 0);
    for (int i = 0; i < 21; i++) {
        samples[i] = 1000;
    }
    t = sm_steady_trend(samples, 21);
    assert_true(t.percent == 0 && t.p == 1);
    t = sm_steady_trend(samples, SM_TREND_MIN_SAMPLES - 1);
    assert_true(isnan(t.percent) && isnan(t.p));
}

// One outlier is no drift, wherever it is.
TEST_WITH(an_outlier_is_no_drift, seed, NULL) {
    int64_t samples[30];
    fill(normal, 0.01, samples, 30);
    samples[29] *= 50;
    sm_trend t = sm_steady_trend(samples, 30);
    assert_true(fabs(t.percent) < 3 && t.p > 0.01);
}

TEST_WITH(no_drift_is_seldom_seen, seed, NULL) {
    static const int sizes[] = {10, 30, 300};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        int n_seen = 0;
        for (int trial = 0; trial < N_TRIALS / 4; trial++) {
            int64_t samples[N_MOST];
            fill(exponential, 0.05, samples, sizes[s]);
            n_seen += sm_steady_trend(samples, sizes[s]).p < 0.01;
        }
        assert_true(n_seen <= N_TRIALS / 4 * 3 / 100);
    }
}

TEST_WITH(a_long_drift_is_seen, seed, NULL) {
    int64_t samples[N_MOST];
    fill(normal, 0.02, samples, N_MOST); // more than the points that are compared
    for (int i = 0; i < N_MOST; i++) {
        samples[i] += (int64_t)(5e6 * i / N_MOST);
    }
    sm_trend t = sm_steady_trend(samples, N_MOST);
    assert_true(t.p < 1e-4 && t.percent > 3 && t.percent < 7);
}

// --- modes -------------------------------------------------------------------------------------

TEST_WITH(two_clocks_are_two_modes, seed, NULL) {
    int64_t samples[40];
    fill(normal, 0.005, samples, 40);
    for (int i = 0; i < 40; i += 4) {
        samples[i] = samples[i] * 12 / 10;
    }
    sm_modes m = sm_steady_modes(samples, 40);
    assert_true(sm_steady_is_bimodal(&m));
    assert_true(fabs(m.share_hi - 0.25) < 1e-12);
    assert_true(fabs(m.mean_hi / m.mean_lo - 1.2) < 0.01);
    assert_true(isnan(sm_steady_modes(samples, SM_MODES_MIN_SAMPLES - 1).distance));
}

TEST_WITH(equal_samples_have_one_mode, seed, NULL) {
    int64_t samples[20];
    for (int i = 0; i < 20; i++) {
        samples[i] = 777;
    }
    sm_modes m = sm_steady_modes(samples, 20);
    assert_true(m.distance == 0 && !sm_steady_is_bimodal(&m));
}

TEST_WITH(one_population_is_seldom_two, seed, NULL) {
    double (*const draws[])(void) = {normal, uniform, exponential};
    for (int d = 0; d < 3; d++) {
        int n_seen = 0;
        for (int trial = 0; trial < N_TRIALS; trial++) {
            int64_t samples[20];
            fill(draws[d], 0.1, samples, 20);
            sm_modes m = sm_steady_modes(samples, 20);
            n_seen += sm_steady_is_bimodal(&m);
        }
        assert_true(n_seen <= N_TRIALS / 100);
    }
}

// --- in a row ------------------------------------------------------------------------------------

static void judge(sm_row *row, const int64_t *samples, int n) {
    const sm_stats stats = sm_stats_of(samples, n);
    sm_row_init(row);
    row->samples_ns.values = malloc((size_t)n * sizeof(*samples));
    assert_non_null(row->samples_ns.values);
    memcpy(row->samples_ns.values, samples, (size_t)n * sizeof(*samples));
    row->samples_ns.n = n;
    sm_judge_samples(row, &stats);
    for (int i = 0; i < n; i++) {
        assert_int_equal(row->samples_ns.values[i], samples[i]); // nothing is removed, nothing moved
    }
}

TEST_WITH(percentiles_only_where_the_sample_allows, seed, NULL) {
    int64_t samples[100];
    sm_row row;
    for (int i = 0; i < 100; i++) {
        samples[i] = 1000 + (i * 37) % 100; // 1000 .. 1099, mixed
    }
    judge(&row, samples, 19);
    assert_int_equal(row.p95_ns, SM_ABSENT);
    sm_row_free(&row);
    judge(&row, samples, 20);
    assert_true(row.p95_ns != SM_ABSENT);
    assert_int_equal(row.p99_ns, SM_ABSENT);
    sm_row_free(&row);
    judge(&row, samples, 100);
    assert_int_equal(row.p95_ns, 1094);
    assert_int_equal(row.p99_ns, 1098);
    sm_row_free(&row);
}

TEST(a_step_faster_than_the_peak_is_said) {
    SM_AT_END(sm_row_free) sm_row row;
    sm_row_init(&row);
    row.mfu = NAN; // no peak
    sm_judge_peak(&row);
    row.mfu = 1;
    sm_judge_peak(&row);
    assert_int_equal(json_array_size(row.warnings), 0);
    row.mfu = 2.18;
    sm_judge_peak(&row);
    assert_int_equal(json_array_size(row.warnings), 1);
    assert_non_null(
        strstr(json_string_value(json_array_get(row.warnings, 0)), "2.18 times as fast as the measured peak allows"));
}

TEST_WITH(what_is_odd_is_said, seed, NULL) {
    int64_t samples[40];
    sm_row row;
    for (int i = 0; i < 40; i++) {
        samples[i] = 100000 + 500 * i + (i * 37) % 40;
    }
    judge(&row, samples, 40);
    assert_int_equal(json_array_size(row.warnings), 1);
    assert_non_null(strstr(json_string_value(json_array_get(row.warnings, 0)), "drift"));
    sm_row_free(&row);
    for (int i = 0; i < 40; i++) {
        samples[i] = 100000 + (i * 37) % 40 + (i * 7 % 40 < 5 ? 90000 : 0);
    }
    judge(&row, samples, 40);
    assert_non_null(strstr(json_string_value(json_array_get(row.warnings, 0)), "5 of 40 samples are outliers"));
    sm_row_free(&row);
    judge(&row, samples, 1);
    assert_int_equal(json_array_size(row.warnings), 0);
    assert_true(isnan(row.noise_percent) && isnan(row.drift_p) && isnan(row.bimodality));
    sm_row_free(&row);
}

// --- losses --------------------------------------------------------------------------------------

// A course from `first` to `last` over n steps, one of which is made `odd` (step < 0: none).
static sm_status judge_course(double first, double last, double noise, int n, int step, double odd) {
    double losses[N_MOST];
    sm_row row = {.losses = {.values = losses, .n = n}};
    for (int i = 0; i < n; i++) {
        losses[i] = i == step ? odd : first + (last - first) * i / (n - 1) + noise * normal();
    }
    return sm_judge_losses(&row);
}

TEST_WITH(honest_losses_are_on_course, seed, NULL) {
    for (int trial = 0; trial < N_TRIALS; trial++) {
        assert_int_equal(judge_course(10.8, 9.5, 0.1, 20, -1, 0), SM_OK);
        assert_int_equal(judge_course(4, 4, 0.4, 40, -1, 0), SM_OK); // small batches, a rate of 0
        assert_int_equal(judge_course(11, 0.02, 0.02, 400, -1, 0), SM_OK);
    }
    assert_int_equal(judge_course(5, 5, 0, 13, -1, 0), SM_OK);     // the same batch without updates
    assert_int_equal(judge_course(5, 4, 0.05, 20, 7, 5.6), SM_OK); // one bad step
    assert_int_equal(judge_course(5, 500, 0, 3, -1, 0), SM_OK);    // all of them were checked
}

// A step that computed nothing has a loss of 0, or an old one; one that computed something else, any other.
TEST_WITH(a_loss_off_the_course_is_wrong, seed, NULL) {
    static const double odd[] = {0, -3, 50, 1e30, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        for (int step = 2; step < 19; step++) {
            assert_int_equal(judge_course(10.8, 9.5, 0.05, 20, step, odd[i]), SM_ERR_MISMATCH);
        }
    }
    assert_int_equal(judge_course(10.8, 9.5, 0.05, 20, 4, 0), SM_ERR_MISMATCH);
    assert_non_null(strstr(sm_error_message(), "step 5 has 0.0000"));
}
