// test_paired.c: two sessions in turn, A B B A, each checked first.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "fake_backend.h"
#include "paired.h"

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

static sm_status next_batch(void *ctx, sm_session *session, int64_t index) {
    (void)session;
    (void)index;
    return feed(*(const char *)ctx);
}

static sm_status check(void *ctx, sm_session *session, sm_row *row) {
    (void)ctx;
    (void)session;
    assert_true(row->loss == 2.5);
    n_checked++;
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
    sides[0] = sm_paired_side(NULL, &work_a);
    sides[1] = sm_paired_side(NULL, &work_b);
    assert_int_equal(sm_session_open(&fake_device, make_plan(), &sides[0].session), SM_OK);
    assert_int_equal(sm_session_open(&fake_device, make_plan(), &sides[1].session), SM_OK);
    *state = sides;
    return 0;
}

static int tear_down(void **state) {
    sm_stepper *sides = *state;
    sm_session_close(sides[0].session);
    sm_session_close(sides[1].session);
    free(sides);
    return 0;
}

static void rounds_are_abba(void **state) {
    sm_stepper *sides = *state;
    sm_paired_result result;
    assert_int_equal(sm_paired_measure(&sides[0], &sides[1], 1, 2, NULL, &result), SM_OK);
    assert_string_equal(order, "AABBABBAABBA"); // first steps and warm-up, then the rounds
    assert_int_equal(n_checked, 2);
    assert_int_equal(result.a_ns.n, 4);
    assert_int_equal(result.b_ns.n, 4);
    assert_int_equal(result.ratio.n, 2);
    assert_true(result.ratio.median > 0);
    assert_true(isnan(result.ratio.ci95_lo));
    // Another opponent: what has been checked is not checked again.
    assert_int_equal(sm_paired_measure(&sides[0], &sides[1], 0, 6, NULL, &result), SM_OK);
    assert_int_equal(n_checked, 2);
    assert_true(result.ratio.ci95_lo <= result.ratio.median && result.ratio.median <= result.ratio.ci95_hi);
}

// What was whole by then is the result.
static void rounds_before_an_interruption_count(void **state) {
    sm_stepper *sides = *state;
    sm_paired_result result;
    interrupt_at = 2 + 4 * 3 + 2; // the first steps, three rounds, half of one
    assert_int_equal(sm_paired_measure(&sides[0], &sides[1], 0, 100, &interrupted, &result), SM_ERR_INTERRUPTED);
    assert_int_equal(n_fed, interrupt_at); // not a step more
    assert_int_equal(result.ratio.n, 3);
    assert_int_equal(result.a_ns.n, 6);
    assert_true(result.ratio.median > 0);
    interrupted = 1;
    assert_int_equal(sm_paired_measure(&sides[0], &sides[1], 3, 100, &interrupted, &result), SM_ERR_INTERRUPTED);
    assert_int_equal(result.ratio.n, 0);
    interrupt_at = 0;
}

static void failures_end_it(void **state) {
    sm_stepper *sides = *state;
    sm_paired_result result;
    assert_int_equal(sm_paired_measure(&sides[0], &sides[1], 0, 0, NULL, &result), SM_ERR_INVALID);
    fake.check_result = SM_ERR_MISMATCH;
    assert_int_equal(sm_paired_measure(&sides[0], &sides[1], 0, 1, NULL, &result), SM_ERR_MISMATCH);
    fake.check_result = SM_OK;
    fake.bad_loss_at_step = fake.n_steps + 1;
    assert_int_equal(sm_paired_measure(&sides[0], &sides[1], 0, 1, NULL, &result), SM_ERR_MISMATCH);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rounds_are_abba, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rounds_before_an_interruption_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failures_end_it, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
