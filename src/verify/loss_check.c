// loss_check.c: a slice of the batch through the reference backend, with the device's weights.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loss_check.h"

// The reference is serial: about this much work keeps the check near two seconds (bf16: four, for the same tokens, so
// that the losses of all precisions compare).
static const double budget_flops = 8e9;

// fp32 kernels that sum in another order differ by about 1e-6 a token at 124M parameters.
static const double tolerance_f32 = 1e-4;

// How far rounding moves a token's loss depends on the model: in bf16 logits near -100 are rounded to multiples of 0.5,
// those of a fresh model, near 1, to 2^-7. So the reference is asked: it computes the losses a second time in the
// device's precision, the result of every op rounded, and what that changes is the scale. A device rounds at
// other places (not between ops that it fuses, sums in another order) and so arrives at other losses, as far away.
// One bias left out changes the losses of a fresh model in bf16 six times as much or more, one attention ten times.
static const double tolerance_in_roundings = 4;

typedef struct {
    int64_t B;        // the first sequence, and the last where there are several
    int64_t T;        // tokens of each
    int64_t first[2]; // of them
} slice;

// Where in a row of documents a slice of T tokens begins: with the shortest document that another follows, so that
// attention that crosses from one to the other shows.
static int64_t find_boundary(const int32_t *starts, int64_t n, int64_t T) {
    int64_t first = 0;
    int64_t shortest = n;
    for (int64_t t = 1; t < n; t++) {
        const int64_t length = starts[t] - starts[t - 1]; // above 0 where t begins another
        if (length > 1 && length < shortest && starts[t - 1] + T <= n) {
            shortest = length;
            first = starts[t - 1];
        }
    }
    return first;
}

static slice choose_slice(const sm_plan *plan, double dropout_p, const int32_t *starts) {
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
    for (int64_t i = 0; i < s.B && starts != NULL; i++) {
        const int64_t row = i == 0 ? 0 : plan->B - 1;
        s.first[i] = find_boundary(starts + row * plan->T, plan->T, s.T);
    }
    return s;
}

// What is compared, a token each: losses of the device, of the reference, and of the reference rounded.
typedef struct {
    int64_t n;
    float *got;
    float *want;
    float *want_rounded;
} losses;

// Token of the batch that the slice's sequence i begins with.
static int64_t first_token(const sm_plan *plan, const slice *s, int64_t i) {
    return (i == 0 ? 0 : plan->B - 1) * plan->T + s->first[i];
}

// Room for the largest tensor of a plan.
static float *allocate_largest(const sm_plan *plan) {
    int64_t largest = 1;
    for (int i = 0; i < plan->n_tensors; i++) {
        const int64_t n_elems = sm_tensor_elems(&plan->tensors[i]);
        largest = n_elems > largest ? n_elems : largest;
    }
    float *values = malloc((size_t)largest * sizeof *values);
    if (values == NULL) {
        sm_fail(SM_ERR_OOM, "loss check: no memory for a copy of %lld elements", (long long)largest);
    }
    return values;
}

// Copies the device's parameters.
static sm_status copy_params(sm_session *from, sm_session *to, float *values) {
    for (int i = 0; i < to->plan->n_tensors; i++) {
        if (sm_plan_is_param(to->plan, i)) {
            const int source = sm_plan_find_tensor(from->plan, to->plan->tensors[i].name);
            const int64_t n_elems = to->plan->tensors[i].real_elems;
            SM_TRY(sm_session_read(from, source, n_elems, values));
            SM_TRY(sm_session_write(to, i, n_elems, values));
        }
    }
    return SM_OK;
}

// What the check is of.
typedef struct {
    sm_session *session;
    const sm_model_config *config;
    double dropout_p;
    uint64_t seed;
    const int32_t *tokens;
    const int32_t *targets;
    const int32_t *starts; // NULL: rows are no documents
    slice slice;
} subject;

// The reference's session on the slice, its batch in place.
static sm_status open_reference(const subject *of, sm_precision precision, sm_device *device, sm_session **reference) {
    sm_status status = SM_OK;
    const slice s = of->slice;
    const sm_plan *whole = of->session->plan;
    const sm_plan_options options = {.B = s.B,
                                     .T = s.T,
                                     .dtype = precision.dtype,
                                     .products = precision.products,
                                     .documents = of->starts != NULL,
                                     .dropout_p = of->dropout_p,
                                     .seed = of->seed};
    const sm_step_settings none = {0};
    sm_plan *plan = NULL;
    int32_t *ids = malloc(3 * (size_t)(s.B * s.T) * sizeof *ids);
    if (ids == NULL) {
        return sm_fail(SM_ERR_OOM, "loss check: no memory for %lld tokens", (long long)(s.B * s.T));
    }
    for (int64_t b = 0; b < s.B; b++) {
        const int64_t first = first_token(whole, &s, b);
        memcpy(ids + b * s.T, of->tokens + first, (size_t)s.T * sizeof *ids);
        memcpy(ids + (s.B + b) * s.T, of->targets + first, (size_t)s.T * sizeof *ids);
        for (int64_t t = 0; t < s.T && of->starts != NULL; t++) {
            ids[(2 * s.B + b) * s.T + t] = of->starts[first + t] - (int32_t)s.first[b];
        }
    }
    SM_TRY_GOTO(sm_model_build(of->config, &options, &plan));
    SM_TRY_GOTO(sm_session_open(device, plan, reference));
    SM_TRY_GOTO(sm_session_set_hyper(*reference, &none, 1, 1));
    SM_TRY_GOTO(sm_session_set_batch(*reference, ids, ids + s.B * s.T));
    if (of->starts != NULL) {
        SM_TRY_GOTO(sm_session_set_documents(*reference, ids + 2 * s.B * s.T));
    }
cleanup:
    free(ids);
    return status;
}

// Per-token losses of the slice by the reference in a precision, with the device's parameters.
static sm_status reference_losses(const subject *of, sm_precision precision, sm_device *device, int64_t n, float *got) {
    sm_status status = SM_OK;
    sm_session *reference = NULL;
    float *values = NULL;
    SM_TRY_GOTO(open_reference(of, precision, device, &reference));
    values = allocate_largest(reference->plan);
    if (values == NULL) {
        status = SM_ERR_OOM;
        goto cleanup;
    }
    reference->n_micro_steps = of->session->n_micro_steps - 1; // the masks that the device drew
    SM_TRY_GOTO(copy_params(of->session, reference, values));
    SM_TRY_GOTO(sm_session_run(reference, SM_RUN_FORWARD, NULL));
    SM_TRY_GOTO(sm_session_read(reference, reference->plan->losses, n, got));
cleanup:
    sm_session_close(reference);
    free(values);
    return status;
}

// Root mean square of a - b.
static double rms_difference(int64_t n, const float *a, const float *b) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    }
    return sqrt(sum / (double)n);
}

static double mean(int64_t n, const float *values) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += values[i];
    }
    return sum / (double)n;
}

// Largest |difference|, relative to max(1, loss); NaN, too, becomes the largest.
static double largest_difference(int64_t n, const float *got, const float *want) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        double error = fabs((double)got[i] - want[i]) / fmax(1.0, fabs((double)want[i]));
        if (!(error <= largest)) {
            largest = error;
        }
    }
    return largest;
}

static sm_status judge(const losses *l, bool together, sm_loss_check *result) {
    result->loss = mean(l->n, l->got);
    result->loss_reference = mean(l->n, l->want);
    if (together) {
        result->error = rms_difference(l->n, l->got, l->want);
        result->tolerance = tolerance_f32 + tolerance_in_roundings * rms_difference(l->n, l->want_rounded, l->want);
    } else {
        result->error = largest_difference(l->n, l->got, l->want);
        result->tolerance = tolerance_f32;
    }
    if (!(result->error <= result->tolerance) || !isfinite(result->tolerance)) {
        return sm_fail(SM_ERR_MISMATCH,
                       "wrong loss: %.6f where the reference has %.6f (%s %.2g, allowed is %.2g); no speed is reported",
                       result->loss, result->loss_reference,
                       together ? "tokens' differ by, in the root mean square," : "one token's differs by",
                       result->error, result->tolerance);
    }
    return SM_OK;
}

// The device's losses of the slice, out of those of its batch.
static sm_status device_losses(sm_session *session, slice s, float *got) {
    const sm_plan *plan = session->plan;
    float *all = malloc((size_t)(plan->B * plan->T) * sizeof *all);
    if (all == NULL) {
        return sm_fail(SM_ERR_OOM, "loss check: no memory for %lld losses", (long long)(plan->B * plan->T));
    }
    sm_status status = sm_session_read(session, plan->losses, plan->B * plan->T, all);
    for (int64_t b = 0; b < s.B && status == SM_OK; b++) {
        memcpy(got + b * s.T, all + first_token(plan, &s, b), (size_t)s.T * sizeof *got);
    }
    free(all);
    return status;
}

sm_status sm_check_loss(sm_session *session, const sm_model_config *config, double dropout_p, uint64_t seed,
                        const int32_t *tokens, const int32_t *targets, const int32_t *starts, sm_loss_check *result) {
    sm_status status = SM_OK;
    const sm_plan *plan = session->plan;
    const bool together = sm_precision_is_rounded(sm_plan_precision(plan));
    const slice s = choose_slice(plan, dropout_p, starts);
    const subject of = {session, config, dropout_p, seed, tokens, targets, starts, s};
    const sm_backend *backend = sm_backend_find("reference");
    sm_device *device = NULL;
    *result = (sm_loss_check){.tolerance = tolerance_f32};
    snprintf(result->how, sizeof result->how, "%s%lld tokens of %lld of %lld sequences, %s against the reference",
             starts == NULL ? "first " : "", (long long)s.T, (long long)s.B, (long long)plan->B,
             together ? "together" : "each");
    losses l = {.n = s.B * s.T};
    l.got = malloc(3 * (size_t)l.n * sizeof *l.got);
    if (l.got == NULL) {
        return sm_fail(SM_ERR_OOM, "loss check: no memory for %lld losses", (long long)l.n);
    }
    l.want = l.got + l.n;
    l.want_rounded = l.want + l.n;
    SM_TRY_GOTO(sm_session_set_batch(session, tokens, targets));
    if (starts != NULL) {
        SM_TRY_GOTO(sm_session_set_documents(session, starts));
    }
    SM_TRY_GOTO(sm_session_run(session, SM_RUN_FORWARD, NULL));
    SM_TRY_GOTO(sm_session_synchronize(session));
    SM_TRY_GOTO(device_losses(session, s, l.got));
    SM_TRY_GOTO(backend->open(0, &(sm_open_options){.n_threads = 1}, &device));
    SM_TRY_GOTO(reference_losses(&of, (sm_precision){.dtype = SM_F32}, device, l.n, l.want));
    if (together) {
        SM_TRY_GOTO(reference_losses(&of, sm_plan_precision(plan), device, l.n, l.want_rounded));
    }
    SM_TRY_GOTO(judge(&l, together, result));
cleanup:
    if (device != NULL) {
        backend->close(device);
    }
    free(l.got);
    return status;
}
