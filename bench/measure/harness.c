// harness.c: the protocol of harness.h.
#include "clock.h"
#include "bench/measure/harness.h"

#include "philox.h"
#include "bench/rows/machine.h"
#include "bench/sensors/sensors.h"
#include "src/plan/host_threads.h"

enum { MAX_AUTO_WARMUP = 50, ROOM_OF_A_NUMBER = 24 };

// The least time for the current step to end after the limit, before it counts as hung.
static const int64_t least_grace_ns = INT64_C(1000000000);

static const int64_t max_auto_warmup_ns = INT64_C(30000000000);

// A measurement in progress.
typedef struct {
    sm_session *session;
    const sm_protocol *protocol;
    sm_stepper stepper;
    sm_row *row;
    int64_t deadline_ns; // INT64_MAX: none
    int64_t grace_ns;    // beyond the deadline, for the current step

    sm_sensors *sensors;
    sm_reading before, after; // at the start of the headline pass, and at its end
    const char *stop_reason;  // why the headline pass ended

    int64_t next_repeat; // next sample whose step is repeated
    int64_t n_repeated;
    int64_t repeated_at; // steps made when the sample of the last of them was, repeated ones included
    int64_t n_draws;     // of samples to repeat
    int64_t late_check;  // sample before which gradients are checked once more; -1: none
    bool is_checked;     // the last check is done

    // Attribution steps: wall-clock time of each, and op_ns[step * n_ops + op].
    int64_t *walls_ns, *op_ns;
    int n_walls;
} measurement;

SM_WORDS(sm_stage_name, sm_stage, SM_STAGE_LIST)

// --- one step ----------------------------------------------------------------------------

static void keep_loss(sm_row *row, double loss) {
    if (!isnan(loss)) { // of ops by themselves
        SM_PUSH(row->losses.values, row->losses.n, loss);
    }
}

static sm_status run_step(measurement *m, int64_t *op_ns, int64_t *elapsed_ns) {
    double loss = NAN;
    sm_host_threads_end(); // of checks before it
    SM_TRY(sm_step_run(&m->stepper, m->row, op_ns, elapsed_ns, &loss));
    // The limit lets a step take half as long again as the longest before it; the first step also builds and loads.
    const int64_t grace_ns = *elapsed_ns + *elapsed_ns / 2;
    if (m->stepper.n_steps > 1 && m->deadline_ns != INT64_MAX && grace_ns > m->grace_ns) {
        m->grace_ns = grace_ns;
        m->session->executable->deadline_ns = m->deadline_ns + grace_ns;
    }
    keep_loss(m->row, loss);
    return SM_OK;
}

// --- between steps -----------------------------------------------------------------------

// Process 0 decides what depends on times: all processes of a step must do as many.
static sm_status decide(const measurement *m, bool *decision) {
    return sm_exchange_broadcast(m->session->exchange, decision, sizeof *decision);
}

static sm_status may_continue(const measurement *m, sm_stage stage, int done, int total) {
    const sm_protocol *p = m->protocol;
    SM_FAIL_IF(p->interrupted != NULL && *p->interrupted, SM_ERR_INTERRUPTED, "interrupted at %s %d of %d",
               sm_stage_name(stage), done, total);
    SM_FAIL_IF(sm_now_ns() > m->deadline_ns, SM_ERR_TIMEOUT,
               "the limit of %g s ran out at %s %d of %d; raise --timeout or ask for less", p->timeout_s,
               sm_stage_name(stage), done, total);
    if (p->progress != NULL) {
        p->progress(p->progress_ctx, stage, done, total);
    }
    return SM_OK;
}

// --- stages --------------------------------------------------------------------------------

static int max_warmup(const sm_protocol *p, const sm_workload *w) {
    const bool is_open = p->n_warmup == SM_WARMUP_AUTO || (w->is_settled != NULL && p->n_warmup < MAX_AUTO_WARMUP);
    return is_open ? MAX_AUTO_WARMUP : p->n_warmup;
}

// `steps_ns` is the series: the first step, then those of warm-up.
static sm_status may_warm_up_end(const measurement *m, const int64_t *steps_ns, bool *ends) {
    const sm_row *row = m->row;
    const sm_workload *w = m->stepper.workload;
    const int n_warmup = m->protocol->n_warmup;
    const bool is_enough =
        n_warmup == SM_WARMUP_AUTO ? sm_steady_is_warm(steps_ns, row->n_warmup + 1) : row->n_warmup >= n_warmup;
    const bool is_settled = w->is_settled == NULL || w->is_settled(w->loop);
    *ends = (is_enough && is_settled) || row->n_warmup >= max_warmup(m->protocol, w) ||
            (row->warmup_ns >= max_auto_warmup_ns && (is_enough || n_warmup == SM_WARMUP_AUTO));
    return decide(m, ends);
}

static sm_status warm_up(measurement *m) {
    sm_row *row = m->row;
    int64_t *steps_ns = row->warmup_samples_ns.values; // allocated with room for the first step before them
    const bool counts = m->protocol->n_warmup != 0;    // the checked step
    row->warmup_ns = counts ? steps_ns[1] : 0;
    row->n_warmup = counts;
    steps_ns[0] = row->first_step_ns;
    bool ends = false;
    SM_TRY(may_warm_up_end(m, steps_ns, &ends));
    while (!ends) {
        int64_t elapsed_ns = 0;
        SM_TRY(may_continue(m, SM_STAGE_WARMUP, (int)row->n_warmup, max_warmup(m->protocol, m->stepper.workload)));
        SM_TRY(run_step(m, NULL, &elapsed_ns));
        row->warmup_ns += elapsed_ns;
        steps_ns[++row->n_warmup] = elapsed_ns;
        SM_TRY(may_warm_up_end(m, steps_ns, &ends));
    }
    const bool is_automatic = m->protocol->n_warmup == SM_WARMUP_AUTO;
    const bool is_steady = is_automatic && sm_steady_is_warm(steps_ns, row->n_warmup + 1);
    SM_ROW_TEXT(row->warmup_stop, !is_automatic ? "fixed" : is_steady ? "steady" : "limit");
    if (is_automatic && !is_steady) {
        sm_row_warn(row, "not steady after %lld warm-up steps: they still got faster", (long long)row->n_warmup);
    }
    memmove(steps_ns, steps_ns + 1, (size_t)row->n_warmup * sizeof(*steps_ns));
    row->warmup_samples_ns.n = row->n_warmup;
    return SM_OK;
}

// A sample that is a sum of op times, which are stored in the place of the first attribution step's.
static sm_status sample_ops(measurement *m, int64_t *sample_ns) {
    const sm_plan *plan = m->session->plan;
    sm_row *row = m->row;
    int64_t elapsed_ns = 0;
    memset(m->op_ns, 0, (size_t)plan->n_ops * sizeof(*m->op_ns));
    SM_TRY(run_step(m, m->op_ns, &elapsed_ns));
    int64_t by_phase_ns[SM_PHASE_COUNT];
    sm_pass_phase_sums(plan, m->op_ns, by_phase_ns);
    *sample_ns = by_phase_ns[SM_PHASE_BACKWARD];
    if (m->protocol->pass == SM_PASS_SEPARATE) {
        row->samples_forward_ns.values[row->samples_forward_ns.n++] = by_phase_ns[SM_PHASE_FORWARD];
        row->samples_backward_ns.values[row->samples_backward_ns.n++] = by_phase_ns[SM_PHASE_BACKWARD];
        *sample_ns += by_phase_ns[SM_PHASE_FORWARD];
    }
    return SM_OK;
}

static int max_samples(const sm_protocol *p) { return p->max_noise_percent > 0 ? p->max_samples : p->n_repetitions; }

// Sets m->stop_reason when there are enough samples, or no more may be taken. *next_look: the sample of the next test.
static sm_status look_at_samples(measurement *m, int64_t *next_look) {
    const sm_protocol *p = m->protocol;
    const int64_t n = m->row->samples_ns.n;
    double seconds = (double)(sm_now_ns() - m->before.time_ns) / 1e9;
    bool is_precise = false; // as narrow an interval of the median as requested
    if (p->max_noise_percent > 0 && n >= p->min_samples && seconds >= p->min_time_s && n >= *next_look) {
        const sm_stats stats = sm_stats_of(m->row->samples_ns.values, n);
        is_precise = sm_steady_noise_percent(&stats) <= p->max_noise_percent;
        *next_look = n + 1 + n / 8;
    }
    const bool is_open = p->max_noise_percent > 0; // how many samples there will be
    m->stop_reason = is_precise                                                          ? "noise"
                     : is_open && p->max_time_s > 0 && seconds >= p->max_time_s && n > 0 ? "time"
                     : n >= max_samples(p) ? (is_open ? "samples" : "repetitions")
                                           : NULL;
    bool ends = m->stop_reason != NULL;
    SM_TRY(decide(m, &ends));
    m->stop_reason = !ends ? NULL : m->stop_reason != NULL ? m->stop_reason : "process 0";
    return SM_OK;
}

// --- own code ------------------------------------------------------------------------------------

// False in a loop, whose steps come from its loader.
static bool has_own_code(const measurement *m) {
    return m->session->device->info.own_kernels[0] != '\0' && m->stepper.workload->run_step == NULL;
}

// Draws it from the last third of the samples that there will be at least.
static void draw_late_check(measurement *m) {
    const sm_protocol *p = m->protocol;
    const int64_t n = p->max_noise_percent > 0 ? p->min_samples : p->n_repetitions;
    const int64_t first = 2 * n / 3;
    const uint32_t drawn = sm_philox4x32(p->check_seed, 0, 4).word[0];
    const bool is_checked = has_own_code(m) && (m->stepper.phases & SM_RUN_BACKWARD) != 0;
    m->late_check = is_checked ? first + drawn % (n - first) : -1;
}

// A kernel may compute less once it has run for a while, in a way that each op's inputs agree with.
static sm_status check_gradients_late(measurement *m) {
    sm_reading from, to;
    int64_t elapsed_ns = 0;
    double loss = NAN;
    bool is_kept;
    sm_sensors_read(m->sensors, &from);
    SM_TRY(sm_step_keep(&m->stepper, m->row, &is_kept)); // as before two of three samples
    SM_TRY(sm_step_check_gradients(&m->stepper, m->row, &elapsed_ns, &loss));
    sm_step_forget(&m->stepper);
    m->row->checks_ns += elapsed_ns;
    sm_sensors_read(m->sensors, &to);
    sm_sensors_leave_out(&m->before, &from, &to);
    keep_loss(m->row, loss);
    m->late_check = -1;
    return SM_OK;
}

// --- steps that are made again ------------------------------------------------------------------

// Draws the next sample to repeat: at first one of the early samples, but not the very first, since the update before a
// step is checked too; then each time at most twice as far ahead, so that long passes cost little more than short ones.
// A short pass with long steps repeats only one. Of own code, which may be wrong in the steps that its median is of and
// right in others, every second sample is repeated, each by a draw of its own.
static void draw_repeat(measurement *m) {
    static const double much_flops = 2e10;
    const uint32_t drawn = sm_philox4x32(m->protocol->check_seed, (uint64_t)m->n_draws, 2).word[0];
    const int64_t n = max_samples(m->protocol) - 1;
    const bool is_slow = sm_pass_flops(m->session->plan, m->protocol->pass, m->protocol->n_accum) > much_flops;
    const int64_t reach = m->n_draws > 0 ? 2 * (m->next_repeat + 4) : n < 1 ? 1 : n < 5 ? n : 5;
    if (has_own_code(m) && n > 0) {
        m->next_repeat += 1 + __builtin_ctz(drawn | 1 << 8) % reach; // 1 for half of the numbers, 2 for a quarter, ...
    } else {
        m->next_repeat += (m->n_draws == 0 ? n > 0 : is_slow ? 16 : 2) + drawn % reach;
    }
    m->n_draws++;
}

static int64_t largest(int64_t a, int64_t b) { return a > b ? a : b; }

// The copy of the weights does not count as the step's memory.
static void count_memory(measurement *m) {
    m->row->peak_rss_bytes = largest(m->row->peak_rss_bytes, sm_machine_peak_rss_bytes());
}

// The loader made batches ahead meanwhile: uncounted steps use them up.
static sm_status settle(measurement *m) {
    const sm_workload *w = m->stepper.workload;
    int64_t n = 0;
    if (w->is_settled == NULL) {
        return SM_OK;
    }
    bool ends = false;
    while (!ends) {
        int64_t elapsed_ns;
        SM_TRY(run_step(m, NULL, &elapsed_ns));
        n++;
        ends = n >= MAX_AUTO_WARMUP || w->is_settled(w->loop);
        SM_TRY(decide(m, &ends));
    }
    w->forget(w->loop, n);
    return SM_OK;
}

static int64_t steps_made(const measurement *m) { return m->stepper.n_steps + m->n_repeated; }

// Before a sample whose update is checked. *is_kept: its step can be repeated, or looks as if it were.
static sm_status before_sample(measurement *m, bool repeats, bool looks_checked, bool *is_kept) {
    count_memory(m);
    SM_TRY(sm_step_before_update(&m->stepper, m->row));
    if (!repeats && !looks_checked) {
        return SM_OK;
    }
    SM_TRY(sm_step_keep(&m->stepper, m->row, is_kept));
    if (!*is_kept && repeats && m->n_repeated == 0) {
        snprintf(m->row->repeat_check, sizeof m->row->repeat_check, "no step was made again: %s", sm_error_message());
    }
    return SM_OK;
}

static sm_status after_sample(measurement *m, bool repeats, bool is_kept) {
    char *told = m->row->repeat_check;
    SM_TRY(sm_step_after_update(&m->stepper, m->row));
    if (is_kept && !repeats) {
        sm_step_forget(&m->stepper);
    } else if (is_kept) {
        m->repeated_at = steps_made(m);
        SM_TRY(sm_step_repeat(&m->stepper, m->row));
        SM_TRY(settle(m));
        const size_t used = m->n_repeated == 0 ? 0 : strlen(told);
        const size_t left = sizeof m->row->repeat_check - used;
        if (left > ROOM_OF_A_NUMBER) {
            snprintf(told + used, left, "%s %lld", m->n_repeated == 0 ? "repeated, with identical bits: samples" : ",",
                     (long long)m->next_repeat + 1);
        } else if (strcmp(told + used - 3, "...") != 0) {
            snprintf(told + used, left, ", ...");
        }
    }
    sm_machine_reset_peak_rss();
    return SM_OK;
}

// Takes a sample; if it is drawn, repeats its step afterwards. The checks, and their copy of the weights, do not count,
// not even in the sensors. Own code may notice the time and the copies before a step that is checked. So they come
// before two of three samples, drawn, and code that computes only then has an honest median.
static sm_status take_sample(measurement *m, int64_t *sample_ns) {
    const int64_t n = m->row->samples_ns.n;
    const uint32_t left_out = sm_philox4x32(m->protocol->check_seed, (uint64_t)(n / 3), 3).word[0] % 3;
    const bool looks_checked = has_own_code(m) && n % 3 != left_out;
    const bool repeats = n == m->next_repeat;
    const bool has_update = // that is checked
        sm_plan_is_step(m->session->plan) && (repeats || looks_checked || n + 1 == m->next_repeat);
    bool is_kept = false;
    sm_reading from, to;
    if (has_update) {
        sm_sensors_read(m->sensors, &from);
        SM_TRY(before_sample(m, repeats, looks_checked, &is_kept));
        sm_sensors_read(m->sensors, &to);
        sm_sensors_leave_out(&m->before, &from, &to);
    }
    SM_TRY(sm_pass_is_op_time(m->protocol->pass) ? sample_ops(m, sample_ns) : run_step(m, NULL, sample_ns));
    if (has_update) {
        sm_sensors_read(m->sensors, &from);
        SM_TRY(after_sample(m, repeats, is_kept));
        sm_sensors_read(m->sensors, &to);
        sm_sensors_leave_out(&m->before, &from, &to);
    }
    if (repeats) {
        m->n_repeated += is_kept;
        draw_repeat(m);
    }
    return SM_OK;
}

static sm_status headline(measurement *m) {
    const sm_protocol *p = m->protocol;
    sm_integers *samples = &m->row->samples_ns;
    int64_t next_look = 0;
    draw_repeat(m);
    draw_late_check(m);
    while (m->stop_reason == NULL) {
        int64_t sample_ns = 0;
        SM_TRY(may_continue(m, SM_STAGE_HEADLINE, (int)samples->n, max_samples(p)));
        SM_TRY(samples->n == m->late_check ? check_gradients_late(m) : SM_OK);
        SM_TRY(take_sample(m, &sample_ns));
        samples->values[samples->n++] = sample_ns;
        SM_TRY(look_at_samples(m, &next_look));
    }
    return samples->n <= m->late_check ? check_gradients_late(m) : SM_OK; // time may end the samples before it
}

// The headline pass between two readings of the sensors, also if it is cut short.
static sm_status watched_headline(measurement *m) {
    const sm_integers *samples = &m->row->samples_ns;
    sm_sensors_read(m->sensors, &m->before);
    const sm_status status = headline(m);
    sm_sensors_read(m->sensors, &m->after);
    int64_t outside_ns = m->after.time_ns - m->before.time_ns; // of the samples; unknown if these are sums of op times
    for (int64_t i = 0; i < samples->n; i++) {
        outside_ns -= samples->values[i];
    }
    if (samples->n > 0 && !sm_pass_is_op_time(m->protocol->pass)) {
        m->row->harness_ns = outside_ns / samples->n;
    }
    return m->session->plan->scaler != SM_NO_TENSOR && status == SM_OK
               ? sm_session_skipped(m->session, &m->row->n_skipped)
               : status;
}

// One more checked step after the last sample, with other sequences and other ops. It comes an odd number of steps
// after the last repeated sample: a kernel may compute in every second step alone, and leave in the others what the
// step before left. A repeated step then differs only where the kernel left out the sample; this check finds the rest.
static sm_status last_check(measurement *m, int64_t *op_ns, int64_t *elapsed_ns) {
    double loss = NAN;
    const int64_t n_losses = m->row->losses.n;
    if (m->n_repeated > 0 && (steps_made(m) - m->repeated_at) % 2 != 0) {
        SM_TRY(run_step(m, NULL, elapsed_ns));
        sm_step_count_checks(m->row, *elapsed_ns);
        if (m->stepper.workload->forget != NULL) { // a loop's headline ends with the last sample
            m->stepper.workload->forget(m->stepper.workload->loop, 1);
        }
    }
    count_memory(m);
    SM_TRY(sm_step_check(&m->stepper, m->row, op_ns, elapsed_ns, &loss));
    sm_machine_reset_peak_rss();
    keep_loss(m->row, loss);
    SM_TRY(sm_judge_losses(m->row));
    if (m->stepper.workload->run_step != NULL) {
        m->row->losses.n = n_losses; // a loop runs until its loader settles, so this step's number varies
    }
    m->is_checked = true;
    return SM_OK;
}

// The last check is the last of these steps, except in a loop, which has its own step.
static sm_status attribute(measurement *m) {
    const sm_plan *plan = m->session->plan;
    const int total = m->protocol->n_attribution;
    sm_op_parts *parts = m->session->executable->parts;
    if (parts != NULL) {
        memset(parts, 0, (size_t)plan->n_ops * sizeof *parts);
    }
    for (int i = 0; i < total; i++) {
        int64_t *op_ns = m->op_ns + (size_t)i * (size_t)plan->n_ops;
        const bool checks = i + 1 == total && m->stepper.workload->run_step == NULL;
        SM_TRY(may_continue(m, SM_STAGE_ATTRIBUTION, i, total));
        memset(op_ns, 0, (size_t)plan->n_ops * sizeof(*op_ns));
        SM_TRY((checks ? last_check : run_step)(m, op_ns, &m->walls_ns[i]));
        m->n_walls++;
    }
    return SM_OK;
}

// --- the whole -----------------------------------------------------------------------------

static bool is_cut(sm_status status) { return status == SM_ERR_TIMEOUT || status == SM_ERR_INTERRUPTED; }

static sm_status check_protocol(const sm_protocol *p, const sm_plan *plan) {
    SM_FAIL_IF(p->n_repetitions < 1 || p->n_warmup < SM_WARMUP_AUTO || p->n_attribution < 0 || p->n_accum < 1,
               SM_ERR_INVALID,
               "protocol: %d repetitions, %d warm-up steps, %d attribution steps, %d micro-batches a step: at least 1, "
               "0, 0 and 1 are needed",
               p->n_repetitions, p->n_warmup, p->n_attribution, p->n_accum);
    SM_FAIL_IF(!(p->timeout_s >= 0), SM_ERR_INVALID, "protocol: timeout %g s: it may not be negative", p->timeout_s);
    SM_FAIL_IF(!(p->max_noise_percent >= 0 && p->min_time_s >= 0 && p->max_time_s >= 0) ||
                   (p->max_noise_percent > 0 && (p->min_samples < 1 || p->max_samples < p->min_samples)),
               SM_ERR_INVALID,
               "protocol: %g%% of noise by %d to %d samples in %g to %g s: a limit is negative, or the least is more "
               "than the most",
               p->max_noise_percent, p->min_samples, p->max_samples, p->min_time_s, p->max_time_s);
    for (int phase = 0; phase < SM_PHASE_COUNT; phase++) {
        bool wanted = sm_pass_phases(p->pass) & (1u << phase);
        sm_range range = sm_plan_range(plan, (sm_phase)phase);
        // Zeroing may have been rewritten away; the pass needs the others.
        SM_FAIL_IF(wanted && phase != SM_PHASE_ZERO_GRAD && range.first == range.end, SM_ERR_INVALID,
                   "pass type %s: the plan has no %s", sm_pass_name(p->pass), sm_phase_name((sm_phase)phase));
    }
    return SM_OK;
}

// Allocates everything that the measured steps write to.
static sm_status allocate(measurement *m) {
    const sm_protocol *p = m->protocol;
    sm_row *row = m->row;
    const size_t n_samples = (size_t)max_samples(p);
    const size_t n_ops = (size_t)m->session->plan->n_ops;
    const size_t n_steps = p->n_attribution > 0 ? (size_t)p->n_attribution : 1;
    SM_FAIL_IF(n_ops > 0 && n_steps > SIZE_MAX / sizeof(int64_t) / n_ops, SM_ERR_OOM,
               "protocol: %zu attribution steps of %zu ops are too many", n_steps, n_ops);
    row->samples_ns.values = sm_calloc(n_samples, sizeof(int64_t));
    row->warmup_samples_ns.values = sm_calloc((size_t)max_warmup(p, m->stepper.workload) + 2, sizeof(int64_t));
    m->walls_ns = sm_calloc(n_steps, sizeof(*m->walls_ns));
    m->op_ns = sm_calloc(n_steps * n_ops + 1, sizeof(*m->op_ns));
    if (p->pass == SM_PASS_SEPARATE) {
        row->samples_forward_ns.values = sm_calloc(n_samples, sizeof(int64_t));
        row->samples_backward_ns.values = sm_calloc(n_samples, sizeof(int64_t));
    }
    return SM_OK;
}

// All stages up to the samples. Memory's peak is counted after the check, which may run a reference in this process.
static sm_status take_samples(measurement *m) {
    const sm_protocol *p = m->protocol;
    SM_TRY(check_protocol(p, m->session->plan));
    SM_TRY(allocate(m));
    sm_sensors_open("", m->row->gpu_info, &m->sensors);
    const double deadline = (double)(p->begin_ns > 0 ? p->begin_ns : sm_now_ns()) + p->timeout_s * 1e9;
    if (p->timeout_s > 0 && deadline < 9e18) {
        m->deadline_ns = (int64_t)deadline;
        m->grace_ns = least_grace_ns;
        m->session->executable->deadline_ns = m->deadline_ns + m->grace_ns;
    }
    if (SM_TEST_SLOWDOWN > 0) {
        sm_row_warn(m->row, "a build for tests: every step is made %g%% longer", 100 * SM_TEST_SLOWDOWN);
    }
    // The first step, and the first that is checked in pieces, which is a warm-up step if there are any.
    sm_row *row = m->row;
    SM_TRY(may_continue(m, SM_STAGE_FIRST_STEP, 0, 1));
    SM_TRY(run_step(m, NULL, &row->first_step_ns));
    row->loss = row->losses.n > 0 ? row->losses.values[0] : NAN;
    SM_TRY(may_continue(m, SM_STAGE_CHECK, 0, 1));
    SM_TRY(run_step(m, NULL, &row->warmup_samples_ns.values[1]));
    if (m->protocol->n_warmup == 0) {
        sm_step_count_checks(m->row, row->warmup_samples_ns.values[1]);
    }
    sm_machine_reset_peak_rss();
    SM_TRY(warm_up(m));
    return watched_headline(m);
}

// The samples are complete; the attribution pass can only add to them, or find a fault.
static sm_status take_phases(measurement *m) {
    const sm_op_parts *parts = m->session->executable->parts;
    const size_t size_bytes = (size_t)m->session->plan->n_ops * sizeof *parts;
    sm_status status = attribute(m);
    SM_TRY(is_cut(status) ? SM_OK : status);
    if (status != SM_OK) {
        sm_row_warn(m->row, "attribution pass cut short: %s", sm_error_message());
    }
    sm_pass_attribute(m->row, m->session->plan, m->walls_ns, m->op_ns, m->n_walls);
    if (parts != NULL && m->n_walls > 0) {
        free(m->row->op_parts);
        m->row->op_parts = sm_malloc(size_bytes + 1);
        memcpy(m->row->op_parts, parts, size_bytes);
    }
    return status == SM_ERR_INTERRUPTED ? status : SM_OK;
}

static const char *stop_reason(const measurement *m, sm_status status) {
    return status == SM_OK                ? m->stop_reason
           : status == SM_ERR_TIMEOUT     ? "timeout"
           : status == SM_ERR_INTERRUPTED ? "interrupted"
                                          : "";
}

// After the limit, too: the checks then have as long again as all checks before them took, with their steps.
static sm_status check_what_is_left(measurement *m, sm_status status) {
    int64_t elapsed_ns = 0;
    if (m->is_checked || !(status == SM_OK || (is_cut(status) && m->row->samples_ns.n > 0))) {
        return status;
    }
    char reason[SM_ROW_REASON_SIZE];
    SM_ROW_TEXT(reason, sm_error_message());
    if (m->deadline_ns != INT64_MAX) {
        m->session->executable->deadline_ns =
            largest(sm_now_ns(), m->deadline_ns) + 3 * m->grace_ns + largest(m->row->checks_ns, 0);
    }
    if (m->protocol->progress != NULL) {
        m->protocol->progress(m->protocol->progress_ctx, SM_STAGE_LAST_CHECK, 0, 1);
    }
    const sm_reading before = m->before; // the sensors' span has ended
    SM_TRY(m->row->samples_ns.n <= m->late_check ? check_gradients_late(m) : SM_OK);
    m->before = before;
    const sm_status checked = last_check(m, NULL, &elapsed_ns);
    sm_step_count_checks(m->row, elapsed_ns);
    return checked == SM_OK && status != SM_OK ? sm_fail(status, "%s", reason) : checked;
}

static void conclude(measurement *m, sm_status status) {
    sm_row *row = m->row;
    SM_ROW_TEXT(row->stop_reason, stop_reason(m, status));
    if (status != SM_OK) {
        sm_row_fail(row, status);
    }
    if (status != SM_OK && (!is_cut(status) || (row->samples_ns.n > 0 && !m->is_checked))) {
        sm_row_clear_speed(row); // no figure without its last check
        return;
    }
    if (status == SM_OK || (status == SM_ERR_INTERRUPTED && row->samples_ns.n > 0)) {
        SM_ROW_TEXT(row->status, "ok");
    }
    if (row->samples_ns.n > 0) {
        sm_sensors_report(m->sensors, &m->before, &m->after, row->samples_ns.n,
                          sm_pass_tokens(m->session->plan, m->protocol->n_accum), row);
    }
    sm_pass_summarize(row, m->session->plan, m->protocol->pass, m->protocol->n_accum);
}

sm_status sm_harness_measure(sm_session *session, const sm_protocol *protocol, const sm_workload *workload,
                             sm_row *row) {
    measurement m = {.session = session, .protocol = protocol, .row = row, .deadline_ns = INT64_MAX};
    m.stepper = (sm_stepper){.session = session,
                             .workload = workload,
                             .phases = sm_pass_phases(protocol->pass),
                             .n_accum = protocol->n_accum,
                             .check_seed = protocol->check_seed};
    sm_row_set_test(row, protocol->pass, session->plan->B, session->plan->T, protocol->n_accum);
    row->model_n_params = sm_plan_is_step(session->plan) ? session->plan->n_params : SM_ABSENT;
    row->device_peak_bytes = (int64_t)session->executable->memory_bytes;
    row->estimated_bytes = (int64_t)sm_session_memory(session->device, session->plan);
    sm_row_set_device(row, session->device->backend->name, &session->device->info);
    row->check_seed = (int64_t)protocol->check_seed;
    sm_status status = take_samples(&m);
    status = status == SM_OK ? take_phases(&m) : status;
    count_memory(&m);
    status = check_what_is_left(&m, status);
    conclude(&m, status);
    sm_stepper_close(&m.stepper);
    sm_sensors_close(m.sensors);
    free(m.walls_ns);
    free(m.op_ns);
    return status;
}
