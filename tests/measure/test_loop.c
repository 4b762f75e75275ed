// test_loop.c: a training loop under the harness: its phases add up, its bottleneck and its changes are found.
#include "tests/support/session.h"
#include "clock.h"
#include "tests/support/fake_backend.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temp_folder.h"
#include "bench/loop/loop.h"

// --- the recorder --------------------------------------------------------------------------------------

typedef struct {
    int64_t op_ns[8], lapped_ns[8];
    sm_step_phases phases;
} recorder;

TEST(phases_add_up) {
    static recorder r;
    SM_OWN(sm_plan) *plan = make_plan();
    r = (recorder){.op_ns = {99}, .phases = {.op_ns = r.op_ns, .lapped_ns = r.lapped_ns}};
    sm_step_phases *p = &r.phases;
    sm_phases_begin(p, plan);
    assert_int_equal(r.op_ns[0], 0);
    spin_ns(1000000);
    sm_phases_add(p, SM_STEP_READ, 300000);
    sm_phases_lap(p, SM_STEP_COLLATE);
    for (int i = 0; i < plan->n_ops; i++) {
        r.op_ns[i] += 1000 * (i + 1);
    }
    spin_ns(1000000);
    sm_phases_lap_ops(p, plan);
    sm_phases_lap_ops(p, plan); // none ran since
    sm_phases_end(p);
    assert_int_equal(p->ns[SM_STEP_READ], 300000);
    assert_true(p->ns[SM_STEP_COLLATE] >= 700000);
    assert_int_equal(p->ns[SM_STEP_ZERO_GRAD], 1000);
    assert_int_equal(p->ns[SM_STEP_FORWARD], 2000 + 4000);
    assert_int_equal(p->ns[SM_STEP_BACKWARD], 3000 + 5000);
    assert_int_equal(p->ns[SM_STEP_UPDATE], 6000);
    assert_true(p->ns[SM_STEP_LAUNCH] >= 1000000 - 21000);
    int64_t sum_ns = 0;
    for (int phase = 0; phase < SM_STEP_PHASE_COUNT; phase++) {
        sum_ns += p->ns[phase];
    }
    assert_int_equal(sum_ns, p->wall_ns);
    assert_int_equal(p->spans[0].begin_ns, p->begin_ns);
    assert_int_equal(p->spans[p->n_spans - 1].end_ns, p->begin_ns + p->wall_ns);
}

// In a trace of two micro-batches and an update, ops take the time that they took.
TEST(a_trace_shares_ops_among_micro_batches) {
    SM_OWN(sm_plan) *plan = make_plan();
    sm_session session = {.plan = plan};
    const sm_train_step step = {.step = 1, .load = {.thread = -1}};
    sm_loop *loop =
        sm_loop_open(&(sm_loop_settings){.stepper = {.session = &session}, .loader = "inline", .n_attribution = 1});
    sm_step_phases *p = sm_loop_time_apart(loop);
    for (p->n_spans = 0; p->n_spans < 3; p->n_spans++) {
        p->spans[p->n_spans] = (sm_step_span){SM_STEP_LAUNCH, 100000 * p->n_spans, 100000 * (p->n_spans + 1)};
    }
    for (int i = 0; i < plan->n_ops; i++) {
        p->op_ns[i] = 2000;
    }
    sm_loop_keep(loop, &step, p);
    json_auto_t *trace = sm_loop_trace(loop, plan, "cpu_op", "a device");
    double sum_us = 0;
    SM_EACH(event, json_object_get(trace, "traceEvents")) {
        const json_t *of_op = json_object_get(json_object_get(event, "args"), "op");
        sum_us += of_op != NULL ? json_number_value(json_object_get(event, "dur")) : 0;
    }
    sm_loop_close(loop);
    assert_true(fabs(sum_us - 2 * plan->n_ops) < 1e-6);
}

TEST(no_recorder_is_fine) {
    sm_phases_begin(NULL, NULL);
    sm_phases_add(NULL, SM_STEP_READ, 1);
    sm_phases_lap(NULL, SM_STEP_READ);
    sm_phases_lap_ops(NULL, NULL);
    sm_phases_end(NULL);
    assert_null(sm_phases_op_times(NULL));
}

// --- what bounds a loop ----------------------------------------------------------------------------------

TEST(what_gains_most_bounds) {
    static const struct {
        const char *what;
        sm_loop_division division; // compute, memory, launches, input, communication
        sm_loop_bound bound;
        double without_ns;
    } cases[] = {
        {"arithmetic", {100, 0, {70, 20, 1, 2, 0}, {50, 10, 1, 2, 0}, true}, SM_LOOP_COMPUTE, 50},
        {"memory", {100, 0, {20, 70, 1, 2, 0}, {10, 60, 1, 2, 0}, true}, SM_LOOP_MEMORY, 40},
        {"launches", {100, 0, {20, 20, 55, 2, 0}, {10, 10, 55, 2, 0}, true}, SM_LOOP_LAUNCHES, 45},
        {"other processes", {100, 0, {40, 10, 0, 0, 50}, {30, 5, 0, 0, 50}, true}, SM_LOOP_COMMUNICATION, 50},
        {"inline input", {100, 0, {30, 10, 0, 60, 0}, {20, 5, 0, 60, 0}, true}, SM_LOOP_INPUT, 40},
        {"a loader half as fast", {100, 100, {50, 0, 0, 50, 0}, {50, 0, 0, 50, 0}, true}, SM_LOOP_INPUT, 50},
        {"a loader a little slower", {100, 100, {97, 0, 0, 3, 0}, {90, 0, 0, 3, 0}, true}, SM_LOOP_INPUT, 97},
        {"a loader a little faster", {100, 90, {97, 0, 0, 3, 0}, {80, 0, 0, 3, 0}, true}, SM_LOOP_COMPUTE, 90},
        {"no ceilings, much input", {100, 100, {0, 0, 0, 60, 0}, {0, 0, 0, 60, 0}, false}, SM_LOOP_INPUT, 40},
        {"no ceilings", {100, 0, {0, 0, 90, 30, 0}, {0, 0, 90, 30, 0}, false}, SM_LOOP_BOUND_COUNT, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const sm_loop_bound bound = sm_loop_judge(&cases[i].division);
        FAIL_IF(bound != cases[i].bound, "%s: bound %d, not %d", cases[i].what, (int)bound, (int)cases[i].bound);
        if (bound != SM_LOOP_BOUND_COUNT) {
            assert_true(fabs(sm_loop_without_ns(&cases[i].division, bound) - cases[i].without_ns) < 1e-9);
        }
    }
}

TEST(something_always_is_left) {
    const sm_loop_division all = {.step_ns = 100, .gained_ns = {[SM_LOOP_INPUT] = 130}, .knows_ops = true};
    assert_true(sm_loop_without_ns(&all, SM_LOOP_INPUT) > 0);
}

// --- a loop --------------------------------------------------------------------------------------------

enum { N_ATTRIBUTION = 6, N_TOKENS = 4096 };

// The least of the steps timed apart.
static int64_t least_ns[SM_STEP_PHASE_COUNT];

// The loader's times of a step are in the phases that they belong to.
static void look_at_steps(const sm_loop *loop) {
    int n;
    const sm_loop_step *steps = sm_loop_steps(loop, &n);
    assert_int_equal(n, N_ATTRIBUTION);
    for (int i = 0; i < n; i++) {
        const int64_t *ns = steps[i].phases.ns;
        const sm_load *load = &steps[i].step.load;
        int64_t sum_ns = 0;
        for (int phase = 0; phase < SM_STEP_PHASE_COUNT; phase++) {
            least_ns[phase] = least_ns[phase] == 0 || ns[phase] < least_ns[phase] ? ns[phase] : least_ns[phase];
            sum_ns += ns[phase];
        }
        assert_int_equal(sum_ns, steps[i].phases.wall_ns);
        assert_int_equal(ns[SM_STEP_READ], load->thread < 0 ? load->cost.read_ns : 0);
        assert_int_equal(ns[SM_STEP_TOKENISE], load->thread < 0 ? load->cost.tokenise_ns : 0);
        assert_true(load->thread < 0 ? ns[SM_STEP_COLLATE] >= load->cost.collate_ns : ns[SM_STEP_COLLATE] == 0);
        assert_true(load->thread < 0 ? ns[SM_STEP_WAIT] == 0 : ns[SM_STEP_WAIT] >= load->waited_ns);
    }
}

// Measures a loop over a few tokens with the fake backend, whose steps take step_ms, and such a loader.
static void measure_loop(const sm_loader_settings *loader, int step_ms, sm_row *row) {
    static unsigned char text[N_TOKENS];
    SM_OWN(sm_tokens) *tokens = NULL;
    SM_OWN(sm_session) *session = NULL;
    SM_OWN(sm_loader) *opened = NULL;
    fake.ms_of_step = step_ms;
    assert_int_equal(sm_tokens_from_bytes(text, N_TOKENS, 16, &tokens), SM_OK);
    assert_int_equal(sm_session_open(&fake_device, make_plan(), &session), SM_OK);
    const sm_load_share share = {
        .tokens = tokens, .order = {.n_sequences = N_TOKENS / T - 1}, .B = B, .T = T, .stride = B, .n = B};
    assert_int_equal(sm_loader_open(loader, &share, SM_CHECKED_STEPS + 1, &opened), SM_OK);
    const sm_workload checks = {.next_batch = fake_next_batch, .check = fake_check, FAKE_CHECKS};
    const sm_loop_settings settings = {
        .workload = &checks,
        .stepper = {.session = session,
                    .loader = opened,
                    .data_name = "zeros",
                    .share = &share,
                    .schedule = {.lr = 1e-3, .n_steps = INT64_MAX},
                    .global_batch = B,
                    .n_accum = 1},
        .loader = loader->kind == SM_LOADER_INLINE ? "inline" : "threads:1",
        .n_loader_threads = loader->kind == SM_LOADER_INLINE ? 0 : loader->n_threads,
        .n_attribution = N_ATTRIBUTION,
    };
    sm_loop *loop = sm_loop_open(&settings);
    sm_protocol protocol = sm_protocol_default();
    protocol.n_warmup = 1;
    protocol.n_repetitions = 6;
    protocol.n_attribution = N_ATTRIBUTION;
    const sm_workload steps = sm_loop_workload(loop);
    sm_row_init(row);
    row->peak_flops = 1e3; // ops of the fake are bound by arithmetic
    row->peak_bandwidth = 1e12;
    assert_int_equal(sm_harness_measure(session, &protocol, &steps, row), SM_OK);
    assert_int_equal(sm_loop_report(loop, row), SM_OK);
    look_at_steps(loop);
    sm_loop_close(loop);
}

static int reset_fake(void **state) {
    memset(least_ns, 0, sizeof(least_ns));
    return fake_reset(state);
}

static int64_t sum_of_phases(const sm_row *row) {
    int64_t sum_ns = 0;
#define X(code, member, name, text) sum_ns += row->loop.member##_ns;
    SM_STEP_PHASE_LIST(X)
#undef X
    return sum_ns;
}

static bool is_near(double value, double expected, double tolerance) {
    return fabs(value - expected) <= tolerance * expected;
}

TEST_WITH(inline_parts_are_in_their_phases, reset_fake, NULL) {
    const sm_loader_settings loader = {.kind = SM_LOADER_INLINE,
                                       .delay = {.read_ns = 12000000, .tokenise_ns = 16000000, .collate_ns = 10000000}};
    SM_AT_END(sm_row_free) sm_row row;
    has_fake_clock = true;
    measure_loop(&loader, 10, &row);
    has_fake_clock = false;
    assert_int_equal(sum_of_phases(&row), row.loop.wall_ns);
    assert_int_equal(row.loop.wait_ns, 0);
    assert_int_equal(row.loop.busy_ns, SM_ABSENT);
    assert_string_equal(row.loop.bound, "input");
    assert_true(is_near((double)least_ns[SM_STEP_READ], 12e6, 0.01));
    assert_true(is_near((double)least_ns[SM_STEP_TOKENISE], 16e6, 0.01));
    assert_true(is_near((double)least_ns[SM_STEP_COLLATE], 10e6, 0.01));
    assert_true((double)row.loop.unaccounted_ns < 0.01 * (double)row.loop.wall_ns);
    assert_true(is_near(row.loop.ceiling_ts, B * T / 10e-3, 0.02));
}

// Threads need the machine's clock, and a busy machine wakes sleepers some milliseconds late: each of these has several
// tries, in which everything takes longer and longer.
static const int times_as_long[] = {1, 1, 1, 2, 4, 8, 16};
enum { N_TRIES = sizeof(times_as_long) / sizeof(times_as_long[0]) };

// The device takes 30 ms a step, the loader 60, or somewhat more. The loop's numbers follow from what both took.
static bool is_bound_by_loader(const sm_row *row, int times) {
    const double wall_ns = (double)row->loop.wall_ns;
    const double wait_ns = (double)row->loop.wait_ns;
    const double busy_ns = (double)row->loop.busy_ns;
    const double device_ns = wall_ns - wait_ns;
    return strcmp(row->loop.bound, "input") == 0 && busy_ns >= 60e6 * times && is_near(busy_ns, 60e6 * times, 0.1) &&
           device_ns >= 30e6 * times && is_near(device_ns, 30e6 * times, 0.1) && is_near(wall_ns, busy_ns, 0.03) &&
           is_near(row->loop.bound_share, wait_ns / wall_ns, 0.05) &&
           is_near(row->loop.ceiling_ts, B * T * 1e9 / device_ns, 0.05);
}

TEST_WITH(a_slow_loader_is_the_bound, reset_fake, NULL) {
    bool is_right = false;
    for (int i = 0; i < N_TRIES && !is_right; i++) {
        const int times = times_as_long[i];
        const sm_loader_settings loader = {.kind = SM_LOADER_THREADS,
                                           .n_threads = 1,
                                           .queue_depth = 1,
                                           .delay = {.tokenise_ns = (int64_t)60000000 * times}};
        SM_AT_END(sm_row_free) sm_row row;
        measure_loop(&loader, 30 * times, &row);
        assert_int_equal(sum_of_phases(&row), row.loop.wall_ns);
        is_right = is_bound_by_loader(&row, times);
        FAIL_IF(i + 1 == N_TRIES && !is_right, "%d times as long: wait %.2f of %.2f ms, the loader busy for %.2f: %s",
                times, 1e-6 * (double)row.loop.wait_ns, 1e-6 * (double)row.loop.wall_ns,
                1e-6 * (double)row.loop.busy_ns, row.loop.verdict);
    }
}

TEST_WITH(a_fast_loader_is_not, reset_fake, NULL) {
    bool is_right = false;
    for (int i = 0; i < N_TRIES && !is_right; i++) {
        const int times = times_as_long[i];
        const sm_loader_settings loader = {
            .kind = SM_LOADER_THREADS, .n_threads = 2, .delay = {.read_ns = (int64_t)2000000 * times}};
        SM_AT_END(sm_row_free) sm_row row;
        measure_loop(&loader, 10 * times, &row);
        assert_int_equal(sum_of_phases(&row), row.loop.wall_ns);
        is_right = strcmp(row.loop.bound, "compute") == 0 &&
                   (double)row.loop.wait_ns < 0.02 * (double)row.loop.wall_ns && row.loop.n_ready > 0.9;
        FAIL_IF(i + 1 == N_TRIES && !is_right, "wait %.2f of %.2f ms, %.1f ready: %s", 1e-6 * (double)row.loop.wait_ns,
                1e-6 * (double)row.loop.wall_ns, row.loop.n_ready, row.loop.verdict);
    }
}

static const sm_loader_settings one_thread = {.kind = SM_LOADER_THREADS, .n_threads = 1};

// Only the attribution steps time ops.
TEST_WITH(the_headline_is_undisturbed, reset_fake, NULL) {
    SM_AT_END(sm_row_free) sm_row row;
    measure_loop(&one_thread, 0, &row);
    assert_int_equal(row.n_attribution, N_ATTRIBUTION);
    assert_int_equal(row.loop.n_steps, N_ATTRIBUTION - 2); // the middle half
    assert_int_equal(fake.n_executed[1] - fake.n_untimed[1], N_ATTRIBUTION);
    assert_int_equal(json_array_size(json_object_get(row.loop.samples, "wall")), N_ATTRIBUTION);
}

// Ops and copies that are slower when they are timed take no more of a headline step than there is.
TEST_WITH(shares_are_of_the_headline, reset_fake, NULL) {
    SM_AT_END(sm_row_free) sm_row row;
    fake.op_cost_ns = 1000000; // in steps of some microseconds
    measure_loop(&one_thread, 0, &row);
    assert_true(row.attribution_ns > 0 && row.loop.bound[0] != '\0');
    assert_true(row.loop.bound_share > 0 && row.loop.bound_share <= 1);
    assert_true(row.loop.ceiling_ts >= row.median_ts);
    row.loop.transfer_ns = 1000 * row.median_ns;
    json_decref(row.loop.ceilings);
    SM_OWN(sm_plan) *plan = make_plan();
    assert_int_equal(sm_loop_verdict(plan, (double)row.median_ns, &row), SM_OK);
    assert_string_equal(row.loop.bound, "input");
    assert_true(row.loop.bound_share > 0.9 && row.loop.bound_share <= 1);
}

// Ops that memory bounds would take the time of their arithmetic, here almost none; and the other way round.
TEST_WITH(ops_gain_what_bounds_them, reset_fake, NULL) {
    SM_AT_END(sm_row_free) sm_row row;
    measure_loop(&one_thread, 0, &row);
    SM_OWN(sm_plan) *plan = make_plan();
    for (int i = 0; i < 2; i++) {
        const char *bound = i == 0 ? "memory" : "compute";
        int64_t sum_ns = 0;
        row.peak_flops = i == 0 ? 1e18 : 1e3;
        row.peak_bandwidth = i == 0 ? 1e3 : 1e18;
        for (int k = 0; k < plan->n_ops; k++) { // as fast as the ceiling allows
            row.op_ns.values[k] = i == 0 ? (int64_t)(sm_op_mean_bytes(plan, &plan->ops[k], 1) * 1000000)
                                         : (int64_t)(sm_op_flops(plan, &plan->ops[k]) * 1000000);
            sum_ns += row.op_ns.values[k];
        }
        row.median_ns = row.attribution_ns = sum_ns;
        row.loop.transfer_ns = row.loop.log_ns = row.loop.headline_wait_ns = row.phases.unaccounted_ns = 0;
        json_decref(row.loop.ceilings);
        assert_int_equal(sm_loop_verdict(plan, (double)sum_ns, &row), SM_OK);
        assert_string_equal(row.loop.bound, bound);
        assert_true(row.loop.ceiling_ts > 100 * row.median_ts);
    }
}

// --- against a baseline --------------------------------------------------------------------------------

static json_t *loop_row(double factor) {
    json_t *forward = json_array();
    json_t *wall = json_array();
    for (int i = 0; i < 8; i++) {
        json_array_append_new(forward, json_integer((json_int_t)(factor * (1000000 + 1000 * i))));
        json_array_append_new(wall, json_integer((json_int_t)(factor * 1000000 + 500000 + 1000 * i)));
    }
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:f, s:f, s:o, s:{s:s, s:i, s:i, s:i, s:i, s:{s:o, s:o}}}", "status",
                     "ok", "pass_type", "step", "n_batch", 4, "n_seq", 64, "n_layer", 2, "median_ns", 1.6e6 * factor,
                     "real_tokens", 256.0, "samples_ns", json_pack("[f,f]", 1.6e6 * factor, 1.6e6 * factor), "loop",
                     "loader", "inline", "n_steps", 8, "wall_ns", (int)(factor * 1000000 + 500000), "forward_ns",
                     (int)(factor * 1000000), "wait_ns", 0, "samples", "forward", forward, "wall", wall);
}

TEST(phases_change_against_a_baseline) {
    json_auto_t *now = loop_row(1.2);
    json_auto_t *rows = json_pack("[o, {s:s}, o]", loop_row(3), "status", "skipped", loop_row(1));
    const json_t *baseline = sm_loop_baseline(rows, now);
    assert_ptr_equal(baseline, json_array_get(rows, 2)); // the last loop
    json_auto_t *records = sm_loop_records(now, baseline);
    assert_int_equal(json_array_size(records), 3); // forward, step, undisturbed
    const json_t *forward = json_array_get(records, 0);
    assert_string_equal(json_string_value(json_object_get(forward, "phase")), "forward");
    assert_true(is_near(json_number_value(json_object_get(forward, "change_percent")), 20, 0.05));
    assert_true(json_number_value(json_object_get(forward, "change_lo_percent")) > 15);
    assert_true(json_number_value(json_object_get(forward, "change_hi_percent")) < 25);
    assert_true(is_near(json_number_value(json_object_get(forward, "alone_ts")), 256 / 1.2e-3, 1e-3));

    json_auto_t *alone = sm_loop_records(now, NULL);
    assert_null(json_object_get(json_array_get(alone, 0), "change_percent"));
    json_object_set_new(json_array_get(rows, 2), "n_batch", json_integer(8)); // other work
    assert_ptr_equal(sm_loop_baseline(rows, now), json_array_get(rows, 0));
}

// --- how busy the machine is ---------------------------------------------------------------------------

static void write_stat(int busy, int idle) {
    const char *text =
        textf("cpu  %d 0 0 %d 0 0 0 %d 0 0\ncpu0 %d 0 0 0 0 0 0 %d 0 0\ncpu1 0 0 0 %d 0 0 0 0 0 0\n", busy, idle + busy,
              idle, busy, idle, busy + idle); // the processor that is busy is also stolen
    temp_put_text("proc/stat", text);
}

// Looks that were taken in a headline of that length: at least one where the machine lets the watching thread run.
static json_int_t watch_headline(int headline_ms) {
    const sm_background here = sm_background_here();
    sm_utilisation *u;
    json_auto_t *series = NULL;
    write_stat(100, 100);
    assert_int_equal(sm_utilisation_start(temp_folder, "", &here, 1000000, &u), SM_OK);
    spin_ns(5000000);
    sm_utilisation_enter(u, SM_UTILISATION_HEADLINE);
    write_stat(400, 200);
    nanosleep(&(struct timespec){.tv_nsec = 1000000L * headline_ms}, NULL);
    sm_utilisation_enter(u, SM_UTILISATION_AFTER);
    spin_ns(3000000);
    sm_utilisation_stop(u, &series);
    const json_int_t n_headline = json_integer_value(json_object_get(series, "n_headline"));
    const json_int_t n = json_integer_value(json_object_get(series, "n_warmup")) + n_headline +
                         json_integer_value(json_object_get(series, "n_after"));
    if (n_headline > 0) {
        assert_int_equal(json_array_size(json_object_get(series, "cpu")), n);
        const json_t *processors = json_object_get(series, "processors");
        assert_int_equal(json_array_size(processors), 2);
        assert_true(is_near(json_number_value(json_array_get(processors, 0)), 0.75, 0.01)); // 300 of 400
        assert_true(json_number_value(json_array_get(processors, 1)) == 0);
        assert_null(json_object_get(series, "gpu"));
    }
    sm_utilisation_close(u);
    return n_headline;
}

TEST_WITH(utilisation_is_seen_over_time, temp_folder_make, temp_folder_remove) {
    json_int_t n_headline = 0;
    for (int headline_ms = 20; headline_ms < 1000 && n_headline == 0; headline_ms *= 2) {
        n_headline = watch_headline(headline_ms);
    }
    assert_true(n_headline > 0);
}

// More than there is room for: neighbours become one.
TEST(a_long_series_is_halved) {
    const sm_background here = sm_background_here();
    sm_utilisation *u;
    json_auto_t *series = NULL;
    assert_int_equal(sm_utilisation_start("", "", &here, 20000, &u), SM_OK);
    spin_ns(200000000);
    sm_utilisation_enter(u, SM_UTILISATION_HEADLINE);
    sm_utilisation_stop(u, &series);
    const json_t *rss = json_object_get(series, "rss_bytes");
    const size_t n = (size_t)(json_integer_value(json_object_get(series, "n_warmup")) +
                              json_integer_value(json_object_get(series, "n_headline")) +
                              json_integer_value(json_object_get(series, "n_after")));
    FILE *told = os_open_facts("", "/proc/self/statm");
    assert_true(n > 0 && n <= 1024);
    assert_int_equal(json_array_size(rss), told != NULL ? n : 0);
    if (told != NULL) {
        fclose(told);
    }
    sm_utilisation_close(u);
}

AROUND_ALL(NULL, NULL) // a test makes a folder
