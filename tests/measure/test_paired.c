// test_paired.c: two sessions in turn, A B B A, each checked first.
#include "tests/support/fake_backend.h"
#include "bench/measure/harness.h"

enum { MAX_BATCHES = 64 };

// Which side fed a batch, in order.
static char order[MAX_BATCHES + 1];
static int n_fed;
static int n_checked;

// Ctrl-C comes while that batch is fed; 0: never.
static int interrupt_at;
static volatile sig_atomic_t interrupted;

static sm_status feed(char side) {
    interrupted = interrupt_at > 0 && n_fed + 1 >= interrupt_at;
    if (n_fed < MAX_BATCHES) {
        order[n_fed++] = side;
        order[n_fed] = '\0';
    }
    return SM_OK;
}

static sm_status next_batch(void *ctx, SM_UNUSED sm_session *session, SM_UNUSED int64_t index) {
    return feed(*(const char *)ctx);
}

static sm_status check(SM_UNUSED void *ctx, sm_session *session, SM_UNUSED int64_t index, SM_UNUSED uint64_t seed,
                       sm_row *row) {
    double loss = 0;
    assert_int_equal(sm_session_loss(session, &loss), SM_OK);
    assert_true(loss == 2.5);
    n_checked++;
    SM_ROW_TEXT(row->loss_check, "a constant");
    return fake.check_result;
}

static char name_a = 'A';
static char name_b = 'B';
static const sm_workload work_a = {.ctx = &name_a, .next_batch = next_batch, .check = check, FAKE_CHECKS};
static const sm_workload work_b = {.ctx = &name_b, .next_batch = next_batch, .check = check, FAKE_CHECKS};

static int set_up(void **state) {
    sm_stepper *sides = calloc(2, sizeof(*sides));
    assert_non_null(sides);
    memset(&fake, 0, sizeof(fake));
    fake.loss = 2.5;
    n_fed = 0;
    n_checked = 0;
    order[0] = '\0';
    sides[0] = sm_paired_side(NULL, &work_a, 1);
    sides[1] = sm_paired_side(NULL, &work_b, 1);
    assert_int_equal(sm_session_open(&fake_device, make_plan(), &sides[0].session), SM_OK);
    assert_int_equal(sm_session_open(&fake_device, make_plan(), &sides[1].session), SM_OK);
    *state = sides;
    return 0;
}

static int tear_down(void **state) {
    SM_FREED sm_stepper *sides = *state;
    sm_stepper_close(&sides[0]);
    sm_stepper_close(&sides[1]);
    sm_session_close(sides[0].session);
    sm_session_close(sides[1].session);
    return 0;
}

TEST_WITH(rounds_are_abba, set_up, tear_down) {
    sm_stepper *sides = *state;
    sm_paired_result result;
    assert_int_equal(sm_paired_measure(&sides[0], &sides[1], 1, 2, NULL, &result), SM_OK);
    // The first two steps and one of warm-up, the rounds, a checked step of each. A repeated step has its batch.
    assert_string_equal(order, "AAABBBABBAABBAAB");
    assert_int_equal(n_checked, 4);
    assert_int_equal(fake.n_put_back, 2); // one of each
    assert_int_equal(result.a_ns.n, 4);
    assert_int_equal(result.b_ns.n, 4);
    assert_int_equal(result.ratio.n, 2);
    assert_true(result.ratio.median > 0);
    assert_true(isnan(result.ratio.ci95_lo));
    // Another opponent: the first steps are not checked again, the last ones are.
    assert_int_equal(sm_paired_measure(&sides[0], &sides[1], 0, 6, NULL, &result), SM_OK);
    assert_int_equal(n_checked, 4 + 2);
    assert_int_equal(fake.n_put_back, 4);
    assert_true(result.ratio.ci95_lo <= result.ratio.median && result.ratio.median <= result.ratio.ci95_hi);
}

// The rounds that were whole by then are the result.
TEST_WITH(rounds_before_an_interruption_count, set_up, tear_down) {
    sm_stepper *sides = *state;
    sm_paired_result result;
    interrupt_at = 4 + 4 * 3 + 2; // the first steps, three rounds, half of one
    assert_int_equal(sm_paired_measure(&sides[0], &sides[1], 0, 100, &interrupted, &result), SM_ERR_INTERRUPTED);
    assert_int_equal(n_fed, interrupt_at + 2); // not a step more, but for the last check of each
    assert_int_equal(n_checked, 4);
    assert_int_equal(result.ratio.n, 3);
    assert_int_equal(result.a_ns.n, 6);
    assert_true(result.ratio.median > 0);
    interrupted = 1;
    assert_int_equal(sm_paired_measure(&sides[0], &sides[1], 3, 100, &interrupted, &result), SM_ERR_INTERRUPTED);
    assert_int_equal(result.ratio.n, 0);
    assert_int_equal(n_checked, 4); // there is nothing to say
    interrupt_at = 0;
}

TEST_WITH(failures_end_it, set_up, tear_down) {
    sm_stepper *sides = *state;
    sm_paired_result result;
    assert_int_equal(sm_paired_measure(&sides[0], &sides[1], 0, 0, NULL, &result), SM_ERR_INVALID);
    fake.check_result = SM_ERR_MISMATCH;
    assert_int_equal(sm_paired_measure(&sides[0], &sides[1], 0, 1, NULL, &result), SM_ERR_MISMATCH);
    fake.check_result = SM_OK;
    fake.change = FAKE_OTHER_GRADIENTS;
    assert_int_equal(sm_paired_measure(&sides[0], &sides[1], 0, 3, NULL, &result), SM_ERR_MISMATCH);
    assert_int_equal(fake.n_put_back, 1);
    fake.change = FAKE_REPEATS;
    fake.wrong_from_step = fake.n_steps + 4 + 2; // the last check, of B
    assert_int_equal(sm_paired_measure(&sides[0], &sides[1], 0, 1, NULL, &result), SM_ERR_MISMATCH);
    assert_int_equal(fake.n_steps, fake.wrong_from_step);
    fake.wrong_from_step = 0;
    fake.bad_loss_at_step = fake.n_steps + 1;
    assert_int_equal(sm_paired_measure(&sides[0], &sides[1], 0, 1, NULL, &result), SM_ERR_MISMATCH);
}
