// judge.c: see pass_stats.h.
#include "bench/measure/pass_stats.h"

#include "bench/compare/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double drift_worth_a_warning = 2; // percent
static const double drift_significance = 0.01;
static const double outlier_share = 0.1;
enum { OUTLIERS_WORTH_A_WARNING = 3 };

// Of losses: batches differ, and a training may take a bad step.
static const double least_loss_range = 1;
static const double batch_deviations = 8;

// The smallest sample that at least a share p of all do not exceed: a measured time.
static int64_t percentile(const double *sorted, int64_t n, double p) {
    const int64_t rank = (int64_t)ceil(p * (double)n);
    return (int64_t)sorted[rank > 0 ? rank - 1 : 0];
}

static void set_percentiles(sm_row *row) {
    const int64_t n = row->samples_ns.n;
    SM_FREED double *sorted = sm_reals_of(row->samples_ns.values, n);
    sm_sort(sorted, n);
    if (n >= SM_P95_MIN_SAMPLES) {
        row->p95_ns = percentile(sorted, n, 0.95);
    }
    if (n >= SM_P99_MIN_SAMPLES) {
        row->p99_ns = percentile(sorted, n, 0.99);
    }
}

void sm_judge_samples(sm_row *row, const sm_stats *stats) {
    const double spread_percent = 100 * stats->mad / stats->median;
    const sm_trend trend = sm_steady_trend(row->samples_ns.values, row->samples_ns.n);
    const sm_modes modes = sm_steady_modes(row->samples_ns.values, row->samples_ns.n);
    row->noise_percent = sm_steady_noise_percent(stats);
    row->drift_percent = trend.percent;
    row->drift_p = trend.p;
    row->bimodality = modes.distance;
    set_percentiles(row);
    const sm_noise noise = sm_judge_noise(row->noise_percent, spread_percent);
    SM_ROW_TEXT(row->noise_verdict, sm_noise_name(noise));
    if (noise == SM_NOISE_NOISY) {
        char text[SM_ROW_TEXT_SIZE * 2];
        sm_noise_describe(row->noise_percent, spread_percent, text, sizeof(text));
        sm_row_warn(row, "%s; take more samples (--max-noise), or look for other load", text);
    }
    if (fabs(trend.percent) >= drift_worth_a_warning && trend.p < drift_significance) {
        sm_row_warn(row,
                    "the samples drift: steps %s by %.1f%% from first to last (p = %.2g); warm up longer, cool down, "
                    "or look for other load",
                    trend.percent > 0 ? "slow down" : "speed up", fabs(trend.percent), trend.p);
    }
    if (sm_steady_is_bimodal(&modes)) {
        sm_row_warn(row,
                    "the samples fall into two groups: %.4g ms, and %.4g ms for %.0f%% of them; the median stands for "
                    "one of them only",
                    modes.mean_lo / 1e6, modes.mean_hi / 1e6, 100 * modes.share_hi);
    }
    if (stats->n_outliers >= OUTLIERS_WORTH_A_WARNING &&
        (double)stats->n_outliers >= outlier_share * (double)stats->n) {
        sm_row_warn(row, "%lld of %lld samples are outliers (beyond 1.5 IQR); they are kept in every figure",
                    (long long)stats->n_outliers, (long long)stats->n);
    }
}

void sm_judge_peak(sm_row *row) {
    if (row->mfu > 1) {
        sm_row_warn(row,
                    "the step is %.2f times as fast as the measured peak allows: something disturbed the peak's "
                    "measurement; believe the time, not its share of the peak, and measure again",
                    row->mfu);
    }
}

// --- losses ------------------------------------------------------------------------------------

sm_status sm_judge_losses(const sm_row *row) {
    const int64_t n = row->losses.n;
    const double *losses = row->losses.values;
    if (n < 4) {
        return SM_OK;
    }
    const double low = fmin(fmin(losses[0], losses[1]), losses[n - 1]);
    const double high = fmax(fmax(losses[0], losses[1]), losses[n - 1]);
    // 1.4826 times the median absolute deviation: the standard deviation of normal data, insensitive to outliers
    // (Rousseeuw and Croux 1993).
    const double deviation = 1.4826 * sm_stats_of_reals(losses, n).mad;
    const double allowed = fmax(high - low, least_loss_range) + batch_deviations * deviation;
    for (int64_t i = 2; i < n - 1; i++) {
        SM_FAIL_IF(!(losses[i] >= low - allowed && losses[i] <= high + allowed), SM_ERR_MISMATCH,
                   "wrong loss: step %lld has %.4f, and the checked steps before and after it have %.4f to "
                   "%.4f; no speed is reported",
                   (long long)i + 1, losses[i], low, high);
    }
    return SM_OK;
}
