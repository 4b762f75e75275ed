// loss_check.c: a slice of the batch through the reference backend, with the device's weights.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loss_check.h"

// The reference is serial: about this much work keeps the check near two seconds.
static const double budget_flops = 8e9;

// fp32 kernels that sum in another order differ by about 1e-6 a token at 124M parameters.
static const double tolerance_f32 = 1e-4;

typedef struct {
    int64_t B; // the first sequence, and the last where there are several
    int64_t T; // their first tokens
} slice;

static slice choose_slice(const sm_plan *plan, double dropout_p) {
    slice s = {.B = plan->B < 2 ? 1 : 2, .T = plan->T};
    // Dropout numbers an attention weight by its place in T x T, so a shorter T would draw other masks,
    // and another batch's sequence likewise.
    if (dropout_p > 0) {
        s.B = 1;
        return s;
    }
    int64_t n_tokens = (int64_t)(budget_flops / (2.0 * (double)plan->n_params)) / s.B;
    n_tokens = n_tokens < 4 ? 4 : n_tokens > 32 ? 32 : n_tokens;
    s.T = s.T < n_tokens ? s.T : n_tokens;
    return s;
}

// Row of the batch that the slice's sequence i is.
static int64_t batch_row(const sm_plan *plan, int64_t i) { return i == 0 ? 0 : plan->B - 1; }

static sm_status copy_params(sm_session *from, sm_session *to) {
    sm_status status = SM_OK;
    int64_t largest = 1;
    for (int i = 0; i < to->plan->n_tensors; i++) {
        if (sm_gpt2_is_param(to->plan, i) && sm_tensor_elems(&to->plan->tensors[i]) > largest) {
            largest = sm_tensor_elems(&to->plan->tensors[i]);
        }
    }
    float *values = malloc((size_t)largest * sizeof *values);
    if (values == NULL) {
        return sm_fail(SM_ERR_OOM, "loss check: no memory for a copy of %lld parameters", (long long)largest);
    }
    for (int i = 0; i < to->plan->n_tensors; i++) {
        if (sm_gpt2_is_param(to->plan, i)) {
            int source = sm_plan_find_tensor(from->plan, to->plan->tensors[i].name);
            int64_t n_elems = sm_gpt2_param_elems(to->plan, i);
            SM_TRY_GOTO(sm_session_read(from, source, n_elems, values));
            SM_TRY_GOTO(sm_session_write(to, i, n_elems, values));
        }
    }
cleanup:
    free(values);
    return status;
}

// Per-token losses of the slice by the reference, into losses (s.B * s.T).
static sm_status reference_losses(sm_session *session, const sm_gpt2_config *config, double dropout_p, uint64_t seed,
                                  slice s, const int32_t *tokens, const int32_t *targets, float *losses) {
    sm_status status = SM_OK;
    const sm_backend *backend = sm_backend_find("reference");
    const sm_open_options open_options = {.n_threads = 1};
    const sm_gpt2_options options = {.B = s.B, .T = s.T, .dtype = SM_F32, .dropout_p = dropout_p, .seed = seed};
    const sm_adamw adamw = sm_adamw_default;
    sm_device *device = NULL;
    sm_session *reference = NULL;
    sm_plan *plan = NULL;
    int32_t *ids = malloc(2 * (size_t)(s.B * s.T) * sizeof *ids);
    if (ids == NULL) {
        return sm_fail(SM_ERR_OOM, "loss check: no memory for %lld tokens", (long long)(s.B * s.T));
    }
    for (int64_t b = 0; b < s.B; b++) {
        int64_t row = batch_row(session->plan, b) * session->plan->T;
        memcpy(ids + b * s.T, tokens + row, (size_t)s.T * sizeof *ids);
        memcpy(ids + (s.B + b) * s.T, targets + row, (size_t)s.T * sizeof *ids);
    }
    SM_TRY_GOTO(backend->open(0, &open_options, &device));
    SM_TRY_GOTO(sm_gpt2_build(config, &options, &plan));
    SM_TRY_GOTO(sm_session_open(device, plan, &reference));
    SM_TRY_GOTO(copy_params(session, reference));
    SM_TRY_GOTO(sm_session_set_hyper(reference, &adamw, 1, 1));
    SM_TRY_GOTO(sm_session_set_batch(reference, ids, ids + s.B * s.T));
    reference->n_micro_steps = session->n_micro_steps - 1; // the masks that the device drew
    SM_TRY_GOTO(sm_session_run(reference, SM_RUN_FORWARD, NULL));
    SM_TRY_GOTO(sm_session_read(reference, reference->plan->losses, s.B * s.T, losses));
cleanup:
    sm_session_close(reference);
    if (device != NULL) {
        backend->close(device);
    }
    free(ids);
    return status;
}

// Compares the device's losses (B*T) with the slice's; fills the result.
static sm_status compare(const sm_plan *plan, slice s, const float *losses, const float *expected,
                         sm_loss_check *result) {
    double sum = 0;
    double sum_reference = 0;
    for (int64_t b = 0; b < s.B; b++) {
        for (int64_t t = 0; t < s.T; t++) {
            double got = losses[batch_row(plan, b) * plan->T + t];
            double want = expected[b * s.T + t];
            double error = fabs(got - want) / fmax(1.0, fabs(want));
            if (!(error <= result->max_error)) { // NaN, too, becomes the largest
                result->max_error = error;
            }
            sum += got;
            sum_reference += want;
        }
    }
    result->loss = sum / (double)(s.B * s.T);
    result->loss_reference = sum_reference / (double)(s.B * s.T);
    if (!(result->max_error <= result->tolerance)) {
        return sm_fail(SM_ERR_MISMATCH,
                       "wrong loss: %.6f where the reference has %.6f (one token's differs by %.2g, allowed is %.2g); "
                       "no speed is reported",
                       result->loss, result->loss_reference, result->max_error, result->tolerance);
    }
    return SM_OK;
}

sm_status sm_check_loss(sm_session *session, const sm_gpt2_config *config, double dropout_p, uint64_t seed,
                        const int32_t *tokens, const int32_t *targets, sm_loss_check *result) {
    sm_status status = SM_OK;
    const sm_plan *plan = session->plan;
    const slice s = choose_slice(plan, dropout_p);
    *result = (sm_loss_check){.tolerance = tolerance_f32};
    snprintf(result->how, sizeof result->how, "first %lld tokens of %lld of %lld sequences, each against the reference",
             (long long)s.T, (long long)s.B, (long long)plan->B);
    float *losses = malloc((size_t)(plan->B * plan->T) * sizeof *losses);
    float *expected = malloc((size_t)(s.B * s.T) * sizeof *expected);
    if (losses == NULL || expected == NULL) {
        status = sm_fail(SM_ERR_OOM, "loss check: no memory for %lld losses", (long long)(plan->B * plan->T));
        goto cleanup;
    }
    SM_TRY_GOTO(sm_session_set_batch(session, tokens, targets));
    SM_TRY_GOTO(sm_session_run(session, SM_RUN_FORWARD, NULL));
    SM_TRY_GOTO(sm_session_synchronize(session));
    SM_TRY_GOTO(sm_session_read(session, plan->losses, plan->B * plan->T, losses));
    SM_TRY_GOTO(reference_losses(session, config, dropout_p, seed, s, tokens, targets, expected));
    SM_TRY_GOTO(compare(plan, s, losses, expected, result));
cleanup:
    free(losses);
    free(expected);
    return status;
}
