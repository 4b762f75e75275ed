// pass_stats.c: pass types, their work, and the figures computed from their samples.
#include "bench/measure/harness.h"

#include "bench/compare/compare.h"

// --- pass types ----------------------------------------------------------------------------

static const struct {
    const char *name, *short_name;
} passes[] = {
#define X(code, name, short_name) {name, short_name},
    SM_PASS_LIST(X)
#undef X
};

const char *sm_pass_name(sm_pass_type pass) { return passes[pass].name; }

unsigned sm_pass_phases(sm_pass_type pass) {
    return pass == SM_PASS_FORWARD ? SM_RUN_FORWARD
           : pass == SM_PASS_STEP  ? SM_RUN_STEP
                                   : SM_RUN_ZERO_GRAD | SM_RUN_FORWARD | SM_RUN_BACKWARD;
}

bool sm_pass_is_op_time(sm_pass_type pass) { return pass == SM_PASS_BACKWARD || pass == SM_PASS_SEPARATE; }

void sm_row_set_test(sm_row *row, sm_pass_type pass, int64_t B, int64_t T, int n_accum) {
    SM_ROW_TEXT(row->pass_type, sm_pass_name(pass));
    if (row->op[0] != '\0') {
        snprintf(row->test, sizeof(row->test), "%s %s", passes[pass].short_name, row->shape);
    } else {
        snprintf(row->test, sizeof(row->test), "%s b%llds%lld", passes[pass].short_name, (long long)B, (long long)T);
    }
    row->n_batch = B > 0 ? B : SM_ABSENT;
    row->n_seq = T > 0 ? T : SM_ABSENT;
    row->n_accum = n_accum;
}

// --- work ------------------------------------------------------------------------------------

// Whether a sample's time includes this op: by its phase if it is a sum of op times, otherwise by the executed ranges.
static bool is_covered(const sm_op *op, sm_pass_type pass) {
    return pass == SM_PASS_BACKWARD   ? op->phase == SM_PHASE_BACKWARD
           : pass == SM_PASS_SEPARATE ? op->phase == SM_PHASE_FORWARD || op->phase == SM_PHASE_BACKWARD
                                      : (sm_pass_phases(pass) & (1u << op->range)) != 0;
}

// Sums a property of the ops in a sample, each as often as it runs; of_op: of one execution, on average.
static double sum_over_ops(const sm_plan *plan, sm_pass_type pass, int n_accum,
                           double (*of_op)(const sm_plan *plan, const sm_op *op, int n_times)) {
    double sum = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op *op = &plan->ops[i];
        const bool every_micro_batch = op->range == SM_PHASE_FORWARD || op->range == SM_PHASE_BACKWARD;
        const int n_times = every_micro_batch ? n_accum : 1;
        sum += is_covered(op, pass) ? of_op(plan, op, n_times) * n_times : 0;
    }
    return sum;
}

// Micro-batches in a sample, of all processes.
static double micro_batches(const sm_plan *plan, int n_accum) {
    return (double)n_accum * (plan->processes.n > 1 ? plan->processes.n : 1);
}

double sm_pass_tokens(const sm_plan *plan, int n_accum) {
    return micro_batches(plan, n_accum) *
           (plan->real_tokens > 0 ? plan->real_tokens : (double)plan->B * (double)plan->T);
}

static double mean_flops(const sm_plan *plan, const sm_op *op, SM_UNUSED int n_times) { return sm_op_flops(plan, op); }

double sm_pass_flops(const sm_plan *plan, sm_pass_type pass, int n_accum) {
    return sum_over_ops(plan, pass, n_accum, mean_flops);
}

// AdamW's update reads p, g, m, v and writes p, m, v, 4 bytes each; with narrow data also a matrix's copy, 2 bytes.
double sm_pass_ideal_ns(const sm_plan *plan, sm_pass_type pass, int n_accum, double peak_flops, double peak_bandwidth) {
    const bool optimizer = pass == SM_PASS_STEP;
    double update_bytes = 0;
    if (!sm_plan_is_step(plan)) {
        double ideal_ns = 0;
        for (int i = 0; i < plan->n_ops; i++) {
            const sm_op *op = &plan->ops[i];
            ideal_ns += is_covered(op, pass)
                            ? 1e9 * fmax(sm_op_flops(plan, op) / peak_flops, sm_op_bytes(plan, op) / peak_bandwidth)
                            : 0;
        }
        return peak_flops > 0 && peak_bandwidth > 0 ? ideal_ns : NAN;
    }
    if (!(peak_flops > 0) || (optimizer && !(peak_bandwidth > 0))) {
        return NAN;
    }
    for (int i = 0; i < plan->n_ops && optimizer; i++) {
        update_bytes += sm_op_is_update(plan, &plan->ops[i]) ? sm_op_bytes(plan, &plan->ops[i]) : 0;
    }
    return 1e9 * (sm_pass_flops(plan, pass, n_accum) / peak_flops + (optimizer ? update_bytes / peak_bandwidth : 0));
}

// --- attribution -----------------------------------------------------------------------------

void sm_pass_phase_sums(const sm_plan *plan, const int64_t *op_ns, int64_t by_phase_ns[SM_PHASE_COUNT]) {
    memset(by_phase_ns, 0, SM_PHASE_COUNT * sizeof(*by_phase_ns));
    for (int i = 0; i < plan->n_ops; i++) {
        by_phase_ns[plan->ops[i].phase] += op_ns[i];
    }
}

// Index of the lower median: (n-1)/2 entries are before it, ties by index.
static int median_index(const int64_t *values, int n) {
    for (int i = 0; i < n; i++) {
        int n_before = 0;
        for (int j = 0; j < n; j++) {
            n_before += values[j] < values[i] || (values[j] == values[i] && j < i);
        }
        if (n_before == (n - 1) / 2) {
            return i;
        }
    }
    return 0;
}

static void new_op_times(const sm_plan *plan, sm_integers *times) {
    free(times->values);
    *times = (sm_integers){sm_malloc((size_t)plan->n_ops * sizeof(*times->values) + 1), plan->n_ops};
}

void sm_pass_attribute(sm_row *row, const sm_plan *plan, const int64_t *walls_ns, const int64_t *op_ns, int n_steps) {
    if (n_steps == 0) {
        return;
    }
    int step = median_index(walls_ns, n_steps);
    const int64_t *ops = op_ns + (size_t)step * (size_t)plan->n_ops;
    new_op_times(plan, &row->op_ns);
    new_op_times(plan, &row->op_least_ns);
    for (int i = 0; i < plan->n_ops; i++) {
        int64_t least_ns = op_ns[i];
        for (int other = 1; other < n_steps; other++) { // preemption seldom hits the same op in all steps
            const int64_t other_ns = op_ns[other * plan->n_ops + i];
            least_ns = other_ns < least_ns ? other_ns : least_ns;
        }
        row->op_ns.values[i] = ops[i];
        row->op_least_ns.values[i] = least_ns;
    }

    int64_t by_phase_ns[SM_PHASE_COUNT];
    sm_pass_phase_sums(plan, ops, by_phase_ns);
    row->attribution_ns = walls_ns[step];
    row->n_attribution = n_steps;
    row->phases.zero_grad_ns = by_phase_ns[SM_PHASE_ZERO_GRAD];
    row->phases.forward_ns = by_phase_ns[SM_PHASE_FORWARD];
    row->phases.backward_ns = by_phase_ns[SM_PHASE_BACKWARD];
    row->phases.optimizer_ns = by_phase_ns[SM_PHASE_OPTIMIZER];
    if (plan->scaler != SM_NO_TENSOR || plan->products == SM_PRODUCTS_FP8) {
        row->phases.scaler_ns = by_phase_ns[SM_PHASE_SCALER];
    }
    if (plan->processes.n > 1) {
        row->phases.communication_ns = by_phase_ns[SM_PHASE_COMMUNICATION];
    }
    row->phases.unaccounted_ns = walls_ns[step];
    for (int phase = 0; phase < SM_PHASE_COUNT; phase++) {
        row->phases.unaccounted_ns -= by_phase_ns[phase];
    }
}

// --- figures -----------------------------------------------------------------------------------

static int64_t whole(double value) { return isfinite(value) ? llround(value) : SM_ABSENT; }

static void set_tokens(sm_row *row, const sm_plan *plan, int n_accum, double median_ns) {
    const int64_t n = row->samples_ns.n;
    const double n_tokens = sm_pass_tokens(plan, n_accum);
    free(row->samples_ts.values);
    row->samples_ts = (sm_reals){sm_malloc((size_t)n * sizeof(double)), n};
    for (int64_t i = 0; i < n; i++) {
        row->samples_ts.values[i] = n_tokens * 1e9 / (double)row->samples_ns.values[i];
    }
    const sm_stats rates = sm_stats_of_reals(row->samples_ts.values, n);
    row->avg_ts = rates.mean;
    row->stddev_ts = rates.stddev;
    row->median_ts = row->real_tokens_per_s = n_tokens * 1e9 / median_ns;
    row->real_tokens = n_tokens;
    row->padded_tokens = (double)plan->B * (double)plan->T * micro_batches(plan, n_accum) - n_tokens;
    row->padded_tokens_per_s = row->median_ts * row->padded_tokens / row->real_tokens;
    row->attended_pairs = plan->attended_pairs > 0 ? plan->attended_pairs : NAN;
}

void sm_pass_summarize(sm_row *row, const sm_plan *plan, sm_pass_type pass, int n_accum) {
    const double ideal_ns = sm_pass_ideal_ns(plan, pass, n_accum, row->peak_flops, row->peak_bandwidth);
    row->flops = sm_pass_flops(plan, pass, n_accum);
    row->bytes = sum_over_ops(plan, pass, n_accum, sm_op_mean_bytes); // if each op touches its operands once
    row->ideal_ns = whole(ideal_ns);
    if (row->samples_ns.n == 0) {
        return;
    }
    const sm_stats times = sm_stats_of(row->samples_ns.values, row->samples_ns.n);
    row->n_outliers = times.n_outliers;
#define X(field, member) row->field = whole(times.member);
    SM_STATS_FIELDS(X)
#undef X
    // An attribution step contains a sample only if that is a stretch of wall-clock time, which has time beyond its ops.
    if (row->attribution_ns != SM_ABSENT && !sm_pass_is_op_time(pass)) {
        row->attribution_percent = 100 * ((double)row->attribution_ns / (double)row->median_ns - 1);
        row->overhead_ns = row->median_ns - (row->attribution_ns - row->phases.unaccounted_ns);
    }
    if (sm_plan_is_step(plan)) {
        set_tokens(row, plan, n_accum, times.median);
    } else {
        row->flops_per_s = row->flops * 1e9 / (double)row->median_ns;
        row->bytes_per_s = row->bytes * 1e9 / (double)row->median_ns;
    }
    if (row->samples_forward_ns.n > 0) { // the two parts of pass type separate
        const sm_stats forward = sm_stats_of(row->samples_forward_ns.values, row->samples_forward_ns.n);
        const sm_stats backward = sm_stats_of(row->samples_backward_ns.values, row->samples_backward_ns.n);
        row->forward_avg_ns = whole(forward.mean);
        row->forward_stddev_ns = whole(forward.stddev);
        row->backward_avg_ns = whole(backward.mean);
        row->backward_stddev_ns = whole(backward.stddev);
    }
    sm_judge_samples(row, &times);
    row->mfu = row->peak_flops > 0 ? row->flops / (times.median * 1e-9 * row->peak_flops) : NAN;
    row->datasheet_mfu = row->datasheet_flops > 0 ? row->flops / (times.median * 1e-9 * row->datasheet_flops) : NAN;
    row->step_efficiency = ideal_ns / times.median;
    sm_judge_peak(row);
}

// --- how far to rely on them ---------------------------------------------------------------------

static const double drift_worth_a_warning = 2; // percent
static const double drift_significance = 0.01;
static const double outlier_share = 0.1;
enum { OUTLIERS_WORTH_A_WARNING = 3 };

// Allowances for losses: batches differ, and a training may take a bad step.
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
    row->p95_ns = n >= SM_P95_MIN_SAMPLES ? percentile(sorted, n, 0.95) : row->p95_ns;
    row->p99_ns = n >= SM_P99_MIN_SAMPLES ? percentile(sorted, n, 0.99) : row->p99_ns;
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

sm_status sm_judge_losses(const sm_row *row) {
    const int64_t n = row->losses.n;
    const double *losses = row->losses.values;
    if (n < 4) {
        return SM_OK;
    }
    const double low = fmin(fmin(losses[0], losses[1]), losses[n - 1]);
    const double high = fmax(fmax(losses[0], losses[1]), losses[n - 1]);
    // 1.4826 times the median absolute deviation (Rousseeuw and Croux 1993): the standard deviation of normal data.
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
