// kept_weights.h: for tests of backends: weights are exchanged exactly, and a step after that is the same.
#pragma once

#include "tests/support/session.h"

enum { KEPT_B = 2, KEPT_T = 16 };

static inline sm_session *kept_open(sm_device *device, sm_dtype dtype) {
    const sm_plan_options options = {TRAINING(KEPT_B, KEPT_T, dtype), .seed = 1, .one_micro_batch = true};
    return start_session(device, build_plan(gpt2_of("tiny"), &options, SM_MODE_FUSED, 0), 1);
}

static inline void kept_step(sm_session *session, int64_t step) {
    int32_t ids[KEPT_B * KEPT_T];
    const sm_step_settings settings = sm_optimizer_adamw.defaults;
    for (int i = 0; i < KEPT_B * KEPT_T; i++) {
        ids[i] = (int32_t)((i * 7 + step * 3) % 50);
    }
    ok(sm_session_set_hyper(session, &settings, step, 1));
    ok(sm_session_set_batch(session, ids, ids));
    ok(sm_session_run(session, SM_RUN_STEP, NULL));
    ok(sm_session_synchronize(session));
}

static inline float kept_loss(sm_session *session) {
    double loss;
    ok(sm_session_loss(session, &loss));
    return (float)loss;
}

// All parameters, tensor after tensor. The caller frees them.
static inline float *kept_read(sm_session *session, int64_t *n_values) {
    const sm_plan *plan = session->plan;
    float *values = NULL;
    *n_values = 0;
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_tensor *t = &plan->tensors[i];
        if (t->role == SM_ROLE_PARAMETER && t->view_of == SM_NO_TENSOR) {
            const int64_t n = sm_tensor_elems(t);
            values = realloc(values, (size_t)(*n_values + n) * sizeof(*values));
            assert_non_null(values);
            ok(sm_session_read(session, i, n, values + *n_values));
            *n_values += n;
        }
    }
    return values;
}

// One that the test is done with.
static inline bool kept_is_same(const float *a, float *b, int64_t n) {
    const bool is_same = memcmp(a, b, (size_t)n * sizeof(*a)) == 0;
    free(b);
    return is_same;
}

static inline void check_kept_weights(sm_device *device, sm_dtype dtype) {
    const sm_backend *of = device->backend;
    sm_session *session = kept_open(device, dtype);
    int64_t n = 0;
    kept_step(session, 1);
    SM_FREED float *before = kept_read(session, &n);
    ok(of->keep_weights(session->executable, SM_WEIGHTS_KEEP));
    kept_step(session, 2);
    SM_FREED float *after = kept_read(session, &n);
    const float loss = kept_loss(session);
    assert_int_not_equal(memcmp(before, after, (size_t)n * sizeof(*after)), 0);
    for (int i = 0; i < 2; i++) { // as often as one likes
        ok(of->keep_weights(session->executable, SM_WEIGHTS_RESTORE));
        assert_true(kept_is_same(before, kept_read(session, &n), n));
        assert_true(kept_loss(session) != loss); // stale
        ok(sm_session_run(session, SM_RUN_STEP | SM_RUN_NO_UPDATES, NULL));
        assert_true(kept_loss(session) == loss);
        assert_true(kept_is_same(before, kept_read(session, &n), n));
        ok(of->keep_weights(session->executable, SM_WEIGHTS_RESUME));
        assert_true(kept_is_same(after, kept_read(session, &n), n));
        assert_true(kept_loss(session) == loss);
    }
    ok(of->keep_weights(session->executable, SM_WEIGHTS_DROP));
    ok(of->keep_weights(session->executable, SM_WEIGHTS_KEEP)); // of what is there now
    kept_step(session, 3);
    ok(of->keep_weights(session->executable, SM_WEIGHTS_RESTORE));
    assert_true(kept_is_same(after, kept_read(session, &n), n));
    sm_session_close(session); // drops what is kept
}
