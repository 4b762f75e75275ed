// loss_check.c: runs a slice of the batch through the reference backend, with the device's weights.
#include "src/rewrites/passes.h"
#include "src/verify/step_checks.h"
#include "philox.h"

// The reference sums in double and is slow: this work keeps the check below a second (bf16: two, for the same tokens).
// A run makes it several times, with other sequences.
static const double budget_flops = 4e9;
static const double budget_beyond_flops = 1e9; // of more than 32 tokens, up to all

// The same for all tokens of a sequence, which the cpu backend computes when own code computed the others.
static const double budget_sequence_flops = 3e11;

// Largest deviation of the mean of so few tokens from the mean of all, in standard errors.
static const double most_standard_errors = 8;

// fp32 kernels that sum in another order differ by about 1e-6 per token at 124M parameters.
static const double tolerance_f32 = 1e-4;

// The effect of rounding on a token's loss depends on the model: bf16 rounds logits near -100 to multiples of 0.5, but
// those of an untrained model, near 1, to 2^-7. So the reference computes the losses a second time in the device's
// precision, rounding the result of every op, and the change is the scale. A device rounds at other places (not between
// fused ops, and it sums in another order), so it gets other losses at about the same distance. In an untrained model
// in bf16, leaving out one bias changes the losses at least six times as much, one attention ten times.
static const double tolerance_in_roundings = 4;

typedef struct {
    int64_t B;           // sequences: one or two
    int64_t T;           // tokens of each
    int64_t sequence[2]; // their indices in the batch
    int64_t first[2];    // first token of each
} slice;

// The start of a slice of T tokens in a row of documents: before the end of the shortest document that another follows,
// so that attention across the boundary is found.
static int64_t find_boundary(const int32_t *starts, int64_t n, int64_t T) {
    int64_t first = 0;
    int64_t shortest = n;
    for (int64_t t = 1; t < n; t++) {
        const int64_t length = starts[t] - starts[t - 1]; // > 0 where t begins another document
        if (length > 1 && length < shortest && starts[t - 1] + T <= n) {
            shortest = length;
            first = starts[t - 1];
        }
    }
    return first;
}

static slice choose_slice(const sm_plan *plan, double dropout_p, const int32_t *starts, const sm_loss_draw *draw) {
    slice s = {.B = plan->B < 2 ? 1 : 2, .T = plan->T};
    const uint32_t begin = sm_philox4x32(sm_philox_key(draw->seed, "loss check"), 0, 0).word[0];
    // The dropout mask of an attention weight depends on its index in T x T and the batch, so other shapes have others.
    if (dropout_p > 0) {
        s.B = 1;
        return s;
    }
    int64_t n_tokens = (int64_t)(budget_flops / (2.0 * (double)plan->n_params)) / s.B;
    const int64_t n_beyond = (int64_t)(budget_beyond_flops / (2.0 * (double)plan->n_params)) / s.B;
    n_tokens = n_tokens < 4 ? 4 : n_tokens > 32 ? 32 : n_tokens;
    n_tokens = n_beyond > n_tokens ? n_beyond : n_tokens;
    s.T = s.T < n_tokens ? s.T : n_tokens;
    for (int64_t i = 0; i < s.B; i++) {
        s.sequence[i] = (begin + 2 * draw->round + i) % plan->B;
        s.first[i] = starts == NULL ? 0 : find_boundary(starts + s.sequence[i] * plan->T, plan->T, s.T);
    }
    return s;
}

// Token losses to compare: the device's, the reference's, and those of the rounded reference.
typedef struct {
    int64_t n;
    float *got;
    float *want;
    float *want_rounded;
} losses;

// The batch's token at which the slice's sequence i begins.
static int64_t first_token(const sm_plan *plan, const slice *s, int64_t i) {
    return s->sequence[i] * plan->T + s->first[i];
}

static int same_tensor(const sm_plan *plan, const sm_plan *in, int tensor) {
    return sm_plan_find_tensor(in, plan->tensors[tensor].name);
}

// Whether the group `root` has the same layout of parameters as that of another plan.
static bool is_same_group(const sm_plan *plan, int root, const sm_plan *other, int other_root) {
    const sm_tensor *a = &plan->tensors[root];
    const sm_tensor *b = &other->tensors[other_root];
    if (a->dtype != b->dtype || sm_tensor_elems(a) != sm_tensor_elems(b)) {
        return false;
    }
    for (int i = 0; i < plan->n_tensors; i++) {
        if (!sm_plan_is_param(plan, i) || sm_plan_root(plan, i) != root) {
            continue;
        }
        const int k = same_tensor(plan, other, i);
        if (k == SM_NO_TENSOR || sm_plan_root(other, k) != other_root ||
            other->tensors[k].view_offset_elems != plan->tensors[i].view_offset_elems) {
            return false;
        }
    }
    return true;
}

// If the device's memory is the host's, the reference reads the parameters in place.
static sm_status share_params(sm_session *from, sm_plan *plan) {
    for (int i = 0; i < plan->n_tensors; i++) {
        sm_tensor *t = &plan->tensors[i];
        const int root = sm_plan_root(plan, i);
        if (t->role != SM_ROLE_PARAMETER) {
            continue;
        }
        if (root != i) {
            const char *memory = plan->tensors[root].memory;
            t->memory = memory == NULL ? NULL : memory + (size_t)t->view_offset_elems * sm_dtype_size(t->dtype);
            continue;
        }
        const float *values = NULL;
        const int of = same_tensor(plan, from->plan, i);
        if (of != SM_NO_TENSOR && t->dtype == SM_F32 && is_same_group(plan, i, from->plan, of)) {
            SM_TRY(sm_session_find(from, of, &values));
        }
        t->memory = values;
    }
    return SM_OK;
}

// The subject of the check.
typedef struct {
    sm_session *session;
    const sm_model_config *config;
    double dropout_p;
    uint64_t seed;
    const int32_t *tokens;
    const int32_t *targets;
    const int32_t *starts; // NULL: rows are not documents
    slice slice;
} subject;

// The reference's session on the slice, with its batch set.
static sm_status open_reference(const subject *of, sm_precision precision, sm_device *device, sm_session **reference) {
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
    SM_OWN(sm_plan) *plan = NULL;
    SM_FREED int32_t *ids = sm_malloc(3 * (size_t)(s.B * s.T) * sizeof *ids);
    for (int64_t b = 0; b < s.B; b++) {
        const int64_t first = first_token(whole, &s, b);
        memcpy(ids + b * s.T, of->tokens + first, (size_t)s.T * sizeof *ids);
        memcpy(ids + (s.B + b) * s.T, of->targets + first, (size_t)s.T * sizeof *ids);
        for (int64_t t = 0; t < s.T && of->starts != NULL; t++) {
            ids[(2 * s.B + b) * s.T + t] = of->starts[first + t] - (int32_t)s.first[b];
        }
    }
    SM_TRY(sm_model_build(of->config, &options, &plan));
    // A forward by itself is in the data's format, and the device's was a step's.
    const bool is_of_step = sm_plan_find_tensor(whole, SM_FP8_PREFIX "e4m3.scales") != SM_NO_TENSOR;
    SM_TRY(precision.products == SM_PRODUCTS_FP8 && is_of_step ? sm_rewrite_fp8(plan) : SM_OK);
    SM_TRY(share_params(of->session, plan));
    SM_TRY(sm_session_open(device, sm_give(&plan), reference));
    SM_TRY(sm_session_set_hyper(*reference, &none, 1, 1));
    SM_TRY(sm_session_set_batch(*reference, ids, ids + s.B * s.T));
    return of->starts != NULL ? sm_session_set_documents(*reference, ids + 2 * s.B * s.T) : SM_OK;
}

// Scales of factors in 8 bits, which are views of one element: those that the device has for its next step.
static sm_status copy_scales(sm_session *from, sm_session *to) {
    for (int i = 0; i < to->plan->n_tensors; i++) {
        const sm_tensor *t = &to->plan->tensors[i];
        const bool is_scale = t->view_of != SM_NO_TENSOR && to->plan->tensors[t->view_of].init_value > 0;
        const int of = is_scale && t->role == SM_ROLE_OPTIMIZER ? same_tensor(to->plan, from->plan, i) : SM_NO_TENSOR;
        float scale;
        SM_TRY(of != SM_NO_TENSOR ? sm_session_read(from, of, 1, &scale) : SM_OK);
        SM_TRY(of != SM_NO_TENSOR ? sm_session_write(to, i, 1, &scale) : SM_OK);
    }
    return SM_OK;
}

// Token losses of the slice by a reference, with the device's parameters.
static sm_status reference_losses(const subject *of, sm_device *device, sm_precision precision, int64_t n,
                                  float *want) {
    SM_OWN(sm_session) *reference = NULL;
    SM_TRY(open_reference(of, precision, device, &reference));
    SM_TRY(sm_session_copy_params(of->session, reference));
    reference->n_micro_steps = of->session->n_micro_steps - 1; // the masks that the device drew
    SM_TRY(copy_scales(of->session, reference));
    SM_TRY(sm_session_run(reference, SM_RUN_ZERO_GRAD | SM_RUN_FORWARD, NULL));
    return sm_session_read(reference, reference->plan->losses, n, want);
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

// Largest |difference|, relative to max(1, loss); NaN counts as the largest.
static double largest_difference(int64_t n, const float *got, const float *want) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        double error = fabs((double)got[i] - want[i]) / fmax(1.0, fabs((double)want[i]));
        largest = sm_error_is_larger(error, largest) ? error : largest;
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
    SM_FAIL_IF(!(result->error <= result->tolerance) || !isfinite(result->tolerance), SM_ERR_MISMATCH,
               "wrong loss: %.6f where the reference has %.6f (%s %.2g, allowed is %.2g); no speed is reported",
               result->loss, result->loss_reference,
               together ? "tokens' differ by, in the root mean square," : "one token's differs by", result->error,
               result->tolerance);
    return SM_OK;
}

// Checks that the drawn sequences represent the batch: at the same positions, the mean over all sequences must equal
// theirs within chance, judged by the spread of the tokens' losses. So other sequences that were left out are found.
static sm_status compare_with_batch(const sm_plan *plan, const slice *s, const float *all, const int32_t *targets) {
    double sums[2] = {0}; // of all sequences, of the drawn ones
    double squares = 0;
    double n[2] = {0};
    for (int64_t b = 0; b < plan->B; b++) {
        const bool is_drawn = b == s->sequence[0] || b == s->sequence[s->B - 1];
        for (int64_t t = 0; t < s->T; t++) {
            const int64_t i = b * plan->T + t;
            if (targets[i] < 0) {
                continue;
            }
            squares += (double)all[i] * all[i];
            for (int k = 0; k <= is_drawn; k++) {
                sums[k] += (double)all[i];
                n[k]++;
            }
        }
    }
    if (n[1] < 2 || n[0] == n[1]) {
        return SM_OK;
    }
    const double mean_of_all = sums[0] / n[0];
    const double mean_of_drawn = sums[1] / n[1];
    const double spread = sqrt(fmax(0, squares / n[0] - mean_of_all * mean_of_all));
    const double allowed = most_standard_errors * spread / sqrt(n[1]) + tolerance_f32 * fmax(1, fabs(mean_of_all));
    SM_FAIL_IF(!(fabs(mean_of_all - mean_of_drawn) <= allowed), SM_ERR_MISMATCH,
               "wrong loss: its mean over the first %lld tokens of all %lld sequences is %.6f, of those that "
               "the reference agrees with %.6f (chance allows %.2g); no speed is reported",
               (long long)s->T, (long long)plan->B, mean_of_all, mean_of_drawn, allowed);
    return SM_OK;
}

// The device's losses of the slice, taken from those of its batch.
static sm_status device_losses(sm_session *session, const subject *of, float *got) {
    const sm_plan *plan = session->plan;
    const slice s = of->slice;
    SM_FREED float *all = sm_malloc((size_t)(plan->B * plan->T) * sizeof *all);
    SM_TRY(sm_session_read(session, plan->losses, plan->B * plan->T, all));
    for (int64_t b = 0; b < s.B; b++) {
        memcpy(got + b * s.T, all + first_token(plan, &s, b), (size_t)s.T * sizeof *got);
    }
    // Sequences of documents begin at different positions, so other sequences have no same tokens to compare with.
    return of->starts == NULL ? compare_with_batch(plan, &s, all, of->targets) : SM_OK;
}

// Own code may be right for a sequence's first tokens alone. So the cpu backend, with its own kernels, computes the
// losses of a whole sequence, too.
static sm_status check_sequence(subject of, const sm_loss_draw *draw, sm_loss_check *result) {
    const sm_plan *plan = of.session->plan;
    const sm_backend *backend = sm_backend_find("cpu");
    const uint32_t drawn = sm_philox4x32(sm_philox_key(draw->seed, "loss sequence"), (uint64_t)draw->round, 0).word[0];
    const int64_t most = (int64_t)(budget_sequence_flops / (2.0 * (double)plan->n_params));
    const int64_t T = most < plan->T ? most : plan->T;
    SM_OWN(sm_device) *device = NULL;
    sm_loss_check whole = {.tolerance = tolerance_f32};
    if (backend == NULL || T <= of.slice.T) {
        return SM_OK;
    }
    of.slice = (slice){.B = 1, .T = T, .sequence = {drawn % plan->B}};
    SM_FREED float *values = sm_malloc(2 * (size_t)T * sizeof *values);
    const losses l = {.n = T, .got = values, .want = values + T};
    SM_TRY(sm_session_read_part(of.session, plan->losses, of.slice.sequence[0] * plan->T, T, l.got));
    SM_TRY(backend->open(0, &(sm_open_options){.n_threads = 0}, &device));
    SM_TRY(reference_losses(&of, device, (sm_precision){.dtype = SM_F32}, T, l.want));
    SM_TRY(judge(&l, false, &whole));
    sm_append(result->how, sizeof result->how, ", and %lld of one against the cpu backend", (long long)T);
    result->error = fmax(result->error, whole.error);
    return SM_OK;
}

sm_status sm_check_loss(sm_session *session, const sm_model_config *config, double dropout_p, uint64_t seed,
                        const int32_t *tokens, const int32_t *targets, const int32_t *starts, const sm_loss_draw *draw,
                        sm_loss_check *result) {
    const sm_plan *plan = session->plan;
    const bool together = sm_precision_is_rounded(sm_plan_precision(plan));
    const slice s = choose_slice(plan, dropout_p, starts, draw);
    const subject of = {session, config, dropout_p, seed, tokens, targets, starts, s};
    SM_OWN(sm_device) *device = NULL;
    *result = (sm_loss_check){.tolerance = tolerance_f32};
    snprintf(result->how, sizeof result->how, "%s%lld tokens of %lld of %lld sequences, %s against the reference",
             starts == NULL ? "first " : "", (long long)s.T, (long long)s.B, (long long)plan->B,
             together ? "together" : "each");
    const int64_t n = s.B * s.T;
    SM_FREED float *room = sm_malloc(3 * (size_t)n * sizeof *room);
    const losses l = {.n = n, .got = room, .want = room + n, .want_rounded = room + 2 * n};
    SM_TRY(sm_session_synchronize(session));
    SM_TRY(device_losses(session, &of, l.got));
    SM_TRY(sm_backend_find("reference")->open(0, &(sm_open_options){.n_threads = 1}, &device));
    SM_TRY(reference_losses(&of, device, (sm_precision){.dtype = SM_F32}, l.n, l.want));
    SM_TRY(together ? reference_losses(&of, device, sm_plan_precision(plan), l.n, l.want_rounded) : SM_OK);
    SM_TRY(judge(&l, together, result));
    return session->device->info.own_kernels[0] != '\0' && !together ? check_sequence(of, draw, result) : SM_OK;
}
