// training_curve.h: for tests that train `tiny` on real text in a number format, with losses next to f32's.
#pragma once

#include "src/data/tokens.h"
#include "tests/support/session.h"

enum { BATCH = 8, SEQUENCE = 32, N_STEPS = 200, WINDOW = 20, SEED = 42 };

typedef struct {
    sm_device *device;
    sm_session *session;
    const sm_model_config *config;
    sm_tokens *tokens;
    int32_t ids[2][BATCH * SEQUENCE]; // inputs, targets
} fixture;

// The device is the caller's.
static inline void set_up(fixture *f, sm_device *device, sm_precision precision, sm_mode mode) {
    const sm_plan_options options = {TRAINING(BATCH, SEQUENCE, precision.dtype), .products = precision.products,
                                     .seed = SEED,
                                     .scaling = precision.dtype == SM_F16 ? sm_dynamic_scaling : (sm_loss_scaling){0}};
    *f = (fixture){.device = device, .config = gpt2_of("tiny")};
    f->session = start_session(device, build_plan(f->config, &options, mode, 0), SEED); // as `stepmark train`
    ok(sm_tokens_embedded(f->config->vocab, &f->tokens));
}

static inline void tear_down(fixture *f) {
    sm_session_close(f->session);
    sm_tokens_close(f->tokens);
}

// At a rate at which two formats do not part for the noise alone: at 1e-3 and above, whether bf16 ends up to 1% lower
// or higher depends on the seed.
static inline void take_steps(fixture *f, int n_steps, double *losses) {
    sm_step_settings adamw = sm_optimizer_adamw.defaults;
    adamw.lr = 5e-4;
    for (int step = 0; step < n_steps; step++) {
        ok(sm_tokens_batch(f->tokens, step, BATCH, SEQUENCE, f->ids[0], f->ids[1]));
        ok(sm_session_set_batch(f->session, f->ids[0], f->ids[1]));
        ok(sm_session_set_hyper(f->session, &adamw, step + 1, 1));
        ok(sm_session_run(f->session, SM_RUN_STEP, NULL));
        ok(sm_session_loss(f->session, &losses[step]));
    }
}

static inline double mean(const double *values, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += values[i];
    }
    return sum / n;
}

// Losses of 200 steps.
static inline void train(sm_device *device, sm_precision precision, sm_mode mode, double curve[N_STEPS]) {
    fixture f;
    set_up(&f, device, precision, mode);
    take_steps(&f, N_STEPS, curve);
    tear_down(&f);
}

// Real text: the smoothed losses stay within 1% of f32's, on average and at the end.
static inline void compare_curves(const char *what, const double wide[N_STEPS], const double narrow[N_STEPS]) {
    double sum = 0;
    for (int i = 0; i + WINDOW <= N_STEPS; i++) {
        const double expected = mean(wide + i, WINDOW);
        sum += fabs(mean(narrow + i, WINDOW) - expected) / expected;
    }
    const double difference = sum / (N_STEPS - WINDOW + 1);
    const double wide_end = mean(wide + N_STEPS - WINDOW, WINDOW);
    const double narrow_end = mean(narrow + N_STEPS - WINDOW, WINDOW);
    print_message("%s: losses %.4f to %.4f in f32, %.4f; curves %.3f%% apart\n", what, wide[0], wide_end, narrow_end,
                  100 * difference);
    assert_true(wide_end < 0.75 * wide[0]); // it learns
    assert_true(difference < 0.01);
    assert_true(fabs(narrow_end - wide_end) / wide_end < 0.01);
    assert_true(memcmp(wide, narrow, N_STEPS * sizeof *wide) != 0); // it was not f32 by mistake
}
