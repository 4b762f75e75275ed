// The learning rate: warm-up, constant, cosine, and their edges.
#include "tests/support/test.h"
#include "src/session/session.h"

static void expect(double value, double expected) {
    FAIL_IF(!(fabs(value - expected) <= 1e-15), "%.17g is not %.17g", value, expected);
}

TEST(constant_is_constant) {
    sm_schedule s = {.kind = SM_SCHEDULE_CONSTANT, .lr = 1e-3, .n_steps = 10};
    for (int64_t step = 1; step <= 12; step++) {
        expect(sm_schedule_lr(&s, step), 1e-3);
    }
}

TEST(warmup_rises_linearly) {
    sm_schedule s = {.kind = SM_SCHEDULE_CONSTANT, .lr = 0.8, .warmup_steps = 4, .n_steps = 10};
    const double expected[] = {0.2, 0.4, 0.6, 0.8, 0.8, 0.8};
    for (int i = 0; i < 6; i++) {
        expect(sm_schedule_lr(&s, i + 1), expected[i]);
    }
}

TEST(cosine_ends_at_its_final_fraction) {
    sm_schedule s = {.kind = SM_SCHEDULE_COSINE, .lr = 1, .final_fraction = 0.1, .warmup_steps = 2, .n_steps = 10};
    expect(sm_schedule_lr(&s, 1), 0.5);
    expect(sm_schedule_lr(&s, 2), 1);
    expect(sm_schedule_lr(&s, 4), 0.1 + 0.9 * 0.5 * (1 + sqrt(0.5))); // a quarter of the way
    expect(sm_schedule_lr(&s, 6), 0.55);                              // half of the way
    expect(sm_schedule_lr(&s, 10), 0.1);
    expect(sm_schedule_lr(&s, 11), 0.1);
    for (int64_t step = 3; step < 10; step++) {
        assert_true(sm_schedule_lr(&s, step + 1) < sm_schedule_lr(&s, step));
    }
}

TEST(linear_falls_evenly) {
    sm_schedule s = {.kind = SM_SCHEDULE_LINEAR, .lr = 1, .final_fraction = 0.2, .warmup_steps = 2, .n_steps = 10};
    const double expected[] = {0.5, 1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.2};
    for (int i = 0; i < 11; i++) {
        expect(sm_schedule_lr(&s, i + 1), expected[i]);
    }
}

TEST(wsd_falls_in_the_last_fifth) {
    sm_schedule s = {.kind = SM_SCHEDULE_WSD, .lr = 1, .final_fraction = 0, .warmup_steps = 2, .n_steps = 10};
    const double expected[] = {0.5, 1, 1, 1, 1, 1, 1, 1, 0.5, 0};
    for (int i = 0; i < 10; i++) {
        expect(sm_schedule_lr(&s, i + 1), expected[i]);
    }
    s.warmup_steps = 9; // leaves a single step to fall in
    expect(sm_schedule_lr(&s, 9), 1);
    expect(sm_schedule_lr(&s, 10), 0);
}

TEST(warmup_longer_than_training) {
    sm_schedule s = {.kind = SM_SCHEDULE_COSINE, .lr = 1, .final_fraction = 0.1, .warmup_steps = 20, .n_steps = 10};
    expect(sm_schedule_lr(&s, 10), 0.5);
}
