// test_stopping.c: when the harness has warmed up and sampled enough, with a backend that does nothing.
#define OWN_MAIN
#include "tests/support/session.h"
#include "tests/support/fake_backend.h"
#include "tests/support/fake_clock.h"

static sm_protocol p;
static sm_row row; // what was measured last

static void measure(sm_status expected) {
    SM_OWN(sm_session) *session = NULL;
    const sm_workload workload = {.next_batch = fake_next_batch, .check = fake_check, FAKE_CHECKS};
    assert_int_equal(sm_session_open(&fake_device, make_plan(), &session), SM_OK);
    sm_row_free(&row);
    sm_row_init(&row);
    assert_int_equal(sm_harness_measure(session, &p, &workload, &row), expected);
}

static int begin(void **state) {
    p = sm_protocol_default();
    return fake_reset(state);
}

// Pass type backward takes its samples from the ops' times, which the fake makes up: all equal.
static int begin_equal(void **state) {
    begin(state);
    p.pass = SM_PASS_BACKWARD;
    p.n_warmup = 1;
    p.max_noise_percent = 1;
    fake.op_cost_ns = 1000;
    return 0;
}

TEST_WITH(warm_up_ends_by_itself, begin, NULL) {
    p.n_warmup = SM_WARMUP_AUTO;
    fake.sleep_at_step = 1; // the first step is slow, as it is where things happen only once
    fake.sleep_ms = 20;
    measure(SM_OK);
    assert_true(row.n_warmup >= 4 && row.n_warmup <= 50);
    assert_true(strcmp(row.warmup_stop, "steady") == 0 || row.n_warmup == 50);
    assert_int_equal(row.warmup_samples_ns.n, row.n_warmup);
    int64_t sum_ns = 0;
    for (int64_t i = 0; i < row.n_warmup; i++) {
        sum_ns += row.warmup_samples_ns.values[i];
    }
    assert_int_equal(sum_ns, row.warmup_ns);
    assert_true(row.first_step_ns >= 20000000);
}

static void hurry(SM_UNUSED void *ctx, SM_UNUSED sm_stage stage, SM_UNUSED int done, SM_UNUSED int total) {
    fake.ms_of_step = fake.ms_of_step * 19 / 20;
}

// Steps that get ever faster are never warm: their time or their number ends it.
TEST_WITH(warm_up_has_limits, begin, NULL) {
    for (int is_slow = 0; is_slow < 2; is_slow++) {
        begin(state);
        p.n_warmup = SM_WARMUP_AUTO;
        p.progress = hurry;
        fake.ms_of_step = is_slow ? 20000 : 900;
        measure(SM_OK);
        assert_int_equal(row.n_warmup, is_slow ? 2 : 50);
        assert_string_equal(row.warmup_stop, "limit");
    }
}

TEST_WITH(fixed_warm_up_is_as_asked, begin, NULL) {
    p.n_warmup = 0;
    measure(SM_OK);
    assert_int_equal(row.n_warmup, 0);
    assert_int_equal(row.warmup_samples_ns.n, 0);
    assert_string_equal(row.warmup_stop, "fixed");
    assert_string_equal(row.stop_reason, "repetitions");
}

TEST_WITH(stops_when_precise, begin_equal, NULL) {
    measure(SM_OK);
    assert_string_equal(row.stop_reason, "noise");
    assert_int_equal(row.samples_ns.n, p.min_samples);
    assert_true(row.noise_percent == 0);
}

TEST_WITH(takes_its_least_time, begin_equal, NULL) {
    p.min_time_s = 0.03;
    p.max_samples = 1000000;
    fake.sleep_at_step = 14; // the twelfth sample: by then there are enough
    fake.sleep_ms = 35;
    measure(SM_OK);
    assert_string_equal(row.stop_reason, "noise");
    assert_int_equal(row.samples_ns.n, 12);
}

TEST_WITH(samples_run_out, begin_equal, NULL) {
    p.min_samples = 2;
    p.max_samples = 5; // below what an interval needs
    measure(SM_OK);
    assert_string_equal(row.stop_reason, "samples");
    assert_int_equal(row.samples_ns.n, 5);
    assert_int_equal(row.ci95_lo_ns, SM_ABSENT);
}

TEST_WITH(time_runs_out, begin_equal, NULL) {
    p.max_time_s = 0.25;
    fake.sleep_at_step = 5; // 1 first, 1 of warm-up: the third sample
    fake.sleep_ms = 260;
    measure(SM_OK);
    assert_string_equal(row.stop_reason, "time");
    assert_string_equal(row.status, "ok");
    assert_int_equal(row.samples_ns.n, 3);
}

TEST_WITH(limits_must_make_sense, begin_equal, NULL) {
    p.max_samples = 3;
    measure(SM_ERR_INVALID);
    begin_equal(state);
    p.max_noise_percent = -1;
    measure(SM_ERR_INVALID);
    begin_equal(state);
    p.n_warmup = -2;
    measure(SM_ERR_INVALID);
    assert_int_equal(fake.n_steps, 0);
}

// The sensors are read at the edges of the headline pass, and the row tells what they said.
TEST_WITH(sensors_are_in_the_row, begin_equal, NULL) {
    measure(SM_OK);
    assert_true(row.sensors.minor_faults >= 0 && row.sensors.involuntary_switches >= 0);
    assert_true(json_is_object(sm_json_get(row.context, "sensors_absent")));
    assert_int_equal(fake.n_allocating_steps, 0);
}

int main(void) {
    has_fake_clock = true;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
