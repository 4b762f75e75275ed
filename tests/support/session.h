// session.h: for tests that run steps: a device, a plan, a session with fresh weights, and a step, in a call each.
#pragma once

#include "bench/measure/harness.h"
#include "src/io/safetensors.h"
#include "src/verify/step_checks.h"
#include "tests/support/plans.h"

// The backend's first device.
static inline sm_device *open_backend(const char *name, int n_threads) {
    const sm_backend *found = sm_backend_find(name);
    sm_device *device = NULL;
    assert_non_null(found);
    ok(found->open(0, &(sm_open_options){.n_threads = n_threads}, &device));
    return device;
}

// The session takes the plan.
static inline sm_session *open_plan(sm_device *device, sm_plan *plan) {
    sm_session *session = NULL;
    ok(sm_session_open(device, plan, &session));
    return session;
}

// Likewise, with the weights of this seed.
static inline sm_session *start_session(sm_device *device, sm_plan *plan, uint64_t seed) {
    sm_session *session = open_plan(device, plan);
    ok(sm_session_draw(session, seed));
    return session;
}

// Likewise, or NULL where the device has no way to run the plan.
static inline sm_session *start_if_supported(sm_device *device, sm_plan *plan, uint64_t seed) {
    sm_session *session = NULL;
    const sm_status status = sm_session_open(device, plan, &session);
    ok(status == SM_ERR_UNSUPPORTED ? SM_OK : status);
    ok(session == NULL ? SM_OK : sm_session_draw(session, seed));
    return session;
}

// The first numbers of a tensor; the caller's to free.
static inline float *tensor_values(sm_session *session, int tensor, int64_t n) {
    float *values = sm_malloc((size_t)n * sizeof *values);
    ok(sm_session_read(session, tensor, n, values));
    return values;
}

// The numbers of a file's array, and how many; the caller's to free.
static inline float *array_values(const sm_safetensors *file, const char *name, int64_t *n) {
    int i = 0;
    while (i < sm_safetensors_count(file) && strcmp(sm_safetensors_at(file, i)->name, name) != 0) {
        i++;
    }
    FAIL_IF(i == sm_safetensors_count(file), "%s has no array %s", sm_safetensors_name(file), name);
    *n = sm_safetensors_at(file, i)->n_elems;
    float *values = sm_malloc((size_t)*n * sizeof *values + 1);
    ok(sm_safetensors_read(file, sm_safetensors_at(file, i), values));
    return values;
}

// A step of AdamW on tokens made up, one in nine of which has no target.
static inline void run_made_step(sm_session *session, int step, int n_accum) {
    const int V = (int)session->plan->V;
    const int n = (int)(session->plan->B * session->plan->T);
    SM_FREED int32_t *tokens = sm_malloc(2 * (size_t)n * sizeof *tokens);
    ok(sm_session_set_hyper(session, &sm_optimizer_adamw.defaults, step, n_accum));
    for (int micro = 0; micro < n_accum; micro++) {
        for (int i = 0; i < n; i++) {
            tokens[i] = (i * 7 + step * 3 + micro) % V;
            tokens[n + i] = i % 9 == 0 ? -1 : (i * 5 + step + micro) % V;
        }
        ok(sm_session_set_batch(session, tokens, tokens + n));
        const unsigned zero = micro == 0 ? SM_RUN_ZERO_GRAD : 0;
        const unsigned update = micro + 1 == n_accum ? SM_RUN_OPTIMIZER : 0;
        ok(sm_session_run(session, zero | SM_RUN_FORWARD | SM_RUN_BACKWARD | update, NULL));
    }
    ok(sm_session_synchronize(session));
}

// A workload's checks of gradients and updates, as the program makes them; the batches are the test's.
static struct {
    sm_feed feed;
    double grad_norm;
    sm_gradient_check gradients;
    sm_update_check *update;
} checked;

static inline sm_status checked_gradients(void *ctx, sm_session *session, SM_UNUSED int64_t first_batch, int n_accum,
                                          sm_row *row) {
    SM_ROW_TEXT(row->gradient_check, "as the program does");
    const sm_status status = sm_check_gradients(session, n_accum, checked.feed, ctx, &checked.gradients);
    checked.grad_norm = checked.gradients.grad_norm;
    return status;
}

static inline sm_status checked_before(SM_UNUSED void *ctx, sm_session *session, int64_t step,
                                       SM_UNUSED unsigned phases, uint64_t seed) {
    SM_TRY(step == 1 ? sm_poison_gradients(session) : SM_OK);
    return sm_update_check_begin(session, seed + (uint64_t)step, &checked.update);
}

static inline sm_status checked_after(SM_UNUSED void *ctx, sm_session *session, SM_UNUSED sm_row *row) {
    sm_update_result result;
    const sm_status status = sm_update_check_end(checked.update, session, checked.grad_norm, &result);
    checked.update = NULL;
    checked.grad_norm = 0;
    return status;
}

#define CHECKED .check_gradients = checked_gradients, .before_step = checked_before, .after_update = checked_after

// For tests that measure: a few warm-up steps and repetitions of the whole step, no limits.
static inline sm_protocol sm_protocol_default(void) {
    return (sm_protocol){
        .n_warmup = 3,
        .n_repetitions = 10,
        .n_attribution = 3,
        .min_samples = 10,
        .max_samples = 1000,
        .n_accum = 1,
        .pass = SM_PASS_STEP,
    };
}
