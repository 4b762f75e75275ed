// test_harness.c: the protocol, with a backend that does only what a test tells it.
#define OWN_MAIN
#include "tests/support/session.h"
#include "tests/support/fake_backend.h"
#include "tests/support/fake_clock.h"
#include "bench/rows/machine.h"

// --- a workload ----------------------------------------------------------------------------

enum { N_STEPS = 12 }; // that begin() sets
enum { N_ACCUM = 3 };  // where there is more than one micro-batch: that one is not fed again

static sm_status next_batch(SM_UNUSED void *ctx, sm_session *session, int64_t index) {
    static const int32_t ids[B * T];
    if (fake.is_again) {
        assert_int_equal(index, fake.n_batches - N_ACCUM + fake.n_batches_again++ % N_ACCUM);
        return sm_session_set_batch(session, ids, ids);
    }
    assert_int_equal(index, fake.n_batches);
    fake.n_batches++;
    fake.updates_before_step = fake.n_executed[5];
    if (fake.interrupt_at_step == fake.n_steps) {
        fake.interrupted = 1;
    }
    return sm_session_set_batch(session, ids, ids);
}

static sm_status check(SM_UNUSED void *ctx, SM_UNUSED sm_session *session, int64_t index, SM_UNUSED uint64_t seed,
                       sm_row *row) {
    assert_int_equal(index, fake.n_batches - 1);
    assert_int_equal(fake.n_executed[5], fake.updates_before_step); // the losses are of weights that are still there
    fake.steps_at_check[fake.n_checks++] = fake.n_steps;
    row->loss_reference = 2.5;
    SM_ROW_TEXT(row->loss_check, fake.check_is_mute ? "" : "a constant");
    return fake.check_result == SM_OK
               ? SM_OK
               : sm_fail(fake.check_result, "loss %g, reference %g", row->loss, row->loss_reference);
}

static void progress(void *ctx, SM_UNUSED sm_stage stage, int done, int total) {
    assert_ptr_equal(ctx, &fake);
    assert_true(done < total);
    fake.n_progress++;
}

// --- a test ----------------------------------------------------------------------------------

static sm_protocol p;
static sm_row row; // what was measured last
static bool has_peaks;

// All is well, and as little as possible is measured.
static void begin(sm_pass_type pass) {
    fake_reset(NULL);
    has_peaks = true;
    p = sm_protocol_default();
    p.n_warmup = 2;
    p.n_repetitions = 6;
    p.n_attribution = 3;
    p.pass = pass;
    p.interrupted = &fake.interrupted;
    p.progress = progress;
    p.progress_ctx = &fake;
}

static int begin_steps(SM_UNUSED void **state) {
    begin(SM_PASS_STEP);
    return 0;
}

#define TEST_OF_STEPS(name) TEST_WITH(name, begin_steps, NULL)

// Measures with the fake as the test has set it.
static void measure(sm_status expected) {
    SM_OWN(sm_session) *session = NULL;
    sm_workload workload = {.next_batch = next_batch, .check = check, FAKE_CHECKS};
    sm_backend backend = fake_backend;
    backend.keep_weights = fake.keeps_nothing ? NULL : fake_keep_weights;
    fake_device.backend = &backend;
    assert_int_equal(sm_session_open(&fake_device, make_plan(), &session), SM_OK);
    sm_row_free(&row);
    sm_row_init(&row);
    if (has_peaks) {
        row.peak_flops = row.peak_bandwidth = 1e9;
    }
    assert_int_equal(sm_harness_measure(session, &p, &workload, &row), expected);
}

static void assert_no_speed(void) {
    assert_true(row.samples_ns.n == 0 && row.samples_ts.n == 0 && row.samples_forward_ns.n == 0);
    assert_int_equal(row.median_ns, SM_ABSENT);
    assert_int_equal(row.avg_ns, SM_ABSENT);
    assert_int_equal(row.first_step_ns, SM_ABSENT);
    assert_int_equal(row.warmup_ns, SM_ABSENT);
    assert_int_equal(row.attribution_ns, SM_ABSENT);
    assert_int_equal(row.phases.forward_ns, SM_ABSENT);
    assert_true(isnan(row.avg_ts) && isnan(row.median_ts) && isnan(row.mfu) && isnan(row.step_efficiency));
}

// Measures what is wrong: it has a reason, and no speed.
static void expect_wrong(const char *reason) {
    measure(SM_ERR_MISMATCH);
    assert_string_equal(row.status, "error");
    assert_non_null(strstr(row.reason, reason));
    assert_no_speed();
}

// --- tests ------------------------------------------------------------------------------------

TEST_OF_STEPS(test_step) {
    measure(SM_OK);
    assert_string_equal(row.status, "ok");
    assert_string_equal(row.stop_reason, "repetitions");
    assert_string_equal(row.test, "step b2s2");
    assert_string_equal(row.pass_type, "step");
    assert_string_equal(row.backend_used, "fake");
    assert_string_equal(row.device, "fake:0");
    assert_string_equal(row.loss_check, "a constant");
    assert_int_equal(row.n_threads, 3);
    assert_int_equal(row.model_n_params, N_ELEMS);
    assert_int_equal(row.device_peak_bytes, 12345);
    assert_true(row.estimated_bytes > 1000); // the kernels' own, and the plan's tensors
    assert_true(row.harness_ns >= 0);
    assert_near(row.attribution_percent, 100 * ((double)row.attribution_ns / (double)row.median_ns - 1));
    assert_int_equal(row.samples_ns.n, 6);
    assert_int_equal(row.samples_ts.n, 6);
    assert_int_equal(row.n_warmup, 2);
    assert_true(row.first_step_ns > 0 && row.warmup_ns > 0 && row.peak_rss_bytes > 0);
    assert_near(row.loss, 2.5);
    // One first step, 2 of warm-up (the first of them checked), 6 of the headline, all untimed; 3 of attribution, the
    // last of them checked. Of the headline's, drawn ones are made again, but for their update.
    assert_int_equal(fake.n_steps, N_STEPS);
    assert_int_equal(fake.n_batches, N_STEPS);
    assert_int_equal(fake.n_untimed[5], 9);
    assert_int_equal(fake.n_untimed[1], 9 + fake.n_put_back);
    assert_true(fake.n_put_back >= 1);
    assert_int_equal(fake.n_kept, fake.n_put_back);
    assert_int_equal(fake.n_resumed, fake.n_put_back);
    assert_int_equal(fake.n_checks, 2);
    assert_int_equal(fake.steps_at_check[0], 2);
    assert_int_equal(fake.steps_at_check[1], N_STEPS);
    assert_int_equal(fake.n_progress, 1 + 1 + 1 + 6 + 3); // the checked step counts as the check
    assert_int_equal(fake.n_allocating_steps, 0);
    assert_int_equal(row.losses.n, N_STEPS);
}

enum { LARGE_BYTES = 64 << 20 };

static void use_memory(SM_UNUSED void *ctx, sm_stage stage, int done, SM_UNUSED int total) {
    SM_FREED char *large = sm_malloc(LARGE_BYTES);
    memset(large, 1, stage == SM_STAGE_HEADLINE && done == 0 ? LARGE_BYTES : 1);
    assert_int_equal(large[0], 1);
}

// What the first sample used counts, though checks between samples count the memory anew. (Linux counts it by and by.)
TEST_OF_STEPS(test_memory_is_that_of_the_largest_step) {
    sm_machine_reset_peak_rss();
    const int64_t before_bytes = sm_machine_peak_rss_bytes();
    p.progress = use_memory;
    measure(SM_OK);
    assert_true(fake.n_put_back >= 1 && row.peak_rss_bytes >= before_bytes + LARGE_BYTES / 4 * 3);
}

// Without an attribution pass, the last check is a step of its own.
TEST_OF_STEPS(test_last_check_by_itself) {
    p.n_attribution = 0;
    measure(SM_OK);
    assert_int_equal(fake.n_steps, 1 + 2 + 6 + 1);
    assert_int_equal(fake.steps_at_check[1], 10);
    assert_int_equal(row.losses.n, 10);
}

// The time of a checked step is one of warm-up or attribution; where it is neither, it is one of checks.
TEST_OF_STEPS(test_checked_steps_count_once) {
    for (int n_steps = 0; n_steps <= 1; n_steps++) {
        begin(SM_PASS_FORWARD);
        fake.ms_of_step = 20;
        fake.keeps_nothing = true;
        p.n_warmup = p.n_attribution = 1 - n_steps;
        measure(SM_OK);
        assert_int_equal(row.checks_ns >= 2 * INT64_C(20000000), n_steps == 1);
    }
}

TEST_OF_STEPS(test_figures_follow_from_samples) {
    measure(SM_OK);
    double seconds = (double)row.median_ns * 1e-9;
    const double flops = FORWARD_FLOPS + BACKWARD_FLOPS + ADAMW_FLOPS;
    assert_near(row.flops, flops);
    assert_int_equal(row.ideal_ns, (int64_t)flops + UPDATE_BYTES); // both peaks are one a nanosecond
    // The median may lie half a nanosecond from its field.
    assert_true(fabs(row.mfu / (flops / seconds / 1e9) - 1) <= 1e-2);
    assert_true(fabs(row.step_efficiency / ((flops + UPDATE_BYTES) * 1e-9 / seconds) - 1) <= 1e-2);
    assert_near(row.samples_ts.values[0], B * T * 1e9 / (double)row.samples_ns.values[0]);
    assert_true(row.min_ns <= row.q1_ns && row.q1_ns <= row.median_ns && row.median_ns <= row.q3_ns &&
                row.q3_ns <= row.max_ns);
    assert_int_equal(row.ci95_lo_ns, row.min_ns); // 6 samples
    assert_int_equal(row.ci95_hi_ns, row.max_ns);
}

TEST_OF_STEPS(test_phases_add_up) {
    fake.op_cost_ns = 1000;
    measure(SM_OK);
    assert_int_equal(row.phases.zero_grad_ns, 1000);
    assert_int_equal(row.phases.forward_ns, 2000 + 4000);
    assert_int_equal(row.phases.backward_ns, 3000 + 5000); // the op that runs in the forward range included
    assert_int_equal(row.phases.optimizer_ns, 6000);
    assert_int_equal(row.phases.unaccounted_ns, row.attribution_ns - 21000);
    assert_int_equal(row.overhead_ns, row.median_ns - 21000);
    assert_int_equal(row.op_ns.n, 6);
    assert_int_equal(row.op_ns.values[3], 4000);
    assert_int_equal(row.n_attribution, 3);
}

TEST_OF_STEPS(test_real_op_times_fit_in_the_wall_clock) {
    measure(SM_OK);
    assert_true(row.phases.unaccounted_ns >= 0);
}

TEST_OF_STEPS(test_median_step_is_attributed) {
    SM_OWN(sm_plan) *plan = make_plan();
    sm_row_free(&row);
    sm_row_init(&row);
    const int64_t walls_ns[] = {500, 100, 300};
    int64_t op_ns[18];
    for (int i = 0; i < 18; i++) {
        op_ns[i] = i;
    }
    sm_pass_attribute(&row, plan, walls_ns, op_ns, 3);
    assert_int_equal(row.attribution_ns, 300);
    assert_int_equal(row.phases.zero_grad_ns, 12);
    assert_int_equal(row.phases.unaccounted_ns, 300 - (12 + 13 + 14 + 15 + 16 + 17));
    sm_pass_attribute(&row, plan, walls_ns, op_ns, 2);
    assert_int_equal(row.attribution_ns, 100); // the lower of two
}

TEST_OF_STEPS(test_accumulation) {
    p.n_accum = N_ACCUM;
    measure(SM_OK);
    const int n_made = N_STEPS + fake.n_put_back; // as in test_step
    assert_true(fake.n_put_back >= 1);
    assert_int_equal(fake.n_steps, N_STEPS);
    assert_int_equal(fake.n_batches, 3 * N_STEPS);
    assert_int_equal(fake.n_batches_again, 3 * fake.n_put_back);
    assert_int_equal(fake.n_executed[0], n_made); // zero-grad once a step
    assert_int_equal(fake.n_executed[1], 3 * n_made);
    assert_int_equal(fake.n_executed[5], N_STEPS); // so the optimizer, but where a step is made again
    assert_near(row.flops, 3 * (FORWARD_FLOPS + BACKWARD_FLOPS) + ADAMW_FLOPS);
    assert_near(row.samples_ts.values[0], 3 * B * T * 1e9 / (double)row.samples_ns.values[0]);
    assert_int_equal(row.n_accum, 3);
}

TEST_OF_STEPS(test_pass_types) {
    static const struct {
        sm_pass_type pass;
        const char *test;
        double flops;
        bool has_backward;
    } cases[] = {
        {SM_PASS_FORWARD, "fwd b2s2", FORWARD_FLOPS, false},
        {SM_PASS_FORWARD_BACKWARD, "fwd+bwd b2s2", FORWARD_FLOPS + BACKWARD_FLOPS, true},
        {SM_PASS_BACKWARD, "bwd b2s2", BACKWARD_FLOPS + 10, true},
        {SM_PASS_SEPARATE, "fwd,bwd b2s2", FORWARD_FLOPS + BACKWARD_FLOPS, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(cases[i].pass);
        fake.op_cost_ns = 1000;
        measure(SM_OK);
        assert_string_equal(row.test, cases[i].test);
        assert_near(row.flops, cases[i].flops);
        assert_int_equal(row.ideal_ns, (int64_t)cases[i].flops); // no optimizer, no traffic
        const int n_made = N_STEPS + fake.n_put_back;            // as in test_step
        assert_true(fake.n_put_back >= 1);
        assert_int_equal(fake.n_executed[1], n_made);
        assert_int_equal(fake.n_executed[4], cases[i].has_backward ? n_made : 0);
        assert_int_equal(fake.n_executed[5], 0);
        if (cases[i].pass == SM_PASS_BACKWARD) {
            assert_int_equal(row.median_ns, 8000);
        }
        if (cases[i].pass == SM_PASS_SEPARATE) {
            assert_int_equal(row.median_ns, 14000);
            assert_int_equal(row.samples_forward_ns.n, 6);
            assert_int_equal(row.samples_forward_ns.values[5], 6000);
            assert_int_equal(row.samples_backward_ns.values[5], 8000);
            assert_int_equal(row.forward_avg_ns, 6000);
            assert_int_equal(row.backward_avg_ns, 8000);
            assert_int_equal(row.backward_stddev_ns, 0);
        }
    }
}

// What is wrong, is not checked or fails has no speed.
TEST_OF_STEPS(test_what_is_wrong_has_no_speed) {
    static const struct {
        sm_pass_type pass;
        sm_status result;
        const char *status, *reason;
        int n_steps;
        sm_status check, gradient, update, failure; // of these four calls
        bool check_is_mute, gradient_check_is_mute;
    } cases[] = {
        {SM_PASS_STEP, SM_ERR_MISMATCH, "error", "loss 3, reference 2.5", 2, .check = SM_ERR_MISMATCH},
        {SM_PASS_FORWARD_BACKWARD, SM_ERR_MISMATCH, "error", "wrong gradient", 1, .gradient = SM_ERR_MISMATCH},
        {SM_PASS_STEP, SM_ERR_MISMATCH, "error", "fake: wrong update", 1, .update = SM_ERR_MISMATCH},
        {SM_PASS_STEP, SM_ERR_INTERNAL, "error", "", 2, .check_is_mute = true},
        {SM_PASS_STEP, SM_ERR_INTERNAL, "error", "", 1, .gradient_check_is_mute = true},
        {SM_PASS_STEP, SM_ERR_OOM, "oom", "fake: step 5 fails", 5, .failure = SM_ERR_OOM},
        {SM_PASS_STEP, SM_ERR_DEVICE, "error", "fake: step 5 fails", 5, .failure = SM_ERR_DEVICE},
        {SM_PASS_STEP, SM_ERR_UNSUPPORTED, "skipped", "fake: step 5 fails", 5, .failure = SM_ERR_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        begin(cases[i].pass);
        fake.loss = cases[i].check != SM_OK ? 3 : 2.5;
        fake.check_result = cases[i].check;
        fake.gradient_result = cases[i].gradient;
        fake.update_result = cases[i].update;
        fake.check_is_mute = cases[i].check_is_mute;
        fake.gradient_check_is_mute = cases[i].gradient_check_is_mute;
        fake.fail_at_step = cases[i].failure != SM_OK ? 5 : -1;
        fake.failure = cases[i].failure;
        measure(cases[i].result);
        assert_string_equal(row.status, cases[i].status);
        assert_non_null(strstr(row.reason, cases[i].reason));
        assert_int_equal(fake.n_steps, cases[i].n_steps);
        assert_no_speed();
    }
}

// Gradients: once, before the first update. Updates: the first two, the last, that of a repeated sample and that of the
// sample before it. Without a backward there is nothing to check.
TEST_OF_STEPS(test_checks_by_pass_type) {
    static const struct {
        sm_pass_type pass;
        int n_gradients;
        int n_updates; // of checked steps
    } expected[] = {{SM_PASS_FORWARD, 0, 0},
                    {SM_PASS_BACKWARD, 1, 0},
                    {SM_PASS_FORWARD_BACKWARD, 1, 0},
                    {SM_PASS_SEPARATE, 1, 0},
                    {SM_PASS_STEP, 1, 3}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        begin(expected[i].pass);
        measure(SM_OK);
        assert_int_equal(fake.n_gradient_checks, expected[i].n_gradients);
        assert_int_equal(fake.updates_at_gradient_check, 0);
        const int n_drawn = fake.n_update_checks[1] - expected[i].n_updates;
        if (expected[i].n_updates == 0) {
            assert_int_equal(n_drawn, 0);
        } else { // the last sample may be one before
            assert_true(n_drawn == 2 * fake.n_put_back || n_drawn == 2 * fake.n_put_back + 1);
        }
        assert_int_equal(row.gradient_check[0] != '\0', expected[i].n_gradients);
        assert_int_equal(row.gradient_check_ns != SM_ABSENT, expected[i].n_gradients);
    }
}

// --- checks among the steps that are timed ---------------------------------------------------------

TEST_OF_STEPS(test_step_that_does_not_repeat) {
    static const struct {
        fake_change change;
        const char *what;
    } cases[] = {{FAKE_OTHER_LOSSES, "repeated from the same weights, has other losses"},
                 {FAKE_LAST_BITS, "differs in the last bit between calls: step "},
                 {FAKE_OTHER_GRADIENTS, "has other gradients, or their norm"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int n_accum = 1; n_accum <= N_ACCUM; n_accum += N_ACCUM - 1) {
            begin(SM_PASS_STEP);
            p.n_accum = n_accum;
            fake.change = cases[i].change;
            expect_wrong(cases[i].what);
            assert_int_equal(fake.n_put_back, 1);
            assert_false(fake.is_kept);
            assert_true(row.repeat_check[0] == '\0' && row.checks_ns > 0);
        }
    }
}

// An op that is wrong from some step on is seen at the last check at the latest, also where the fault comes with the
// attribution pass; in a pass without an optimizer, too.
TEST_OF_STEPS(test_op_that_goes_wrong) {
    static const sm_pass_type passes[] = {SM_PASS_STEP, SM_PASS_FORWARD_BACKWARD, SM_PASS_BACKWARD};
    for (size_t i = 0; i < sizeof(passes) / sizeof(passes[0]); i++) {
        for (int step = 2; step <= N_STEPS; step++) {
            begin(passes[i]);
            fake.op_cost_ns = 1000;
            fake.wrong_from_step = step;
            expect_wrong("gelu_backward (op 4) differs");
        }
    }
}

// Of several micro-batches the last is always looked at, and another that is drawn.
TEST_OF_STEPS(test_last_micro_batch_is_looked_at) {
    for (uint64_t seed = 1; seed <= 8; seed++) {
        begin(SM_PASS_STEP);
        p.n_accum = fake.wrong_in_last_of = N_ACCUM;
        p.check_seed = seed;
        fake.wrong_from_step = 2; // the first that is checked
        measure(SM_ERR_MISMATCH);
        assert_int_equal(fake.n_steps, 2);
    }
}

TEST_OF_STEPS(test_loss_off_the_course) {
    for (int step = 3; step < N_STEPS; step++) { // warm-up, headline, attribution
        begin(SM_PASS_STEP);
        fake.odd_loss_at_step = step;
        fake.odd_loss = 12;
        expect_wrong("wrong loss: step");
    }
}

// Of the fake's ops all are looked at; which steps are made again is drawn.
TEST_OF_STEPS(test_seed_draws_the_places) {
    enum { N_SEEDS = 8 };
    char spots[sizeof row.spot_check], repeats[sizeof row.repeat_check], first[sizeof row.repeat_check];
    int n_others = 0;
    p.n_repetitions = 40;
    for (int i = 0; i < N_SEEDS; i++) {
        fake_reset(state);
        p.check_seed = 100 + (uint64_t)i;
        measure(SM_OK);
        assert_int_equal(row.check_seed, 100 + i);
        assert_non_null(strstr(row.repeat_check, "with identical bits: samples "));
        // Of zero a step has one op: it is looked at in each checked step and in each that is made again.
        assert_non_null(strstr(row.spot_check, textf("each kind at least %d times", 2 + fake.n_put_back)));
        assert_true(row.spot_error >= 0 && row.spot_error <= 1 && row.checks_ns > 0);
        assert_true(fake.n_put_back >= 2);
        strcpy(spots, row.spot_check);
        strcpy(repeats, row.repeat_check);
        memmove(first, i == 0 ? repeats : first, sizeof first);
        n_others += strcmp(repeats, first) != 0;
        fake_reset(state);
        measure(SM_OK);
        assert_string_equal(row.spot_check, spots);
        assert_string_equal(row.repeat_check, repeats);
    }
    assert_true(n_others >= N_SEEDS / 2);
}

// Own code cannot tell a checked step by what comes before it, nor by its number; every second one is made again,
// about, and gradients are checked twice.
TEST_OF_STEPS(test_most_samples_of_own_code_look_checked) {
    uint64_t always = ~UINT64_C(0);
    p.n_repetitions = 30;
    snprintf(fake_device.info.own_kernels, sizeof(fake_device.info.own_kernels), "gelu_forward=mine.c");
    for (int seed = 1; seed <= 20; seed++) {
        fake_reset(state);
        p.check_seed = (uint64_t)seed;
        measure(SM_OK);
        assert_true(fake.n_kept >= 20 + 1 && fake.n_kept <= 20 + 1 + fake.n_put_back && fake.n_put_back >= 8);
        assert_int_equal(fake.n_gradient_checks, 2);
        always &= fake.kept_at;
    }
    assert_int_equal(always, 0);
    fake_device.info.own_kernels[0] = '\0';
}

// A device too full for a copy, or without such a thing, is measured nevertheless; the row says what was not done.
TEST_OF_STEPS(test_no_room_for_a_copy) {
    fake.keep_result = SM_ERR_OOM;
    measure(SM_OK);
    assert_string_equal(row.status, "ok");
    assert_string_equal(row.repeat_check, "no step was made again: fake: no room for a copy");
    assert_int_equal(row.samples_ns.n, 6);
    assert_int_equal(fake.n_put_back, 0);

    fake_reset(state);
    fake.keeps_nothing = true;
    measure(SM_OK);
    assert_string_equal(row.repeat_check, "no step was made again: backend fake keeps no copy of the weights");
    assert_int_equal(fake.n_kept, 0);

    fake_reset(state); // any other failure is one
    fake.keep_result = SM_ERR_DEVICE;
    measure(SM_ERR_DEVICE);
    assert_no_speed();
}

// A pass that is cut short by Ctrl-C is checked to its end: its samples count.
TEST_OF_STEPS(test_interrupted_pass_is_checked) {
    fake.interrupt_at_step = 6;
    fake.wrong_from_step = 8; // the last check, an odd number of steps after the repeated one
    expect_wrong("");
    assert_int_equal(fake.n_steps, 8);
}

TEST_OF_STEPS(test_loss_that_is_no_number) {
    // In the first step, the checked one, in warm-up, in the headline, in the attribution pass, in the last check.
    static const int steps[] = {1, 2, 3, 8, 11, N_STEPS};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        begin(SM_PASS_STEP);
        fake.bad_loss_at_step = steps[i];
        expect_wrong("nan");
    }
}

TEST_OF_STEPS(test_interrupted) {
    fake.interrupt_at_step = 6; // 1 first, 2 warm-up, and this is the third sample
    measure(SM_ERR_INTERRUPTED);
    assert_string_equal(row.status, "ok");
    assert_string_equal(row.stop_reason, "interrupted");
    assert_non_null(strstr(row.reason, "measuring 3 of 6"));
    assert_int_equal(row.samples_ns.n, 3);
    assert_true(row.median_ns > 0 && row.avg_ts > 0);

    fake_reset(state);
    fake.interrupt_at_step = 2;
    measure(SM_ERR_INTERRUPTED);
    assert_string_equal(row.status, "skipped");
    assert_int_equal(row.samples_ns.n, 0);
    assert_int_equal(row.median_ns, SM_ABSENT);

    // All samples are there: only the phases are of fewer steps.
    fake_reset(state);
    fake.interrupt_at_step = 10;
    measure(SM_ERR_INTERRUPTED);
    assert_string_equal(row.status, "ok");
    assert_int_equal(row.samples_ns.n, 6);
    assert_int_equal(row.n_attribution, 1);
    assert_non_null(strstr(json_string_value(json_array_get(row.warnings, 0)), "attribution pass cut short"));
}

// All is well but for a step that takes longer than the limit.
static void delay_step(int step) {
    begin(SM_PASS_STEP);
    p.timeout_s = 0.5;
    fake.sleep_at_step = step;
    fake.sleep_ms = 550;
}

TEST_OF_STEPS(test_timeout) {
    delay_step(5); // the second sample
    measure(SM_ERR_TIMEOUT);
    assert_string_equal(row.status, "timeout");
    assert_string_equal(row.stop_reason, "timeout");
    assert_int_equal(row.samples_ns.n, 2);
    assert_int_equal(row.n_outliers, 0);
    assert_true(row.max_ns >= 550000000);
    assert_non_null(strstr(row.reason, "--timeout"));
    assert_int_equal(fake.n_checks, 2); // the last check comes after the limit

    delay_step(5);
    fake.wrong_from_step = 6;
    expect_wrong("");

    delay_step(1);
    measure(SM_ERR_TIMEOUT);
    assert_int_equal(row.samples_ns.n, 0);
    assert_int_equal(fake.n_checks, 0);
}

// A backend that gives a wait up, as it would go past the limit: the samples so far count.
TEST_OF_STEPS(test_hang) {
    p.timeout_s = 60;
    fake.fail_at_step = 5;
    fake.failure = SM_ERR_TIMEOUT;
    int64_t before_ns = clock_ns();
    measure(SM_ERR_TIMEOUT);
    assert_true(fake.deadline_ns > before_ns + 61000000000 && fake.deadline_ns < clock_ns() + 70000000000);
    assert_string_equal(row.status, "timeout");
    assert_string_equal(row.stop_reason, "timeout");
    assert_string_equal(row.reason, "fake: step 5 fails");
    assert_int_equal(row.samples_ns.n, 1);
}

TEST_OF_STEPS(test_bad_protocols) {
    p.n_repetitions = 0;
    measure(SM_ERR_INVALID);
    assert_string_equal(row.status, "error");
    p.n_repetitions = 6;
    p.n_accum = 0;
    measure(SM_ERR_INVALID);
    p.n_accum = 1;
    p.timeout_s = NAN;
    measure(SM_ERR_INVALID);
    assert_int_equal(fake.n_steps, 0);
}

TEST_OF_STEPS(test_without_attribution_or_peaks) {
    begin(SM_PASS_BACKWARD);
    has_peaks = false;
    p.n_attribution = 0;
    measure(SM_OK);
    assert_int_equal(row.attribution_ns, SM_ABSENT);
    assert_int_equal(row.op_ns.n, 0);
    assert_int_equal(row.ideal_ns, SM_ABSENT);
    assert_true(isnan(row.mfu) && isnan(row.step_efficiency));
}

int main(void) {
    has_fake_clock = true;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
