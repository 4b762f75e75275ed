// consistent.c: rows that contradict themselves. See read_rows.h.
#include "bench/rows/read_rows.h"

#include "bench/stats/stats.h"

#include <time.h>

static const double rounding = 1e-6;        // reals have 12 digits
static const double most_of_peak = 1.25;    // of a peak that other load disturbed
static const double most_of_bandwidth = 30; // of the memory's: caches have more
static const double most_flops_of_thread = 1e13;
static const double most_state_bytes = 1000; // that an update moves, for a parameter
static const double most_of_time = 0.9;      // the rest is between the samples
static const double least_resident = 0.2;    // of the memory that was allocated

// Time of the ops, timed one by one, in steps; and beyond that, time slices of other processes: 100 ms of short steps
// on two processors that 25 share.
static const double most_op_time = 20;
static const double op_time_slack_ns = 3e8;

// Fields that rules name often. NaN: not there, and no comparison holds.
// clang-format off: a line each would be long
#define FIGURES(X)                                                                                                \
    X(median_ns)                                                                                                  \
    X(median_ts)                                                                                                  \
    X(avg_ns)                                                                                                     \
    X(max_ns) X(ci95_hi_ns) X(n_batch) X(n_seq) X(n_accum) X(real_tokens) X(padded_tokens) X(energy_j) X(n_layer) \
        X(n_head) X(d_model) X(d_ff) X(vocab) X(n_ctx) X(model_n_params) X(attribution_ns) X(flops) X(bytes)      \
            X(peak_flops) X(datasheet_flops) X(peak_bandwidth) X(ideal_ns) X(n_threads) X(peak_rss_bytes)         \
                X(device_peak_bytes) X(loss_checked) X(loss_reference)
// clang-format on

typedef struct {
    const json_t *row;
    char *text; // SM_CONTRADICTION_SIZE
    double *samples;
    size_t n;
    double tokens; // of a sample
#define X(name) double name;
    FIGURES(X)
#undef X
} audit;

static double number(const audit *a, const char *field) { return sm_json_number(a->row, field); }
static const char *text_of(const audit *a, const char *field) { return sm_rows_text(a->row, field); }
static bool is_text(const audit *a, const char *field, const char *text) { return sm_rows_is(a->row, field, text); }
static size_t size_of(const audit *a, const char *field) { return json_array_size(sm_json_get(a->row, field)); }
static double or_zero(double value) { return isfinite(value) ? value : 0; }

#define SAY(a, ...) (snprintf((a)->text, SM_CONTRADICTION_SIZE, __VA_ARGS__), true)

static bool differs(const audit *a, const char *field, double expected, double slack) {
    const double value = number(a, field);
    return isfinite(value) && isfinite(expected) && !(fabs(value - expected) <= rounding * fabs(expected) + slack) &&
           SAY(a, "%s is %.6g, where its other fields give %.6g", field, value, expected);
}

#define TRUE_IF(condition) \
    do {                   \
        if (condition) {   \
            return true;   \
        }                  \
    } while (0)
#define REFUSE_IF(condition, ...)       TRUE_IF((condition) && SAY(__VA_ARGS__))
#define MUST_BE(field, expected, slack) TRUE_IF(differs(a, field, expected, slack))
#define AT_MOST(field, most)                                                                                \
    REFUSE_IF(number(a, field) > (most), a, "%s is %.6g, and can be %.6g at most", field, number(a, field), \
              (double)(most))

static const char signed_fields[] =
    "attribution_percent overhead_ns drift_percent seed sensors.temperature_before_c sensors.temperature_after_c "
    "sensors.gpu_temperature_c phases.unaccounted_ns loop.unaccounted_ns";

static bool has_wrong_sign(const audit *a) {
    for (int i = 0; i < sm_row_table.n_columns; i++) {
        const char *name = sm_row_table.columns[i].name;
        const bool is_time = sm_row_table.columns[i].type == SM_COLUMN_INTEGERS || strcmp(name, "samples_ts") == 0;
        REFUSE_IF(number(a, name) < 0 && !sm_is_word_of(name, signed_fields), a, "%s is %.6g, below zero", name,
                  number(a, name));
        SM_EACH(sample, is_time ? sm_json_get(a->row, name) : NULL) {
            const double value = json_number_value(sample);
            REFUSE_IF(!(value > 0), a, "number %zu of %s is %.6g, not above zero", sample_at + 1, name, value);
        }
    }
    return false;
}

// --- samples -------------------------------------------------------------------------------------

// The smallest sample that a share p of all do not exceed.
static bool is_other_percentile(const audit *a, const char *field, double p) {
    const double value = number(a, field);
    double n_below = 0, n_up_to = 0;
    for (size_t i = 0; i < a->n; i++) {
        n_below += a->samples[i] < value;
        n_up_to += a->samples[i] <= value;
    }
    const double rank = fmax(1, ceil(p * (double)a->n));
    return isfinite(value) && !(n_below < rank && rank <= n_up_to) && SAY(a, "%s is not that of its samples", field);
}

static bool order_differs(const audit *a) {
    SM_FREED int64_t *samples = sm_malloc(a->n * sizeof(*samples));
    for (size_t i = 0; i < a->n; i++) {
        samples[i] = (int64_t)a->samples[i];
    }
    const sm_trend trend = sm_steady_trend(samples, (int64_t)a->n);
    const sm_modes modes = sm_steady_modes(samples, (int64_t)a->n);
    return differs(a, "drift_percent", trend.percent, rounding) || differs(a, "drift_p", trend.p, rounding) ||
           differs(a, "bimodality", modes.distance, rounding);
}

// Replaces the samples by their rates.
static bool rates_differ(audit *a) {
    const size_t n_rates = size_of(a, "samples_ts");
    REFUSE_IF(n_rates != 0 && n_rates != a->n, a, "it has %zu samples_ns and %zu samples_ts", a->n, n_rates);
    for (size_t i = 0; i < a->n; i++) {
        a->samples[i] = a->tokens * 1e9 / a->samples[i];
        const double rate = json_number_value(json_array_get(sm_json_get(a->row, "samples_ts"), i));
        REFUSE_IF(n_rates > 0 && fabs(rate / a->samples[i] - 1) > rounding, a,
                  "number %zu of samples_ts is %.6g, where samples_ns give %.6g", i + 1, rate, a->samples[i]);
    }
    const sm_stats s = sm_stats_of_reals(a->samples, (int64_t)a->n);
    return differs(a, "avg_ts", s.mean, 0) || differs(a, "stddev_ts", s.stddev, rounding * s.mean);
}

static bool samples_differ(audit *a) {
    const sm_stats s = sm_stats_of_reals(a->samples, (int64_t)a->n);
    if (a->n == 0) {
        return false;
    }
    const double noise = sm_steady_noise_percent(&s);
    const char *verdict = sm_noise_name(sm_judge_noise(noise, 100 * s.mad / s.median));
#define X(field, member) MUST_BE(#field, s.member, 1);
    SM_STATS_FIELDS(X)
#undef X
    MUST_BE("n_outliers", (double)s.n_outliers, 0);
    MUST_BE("noise_percent", noise, rounding);
    REFUSE_IF(text_of(a, "noise_verdict")[0] != '\0' && !is_text(a, "noise_verdict", verdict), a,
              "noise_verdict is %.20s, where its samples are %s", text_of(a, "noise_verdict"), verdict);
    return is_other_percentile(a, "p95_ns", 0.95) || is_other_percentile(a, "p99_ns", 0.99) || order_differs(a) ||
           rates_differ(a);
}

// The sum, mean, deviation and median of an array of times, where the row has them.
static bool array_differs(const audit *a, const char *array, const char *sum, const char *mean, const char *deviation,
                          const char *median) {
    size_t n;
    SM_FREED double *values = sm_rows_samples(a->row, array, &n);
    const sm_stats s = sm_stats_of_reals(values, (int64_t)n);
    return differs(a, sum, s.mean * (double)n, 1) || differs(a, mean, s.mean, 1) ||
           differs(a, deviation, s.stddev, 1) || differs(a, median, n > 0 ? s.median : NAN, 1);
}

static bool has_speed(const audit *a) { return a->median_ns > 0 || a->median_ts > 0 || number(a, "avg_ts") > 0; }

// The figures of checked steps rest on samples and losses.
static bool lacks_samples(const audit *a) {
    const size_t n_parts = size_of(a, "samples_forward_ns");
    const double n_warmup = (double)size_of(a, "warmup_samples_ns");
    if (!has_speed(a) || text_of(a, "loss_check")[0] == '\0') {
        return false;
    }
    const char *needed = "n_batch n_seq n_layer d_model d_ff vocab flops model_n_params median_ns"; // by rules below
    for (char name[32]; sm_next_word(&needed, name, sizeof(name));) {
        REFUSE_IF(!(number(a, name) > 0), a, "it has figures of checked steps, and no %s", name);
    }
    REFUSE_IF(a->n == 0, a, "it has figures of checked steps, and no samples");
    REFUSE_IF(size_of(a, "losses") <= a->n, a, "%zu losses are fewer than its steps", size_of(a, "losses"));
    REFUSE_IF(n_parts > 0 && n_parts != a->n, a, "it has %zu samples_forward_ns of %zu samples", n_parts, a->n);
    return differs(a, "n_warmup", n_warmup > 0 ? n_warmup : NAN, 0);
}

// --- work, parts and ceilings ------------------------------------------------------------------------

// Numbers of parameters and FLOPs that no model of these sizes has.
static bool sizes_contradict(const audit *a) {
    const double L = a->n_layer, C = a->d_model, F = a->d_ff;
    const double channels = number(a, "head_dim") * a->n_head; // about C, but for some models
    const double positions = a->n_batch * a->n_seq * fmax(a->n_accum, 1);
    const double least = L * 2 * C * F + a->vocab * C;
    const double most =
        L * (C * (64 * C + 1024 * a->n_head + 4 * F) + 32 * (C + F)) + C * (2 * a->vocab + a->n_ctx + 32);
    const double passes = is_text(a, "pass_type", "forward") ? 1 : is_text(a, "pass_type", "backward") ? 2 : 3;
    const double most_flops = most + L * 32 * a->n_seq * (C + a->n_head) + 32 * a->vocab;
    REFUSE_IF(channels > 16 * C || channels < C / 16, a, "%.6g channels of all heads do not fit a width of %.6g",
              channels, C);
    REFUSE_IF(a->model_n_params < least, a, "model_n_params is %.6g, too few for its sizes", a->model_n_params);
    AT_MOST("model_n_params", most);
    REFUSE_IF(a->flops < 1.8 * passes * positions * least, a, "flops is %.6g, too few for its model", a->flops);
    AT_MOST("flops", 8 * passes * positions * most_flops + 128 * a->model_n_params);
    return false;
}

static bool work_contradicts(const audit *a) {
    const double own = a->n_batch * a->n_seq * fmax(a->n_accum, 1);
    const double positions = a->real_tokens + or_zero(a->padded_tokens);
    const bool is_shared = text_of(a, "loop.transport")[0] != '\0';
    const double told = number(a, "loop.n_processes");
    const double n_processes = told > 0 ? told : is_shared ? fmax(1, round(positions / own)) : 1;
    const double rate = a->tokens * 1e9 / a->median_ns;
    const double padded = rate * a->padded_tokens / a->real_tokens;
    REFUSE_IF(fabs(positions - n_processes * own) > rounding * positions, a,
              "a step has %.6g tokens, where n_batch, n_seq and n_accum give %.6g", positions, own);
    MUST_BE("median_ts", rate, rate / a->median_ns);
    MUST_BE("real_tokens_per_s", rate, rate / a->median_ns);
    MUST_BE("padded_tokens_per_s", padded, padded / a->median_ns);
    MUST_BE("energy_per_token_j", a->energy_j / a->tokens, 0);
    return sizes_contradict(a);
}

static bool phases_contradict(const audit *a) {
    static const char *const parts[] = {"zero_grad", "forward",       "backward",   "optimizer",
                                        "scaler",    "communication", "unaccounted"};
    const double ops_ns = a->attribution_ns - number(a, "phases.unaccounted_ns");
    const double more = a->attribution_ns / a->median_ns;
    double sum = 0;
    for (size_t i = 0; i < SM_COUNT(parts); i++) {
        sum += or_zero(number(a, SM_TEXT_IN(64, "phases.%s_ns", parts[i])));
    }
    MUST_BE("attribution_ns", sum > 0 ? sum : NAN, 8);
    REFUSE_IF(ops_ns > 1.01 * a->attribution_ns, a, "its phases exceed the step that they are parts of");
    if (!is_text(a, "pass_type", "backward") && !is_text(a, "pass_type", "separate")) { // sums of op times
        MUST_BE("attribution_percent", 100 * (more - 1), 100 * more / a->median_ns + rounding);
        MUST_BE("overhead_ns", a->median_ns - ops_ns, 1);
        REFUSE_IF(ops_ns > most_op_time * a->median_ns + op_time_slack_ns, a,
                  "its operations take %.3g ms, and its steps %.3g ms", ops_ns / 1e6, a->median_ns / 1e6);
    }
    return false;
}

// Shares are held to their limits at the slow end of the interval, so that noise is no contradiction.
static bool shares_contradict(const audit *a) {
    const double slow_ns = a->ci95_hi_ns > 0 ? a->ci95_hi_ns : a->max_ns;
    const double least_ns = 1e9 * a->flops / a->peak_flops;
    const double update_ns = 1e9 * most_state_bytes * a->model_n_params / a->peak_bandwidth;
    const bool is_op = text_of(a, "op")[0] != '\0';
    MUST_BE("flops_per_s", 1e9 * a->flops / a->median_ns, a->flops / a->median_ns);
    MUST_BE("bytes_per_s", 1e9 * a->bytes / a->median_ns, a->bytes / a->median_ns);
    const double operand_rate = 1e9 * number(a, "operand_bytes") / a->median_ns;
    MUST_BE("algorithm_bandwidth", operand_rate, operand_rate / a->median_ns);
    MUST_BE("bus_bandwidth", is_text(a, "op", "broadcast") ? operand_rate : 5e8 * a->bytes / a->median_ns,
            operand_rate / a->median_ns); // of what is sent and received, half is sent
    MUST_BE("mfu", least_ns / a->median_ns, least_ns / a->median_ns / a->median_ns);
    MUST_BE("datasheet_mfu", 1e9 * a->flops / a->datasheet_flops / a->median_ns, 1 / a->median_ns);
    MUST_BE("step_efficiency", a->ideal_ns / a->median_ns, 2 / a->median_ns);
    REFUSE_IF(least_ns > most_of_peak * slow_ns, a,
              "its steps take %.3g of the least time that its measured peak allows", slow_ns / least_ns);
    REFUSE_IF(1e9 * a->bytes / a->peak_bandwidth > most_of_bandwidth * slow_ns, a,
              "its steps move more bytes than peak_bandwidth allows");
    REFUSE_IF(a->ideal_ns < (1 - rounding) * least_ns - 1, a, "ideal_ns is below flops / peak_flops");
    AT_MOST("operand_bytes", a->device_peak_bytes);
    AT_MOST("kept_bytes", number(a, "operand_bytes"));
    AT_MOST("ideal_ns", (1 + rounding) * least_ns + 1 +
                            (is_op                             ? 1e9 * a->bytes / a->peak_bandwidth
                             : is_text(a, "pass_type", "step") ? update_ns
                                                               : 0));
    AT_MOST("peak_flops", is_text(a, "device", "cpu") ? most_flops_of_thread * a->n_threads : NAN);
    return false;
}

static bool loop_contradicts(const audit *a) {
    double sum = 0;
#define X(code, member, name, text) sum += or_zero(number(a, "loop." #member "_ns"));
    SM_STEP_PHASE_LIST(X)
#undef X
    MUST_BE("loop.wall_ns", sum > 0 ? sum : NAN, 32);
    MUST_BE("loop.ceiling_ts", number(a, SM_TEXT_IN(64, "loop.ceilings.%.30s", text_of(a, "loop.bound"))), 0);
    AT_MOST("loop.headline_wait_ns", a->max_ns + 1);
    AT_MOST("loop.headline_comm_ns", a->max_ns + 1);
    AT_MOST("loop.bound_share", 1);
    return false;
}

// --- machine, date and checks ------------------------------------------------------------------------

static bool machine_contradicts(const audit *a) {
    const double most_cpus = 1.1 * number(a, "context.cpu.threads") + 0.5;
    const char *cpu = text_of(a, "context.cpu.name");
    const char *device = text_of(a, "context.device.name");
    const char *card = text_of(a, "gpu_info");
    const bool is_host = is_text(a, "backend_used", "cpu") || is_text(a, "backend_used", "reference");
    REFUSE_IF(cpu[0] != '\0' && text_of(a, "cpu_info")[0] != '\0' && !is_text(a, "cpu_info", cpu), a,
              "cpu_info is %.60s, where its context has %.60s", text_of(a, "cpu_info"), cpu);
    REFUSE_IF(card[0] != '\0' && ((device[0] != '\0' && strcmp(card, device) != 0) || is_host), a,
              "gpu_info is %.60s, where %.60s ran", card, is_host ? "the host's processor" : device);
    AT_MOST("sensors.own_cpus", most_cpus);
    AT_MOST("sensors.other_cpus", most_cpus);
    AT_MOST("sensors.steal_share", 1);
    REFUSE_IF(a->device_peak_bytes < 2 * a->model_n_params, a, "device_peak_bytes has no room for its parameters");
    if (card[0] == '\0') {
        AT_MOST("peak_rss_bytes", number(a, "context.memory_bytes"));
        REFUSE_IF(a->peak_rss_bytes < least_resident * a->device_peak_bytes, a,
                  "peak_rss_bytes is below device_peak_bytes, a part of it");
    }
    return false;
}

static double seconds_of(const char *date) {
    struct tm utc = {.tm_mday = 0};
    char zone = '\0';
    const int n = sscanf(date, "%4d-%2d-%2dT%2d:%2d:%2d%c", &utc.tm_year, &utc.tm_mon, &utc.tm_mday, &utc.tm_hour,
                         &utc.tm_min, &utc.tm_sec, &zone);
    utc.tm_year -= 1900;
    utc.tm_mon -= 1;
    return n == 7 && zone == 'Z' ? (double)timegm(&utc) : NAN;
}

// Clocks may differ by a day. A machine whose own clock is before the project cannot tell.
static bool date_contradicts(const audit *a) {
    static const char project[] = "2026-11-21T00:00:00Z";
    const char *date = text_of(a, "test_time");
    const double begin_s = seconds_of(date);
    const double took_s = or_zero(a->avg_ns * (double)a->n * 1e-9);
    const double latest_s = (double)time(NULL) + 86400;
    REFUSE_IF(number(a, "process_ns") < took_s * 1e9, a, "process_ns is less than its samples took");
    if (date[0] == '\0' || latest_s < seconds_of(project) || !(number(a, "schema_version") > 0)) {
        return false;
    }
    REFUSE_IF(isnan(begin_s), a, "test_time %.30s is no date in UTC", date);
    REFUSE_IF(begin_s < seconds_of(project), a, "test_time %.30s is before the first stepmark", date);
    REFUSE_IF(begin_s + took_s > latest_s, a, "test_time %.30s, or the end of its samples, is in the future", date);
    return false;
}

static bool checks_contradict(const audit *a) {
    const double loss = json_number_value(json_array_get(sm_json_get(a->row, "losses"), 0));
    const char *status = text_of(a, "status");
    const double allowed = (sm_rows_is_exact(a->row) ? 2e-4 : 0.05) * fmax(1, fabs(a->loss_reference));
    if (!has_speed(a)) {
        return false; // an error's row says what was wrong
    }
    REFUSE_IF(strstr("ok timeout", status) == NULL, a, "its status is %.20s, and it has a speed", status);
    AT_MOST("spot_error", 1);
    AT_MOST("update_error", 1);
    AT_MOST("gradient_error", number(a, "gradient_tolerance"));
    AT_MOST("gradient_tolerance", 1);
    AT_MOST("gradient_check_ns", number(a, "checks_ns"));
    REFUSE_IF(fabs(a->loss_checked - a->loss_reference) > allowed, a, "loss_checked is %.6g, and loss_reference %.6g",
              a->loss_checked, a->loss_reference);
    MUST_BE("loss", loss > 0 ? loss : NAN, 0.1 * loss);
    return false;
}

// --- flags -----------------------------------------------------------------------------------------

static const char *flag_of(const audit *a, const char *name) {
    return sm_rows_flag(sm_json_get(a->row, "run_args"), name);
}

static bool flags_contradict(const audit *a) {
    // Flags, and the fields that have their values.
    const char *pairs =
        "model-size=model_type arch=model_arch batch-size=n_batch seq-len=n_seq accum=n_accum precision=precision "
        "mode=mode pass-type=pass_type optimizer=optimizer backend=device seed=seed dropout=dropout vocab=vocab "
        "check-seed=check_seed loader=loop.loader data=data weights=weights";
    const char *own = flag_of(a, "kernel") != NULL ? "kernel" : "backend-library";
    REFUSE_IF(flag_of(a, own) != NULL && has_speed(a) && sm_rows_own_code(a->row)[0] == '\0', a,
              "its run_args have --%s, and own_kernels names no code", own);
    for (char name[64]; sm_next_word(&pairs, name, sizeof(name));) {
        char *field = strchr(name, '=');
        *field++ = '\0';
        const char *flag = flag_of(a, name);
        const double value = number(a, field);
        const char *text = text_of(a, field);
        const bool is_other = flag != NULL && (text[0] != '\0' ? strcmp(flag, text) != 0 : strtod(flag, NULL) != value);
        REFUSE_IF(is_other && (text[0] != '\0' || isfinite(value)), a, "its run_args have --%s=%.60s, which %s is not",
                  name, flag, field);
    }
    const char *repetitions = is_text(a, "stop_reason", "repetitions") ? flag_of(a, "repetitions") : NULL;
    REFUSE_IF(repetitions != NULL && a->n > 0 && strtod(repetitions, NULL) != (double)a->n, a,
              "it has %zu samples, where its run_args have --repetitions=%.20s", a->n, repetitions);
    return false;
}

// Sampling ends after a time, which the samples of whole steps are nearly all of.
static bool end_contradicts(const audit *a) {
    const char *limit = is_text(a, "stop_reason", "time")    ? "max-time"
                        : is_text(a, "stop_reason", "noise") ? "min-time"
                                                             : "";
    const char *least = limit[0] != '\0' && is_text(a, "pass_type", "step") ? flag_of(a, limit) : NULL;
    const double took_s = (a->avg_ns + or_zero(number(a, "harness_ns"))) * (double)a->n * 1e-9;
    REFUSE_IF(least != NULL && text_of(a, "loop.loader")[0] == '\0' && took_s < most_of_time * strtod(least, NULL), a,
              "its samples take %.3g s, and they ended by --%s=%.20s", took_s, limit, least);
    return false;
}

bool sm_row_contradicts(const json_t *row, char text[SM_CONTRADICTION_SIZE]) {
    audit all = {.row = row, .text = text};
    audit *a = &all;
    text[0] = '\0';
#define X(name) a->name = number(a, #name);
    FIGURES(X)
#undef X
    a->tokens = a->real_tokens > 0 ? a->real_tokens : a->n_batch * a->n_seq * fmax(a->n_accum, 1);
    a->samples = sm_rows_samples(row, "samples_ns", &a->n);
    const bool found = has_wrong_sign(a) || lacks_samples(a) || samples_differ(a) ||
                       array_differs(a, "warmup_samples_ns", "warmup_ns", "", "", "") ||
                       array_differs(a, "cold_samples_ns", "", "", "", "cold_ns") ||
                       array_differs(a, "samples_forward_ns", "", "forward_avg_ns", "forward_stddev_ns", "") ||
                       array_differs(a, "samples_backward_ns", "", "backward_avg_ns", "backward_stddev_ns", "") ||
                       work_contradicts(a) || phases_contradict(a) || shares_contradict(a) || loop_contradicts(a) ||
                       machine_contradicts(a) || date_contradicts(a) || checks_contradict(a) || flags_contradict(a) ||
                       end_contradicts(a);
    free(a->samples);
    return found;
}

void sm_row_withdraw(json_t *row, const char *status, const char *reason) {
    for (int i = 0; i < sm_row_table.n_columns; i++) {
        const sm_column *column = &sm_row_table.columns[i];
        const bool is_array = column->type == SM_COLUMN_INTEGERS || column->type == SM_COLUMN_REALS;
        if (column->is_speed && sm_json_get(row, column->name) != NULL) {
            sm_json_set_new(row, column->name, is_array ? json_array() : json_null());
        }
    }
    sm_json_put(row, {"status", json_string(status)}, {"reason", sm_json_bytes(reason)});
}

void sm_row_hold_to_itself(json_t *row, char text[SM_CONTRADICTION_SIZE]) {
    if (sm_row_contradicts(row, text)) {
        sm_row_withdraw(row, "error", SM_TEXT_IN(SM_CONTRADICTION_SIZE + 32, "contradicts itself: %s", text));
    }
}
