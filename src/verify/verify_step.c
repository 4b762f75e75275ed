// verify_step.c: compares a whole training step, in any mode, with the reference's naive plan; the same for documents
// that share rows, with every kind of attention; and the update of every optimizer, from the device's own gradients.
//
// The models are tiny but complete, with dimensions that suit no vector (sm_model.odd): GPT-2 with heads of five
// channels and a padded vocabulary. The batch's 527 rows (1,037 for narrow data) are several chunks of the loss head.
#include "philox.h"
#include "src/verify/step_checks.h"
#include "src/verify/verify.h"

enum { BATCH = 31, NARROW_BATCH = 61, MOST_BATCH = 64, SEQUENCE = 17, N_STEPS = 3, N_UPDATES = 2 };

// Adam divides a gradient by its own size, so if the gradient is as small as its rounding error the update is noise on
// any device. With eps well above that error such weights hardly move: gradients are up to 0.03, and bf16 data cause an
// error of at most 8e-4 of that, which moves a weight by less than a tenth of the learning rate in a step. Clipping
// acts on the first two steps (GPT-2's norms are 0.74 and 0.60), and not on the third (0.54).
static const sm_step_settings settings = {
    .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-2, .weight_decay = 0.1, .grad_clip = 0.6};

// Rounding errors pass through about twenty ops and grow at each, to near 1e-6 in f32. A wrong or missing term is
// orders of magnitude above these bounds. Narrow data, and operands of tf32 products, lose a unit roundoff at each op.
typedef struct {
    double value;    // loss, gradient norm
    double gradient; // each tensor
    double weight;   // difference of the weights, in units of the learning rate
} tolerances;

static const tolerances tolerances_f32 = {1e-5, 5e-5, 1e-3};
static const tolerances tolerances_in_roundings = {1.28, 12.8, 128};
// In fp8 the reference rounds to 8 bits, too. But where bf16's rounding differs, some numbers of 8 bits become their
// neighbours: gradients differ by up to 0.21 between kinds of attention. A missing term or a wrong scale makes 1 and more.
static const tolerances tolerances_fp8 = {5e-2, 0.5, 1};

static tolerances tolerances_of(sm_precision precision) {
    const double rounding = sm_precision_roundoff(precision);
    tolerances t = tolerances_f32;
    if (sm_precision_is_rounded(precision)) {
        t.value += tolerances_in_roundings.value * rounding;
        t.gradient += tolerances_in_roundings.gradient * rounding;
        t.weight += tolerances_in_roundings.weight * rounding;
    }
    return precision.products == SM_PRODUCTS_FP8 ? tolerances_fp8 : t;
}

enum { DEVICE, REFERENCE, N_SIDES };

// Options of the device's plan.
typedef struct {
    sm_mode mode;
    sm_recompute recompute;
    unsigned without;
    sm_attention attention;
    bool documents; // also the reference's
    int n_accum;
} variant;

typedef struct {
    const char *name;
    const sm_model *model;
    const sm_optimizer *optimizer;
    int batch; // sequences
    sm_session *session[N_SIDES];
    tolerances tolerance;
    float *values[N_SIDES]; // room for the largest parameter
    int n_accum;            // micro-batches in a step
    sm_verify_report report;
    void *context;
    int n_compared;
    int n_failed;
} checker;

static void report(checker *check, const char *what, int64_t n_values, double error, double tolerance) {
    char subject[4 * SM_NAME_SIZE];
    snprintf(subject, sizeof subject, "%s: %s", check->model->name, what);
    sm_verify_row row = {.check = check->name, .subject = subject, .n_values = n_values, .error = error, .reason = ""};
    row.tolerance = tolerance;
    row.ok = error <= tolerance;
    check->n_compared++;
    check->n_failed += !row.ok;
    check->report(&row, check->context);
}

// --- running ---------------------------------------------------------------------------

// Devices multiply bytes where all dimensions are multiples of this.
enum { FP8_STEP = 16 };
static int64_t round_up(int64_t n) { return (n + FP8_STEP - 1) / FP8_STEP * FP8_STEP; }

static sm_status open_side(const checker *check, sm_device *device, sm_precision precision, const variant *v,
                           sm_session **session) {
    const bool is_fp8 = precision.products == SM_PRODUCTS_FP8;
    const sm_plan_options options = {.B = is_fp8 ? round_up(check->batch) : check->batch,
                                     .T = SEQUENCE,
                                     .dtype = precision.dtype,
                                     .products = precision.products,
                                     .scaling = precision.dtype == SM_F16 ? sm_dynamic_scaling : (sm_loss_scaling){0},
                                     .dropout_p = 0.1,
                                     .seed = 1,
                                     .backward = true,
                                     .optimizer = check->optimizer,
                                     .one_micro_batch = check->n_accum == 1,
                                     .documents = v->documents,
                                     .recompute = v->recompute,
                                     .attention = v->attention,
                                     .max_tensor_bytes = device->info.max_alloc_bytes};
    SM_OWN(sm_plan) *plan = NULL;
    sm_model_config config = check->model->odd;
    if (is_fp8) {
        config.d_model = FP8_STEP * config.n_head;
        config.head_dim = config.head_dim > 0 ? FP8_STEP : 0;
        config.d_ff = round_up(config.d_ff);
    }
    SM_TRY(sm_model_build(&config, &options, &plan));
    SM_TRY(sm_plan_rewrite(plan, v->mode, v->without));
    return sm_session_open(device, sm_give(&plan), session);
}

static double uniform(uint64_t key, int64_t i) {
    return (double)sm_philox4x32(key, (uint64_t)i, 0).word[0] * 0x1p-31 - 1; // in [-1, 1)
}

// Weights that make every term of every gradient matter: GPT-2's initial ones would leave attention nearly uniform,
// biases zero and layernorm's weights one.
static void draw_weights(const sm_plan *plan, int tensor, float *values) {
    const double largest = plan->products == SM_PRODUCTS_FP8 ? 0.2 : 0.4; // the model is wider
    const sm_tensor *t = &plan->tensors[tensor];
    uint64_t key = sm_philox_key(1, t->name);
    for (int64_t i = 0; i < t->real_elems; i++) {
        values[i] = (float)(t->init_value + largest * uniform(key, i));
    }
}

static int64_t largest_param(const sm_plan *plan) {
    int64_t largest = 1;
    for (int i = 0; i < plan->n_tensors; i++) {
        int64_t n = sm_tensor_elems(&plan->tensors[i]);
        largest = sm_plan_is_param(plan, i) && n > largest ? n : largest;
    }
    return largest;
}

static sm_status write_weights(checker *check) {
    for (int side = 0; side < N_SIDES; side++) {
        check->values[side] = sm_malloc((size_t)largest_param(check->session[DEVICE]->plan) * sizeof(float));
        const sm_plan *plan = check->session[side] != NULL ? check->session[side]->plan : NULL;
        for (int i = 0; plan != NULL && i < plan->n_tensors; i++) {
            if (sm_plan_is_param(plan, i)) {
                draw_weights(plan, i, check->values[side]);
                SM_TRY(sm_session_write(check->session[side], i, plan->tensors[i].real_elems, check->values[side]));
            }
        }
    }
    return SM_OK;
}

// Documents of 1 to 7 tokens. The last positions of every other sequence are padding, and all of the last sequence.
// Padding has no targets.
static sm_status set_documents(sm_session *session, int number, int32_t *targets) {
    const int64_t B = session->plan->B;
    int32_t starts[MOST_BATCH * SEQUENCE];
    for (int64_t b = 0; b < B; b++) {
        const int n_real = b == B - 1 ? 0 : b % 2 == 0 ? SEQUENCE - 4 : SEQUENCE;
        int start = 0;
        int end = 0;
        for (int t = 0; t < SEQUENCE; t++) {
            const int64_t i = b * SEQUENCE + t;
            if (t == end || t >= n_real) {
                const sm_philox_block random =
                    sm_philox4x32(sm_philox_key(1, "documents"), (uint64_t)i, (uint64_t)number);
                start = t;
                end = t + 1 + (int)(random.word[0] % 7);
            }
            starts[i] = start;
            targets[i] = t < n_real ? targets[i] : -1;
        }
    }
    return sm_session_set_documents(session, starts);
}

// Runs forward and backward of micro-batch `number` (0, 1, ...), with random ids; one in eight targets is ignored.
static sm_status run_micro_batch(sm_session *session, int number, unsigned phases) {
    const uint32_t V = (uint32_t)session->plan->V;
    int32_t tokens[MOST_BATCH * SEQUENCE];
    int32_t targets[MOST_BATCH * SEQUENCE];
    for (int64_t i = 0; i < session->plan->B * SEQUENCE; i++) {
        sm_philox_block random = sm_philox4x32(sm_philox_key(1, "batch"), (uint64_t)i, (uint64_t)number);
        tokens[i] = (int32_t)(random.word[0] % V);
        targets[i] = random.word[1] % 8 == 0 ? -1 : (int32_t)(random.word[2] % V);
    }
    SM_TRY(session->plan->starts == SM_NO_TENSOR ? SM_OK : set_documents(session, number, targets));
    SM_TRY(sm_session_set_batch(session, tokens, targets));
    return sm_session_run(session, phases | SM_RUN_FORWARD | SM_RUN_BACKWARD, NULL);
}

// The gradients of step 1, 2, ..., summed over its micro-batches.
static sm_status run_gradients(checker *check, int step) {
    for (int side = 0; side < N_SIDES; side++) {
        sm_session *session = check->session[side];
        SM_TRY(sm_session_set_hyper(session, &settings, step, check->n_accum));
        for (int micro = 0; micro < check->n_accum; micro++) {
            unsigned phases = micro == 0 ? SM_RUN_ZERO_GRAD : 0;
            SM_TRY(run_micro_batch(session, (step - 1) * check->n_accum + micro, phases));
        }
    }
    return SM_OK;
}

// --- comparing -------------------------------------------------------------------------

// Compares "loss" or "gradient norm" of a step.
static sm_status compare_scalar(checker *check, const char *what, sm_status (*read)(sm_session *, double *), int step) {
    double values[N_SIDES];
    for (int side = 0; side < N_SIDES; side++) {
        SM_TRY(read(check->session[side], &values[side]));
    }
    report(check, SM_TEXT_IN(SM_NAME_SIZE, "%s of step %d", what, step), 1,
           sm_verify_error(SM_F64, 1, &values[DEVICE], &values[REFERENCE], 0), check->tolerance.value);
    return SM_OK;
}

// Divides gradients by the loss scale.
static sm_status unscale(sm_session *session, int64_t n_values, float *values) {
    double scale = 1;
    SM_TRY(sm_session_loss_scale(session, &scale));
    for (int64_t i = 0; i < n_values && scale != 1; i++) {
        values[i] = (float)(values[i] / scale);
    }
    return SM_OK;
}

// Compares one tensor for each parameter: its gradient (prefix "d.") or itself (prefix "").
static sm_status compare_tensors(checker *check, const char *what, const char *prefix, double scale, double tolerance) {
    const sm_plan *model_plan = check->session[REFERENCE]->plan;
    for (int i = 0; i < model_plan->n_tensors; i++) {
        if (!sm_plan_is_param(model_plan, i)) {
            continue;
        }
        const int64_t n_values = sm_tensor_elems(&model_plan->tensors[i]);
        char name[SM_NAME_SIZE + 8];
        snprintf(name, sizeof name, "%s%s", prefix, model_plan->tensors[i].name);
        for (int side = 0; side < N_SIDES; side++) {
            sm_session *session = check->session[side];
            int tensor = sm_plan_find_tensor(session->plan, name);
            SM_FAIL_IF(tensor == SM_NO_TENSOR, SM_ERR_INTERNAL, "verify: the plan has no tensor %s", name);
            SM_TRY(sm_session_synchronize(session));
            SM_TRY(sm_session_read(session, tensor, n_values, check->values[side]));
            SM_TRY(prefix[0] != '\0' ? unscale(session, n_values, check->values[side]) : SM_OK);
        }
        double error = sm_verify_error(SM_F32, n_values, check->values[DEVICE], check->values[REFERENCE], scale);
        report(check, SM_TEXT_IN(2 * SM_NAME_SIZE, "%s %s", what, model_plan->tensors[i].name), n_values, error,
               tolerance);
    }
    return SM_OK;
}

// The copies that matmuls read must be exactly the device's weights, rounded.
static sm_status compare_working_copies(checker *check) {
    sm_session *session = check->session[DEVICE];
    for (int i = 0; i < session->plan->n_tensors; i++) {
        const sm_tensor *t = &session->plan->tensors[i];
        if (!sm_plan_is_param(session->plan, i) || t->working_copy == SM_NO_TENSOR) {
            continue;
        }
        const int64_t n_values = t->real_elems;
        float *copied = check->values[DEVICE];
        float *expected = check->values[REFERENCE];
        SM_TRY(sm_session_read(session, t->working_copy, n_values, copied));
        SM_TRY(sm_session_read(session, i, n_values, expected));
        sm_dtype_round_trip(session->plan->dtype, n_values, expected);
        report(check, SM_TEXT_IN(2 * SM_NAME_SIZE, "copy of %s", t->name), n_values,
               sm_verify_error(SM_F32, n_values, copied, expected, 0), 0);
    }
    return SM_OK;
}

static sm_status compare_steps(checker *check) {
    for (int step = 1; step <= N_STEPS; step++) {
        SM_TRY(run_gradients(check, step));
        SM_TRY(compare_scalar(check, "loss", sm_session_loss, step));
        SM_TRY(step == 1 ? compare_tensors(check, "gradient", "d.", 0, check->tolerance.gradient) : SM_OK);
        SM_TRY(sm_session_run(check->session[DEVICE], SM_RUN_OPTIMIZER, NULL));
        SM_TRY(sm_session_run(check->session[REFERENCE], SM_RUN_OPTIMIZER, NULL));
        SM_TRY(compare_scalar(check, "gradient norm", sm_session_grad_norm, step));
    }
    SM_TRY(compare_tensors(check, "weight", "", settings.lr, check->tolerance.weight));
    return compare_working_copies(check);
}

// --- the check -------------------------------------------------------------------------

static void close_checker(checker *check) {
    for (int side = 0; side < N_SIDES; side++) {
        sm_session_close(check->session[side]);
        free(check->values[side]);
    }
}

// The device's session stays NULL if it does not support the plan, which is reported.
static sm_status open_device(checker *check, sm_device *device, sm_precision precision, const variant *v) {
    const sm_status status = open_side(check, device, precision, v, &check->session[DEVICE]);
    if (status == SM_ERR_UNSUPPORTED) {
        const sm_verify_row row = {.check = check->name,
                                   .subject = sm_mode_name(v->mode),
                                   .ok = true,
                                   .skipped = true,
                                   .reason = sm_error_message()};
        check->report(&row, check->context);
        return SM_OK;
    }
    return status;
}

static sm_status verify_step(const sm_model *model, sm_device *device, sm_precision precision, const variant *v,
                             sm_verify_report report_row, void *context) {
    const variant reference_variant = {.mode = SM_MODE_NAIVE,
                                       .recompute = SM_RECOMPUTE_NONE,
                                       .attention = SM_ATTENTION_NAIVE,
                                       .documents = v->documents};
    const bool is_narrow = sm_dtype_size(precision.dtype) < sizeof(float);
    SM_OWN(sm_device) *reference = NULL;
    SM_TRY(sm_backend_find("reference")->open(0, &(sm_open_options){0}, &reference));
    SM_AT_END(close_checker)
    checker check = {.name = v->documents      ? "step of documents"
                             : v->n_accum == 1 ? "step of one batch"
                                               : "step",
                     .model = model,
                     .optimizer = sm_optimizer_at(0),
                     // enough rows for several chunks of the loss head
                     .batch = is_narrow && v->mode != SM_MODE_NAIVE && !v->documents ? NARROW_BATCH : BATCH,
                     .tolerance = tolerances_of(precision),
                     .n_accum = v->n_accum,
                     .report = report_row,
                     .context = context};
    SM_TRY(open_device(&check, device, precision, v));
    if (check.session[DEVICE] == NULL) {
        return SM_OK;
    }
    const sm_precision its_own = precision.products == SM_PRODUCTS_FP8 ? precision : (sm_precision){.dtype = SM_F32};
    SM_TRY(open_side(&check, reference, its_own, &reference_variant, &check.session[REFERENCE]));
    SM_TRY(write_weights(&check));
    SM_TRY(compare_steps(&check));
    SM_FAIL_IF(check.n_failed > 0, SM_ERR_MISMATCH,
               "%s, mode %s: %d of %d results of a step of %s differ from the reference", device->info.id,
               sm_mode_name(v->mode), check.n_failed, check.n_compared, model->title);
    return SM_OK;
}

// --- every optimizer --------------------------------------------------------------------

// Checks the update of step 1, 2, ...: the reference makes it from the device's own gradients.
static sm_status check_update(checker *check, const sm_step_settings *with, int step) {
    sm_session *session = check->session[DEVICE];
    SM_OWN(sm_update_check) *update = NULL;
    sm_update_result result;
    SM_TRY(sm_session_set_hyper(session, with, step, check->n_accum));
    SM_TRY(run_micro_batch(session, step, SM_RUN_ZERO_GRAD));
    SM_TRY(sm_update_check_begin(session, 1, &update));
    SM_TRY(sm_session_run(session, SM_RUN_OPTIMIZER, NULL));
    const sm_status status = sm_update_check_end(sm_give(&update), session, 0, &result);
    if (status != SM_OK && status != SM_ERR_MISMATCH) {
        return status;
    }
    const bool has_figure = status == SM_OK || result.error > result.tolerance;
    report(check, SM_TEXT_IN(2 * SM_NAME_SIZE, "update %d by %s", step, check->optimizer->name), result.n_weights,
           has_figure ? result.error : INFINITY, result.tolerance);
    return SM_OK;
}

static sm_status verify_optimizer(const sm_model *model, const sm_optimizer *optimizer, sm_device *device,
                                  sm_precision precision, sm_mode mode, sm_verify_report report_row, void *context) {
    SM_AT_END(close_checker)
    checker check = {.name = "step by optimizer",
                     .model = model,
                     .optimizer = optimizer,
                     .batch = 1,
                     .n_accum = 1,
                     .report = report_row,
                     .context = context};
    sm_step_settings with = optimizer->defaults;
    with.grad_clip = settings.grad_clip;
    SM_TRY(open_device(&check, device, precision, &(variant){.mode = mode}));
    if (check.session[DEVICE] == NULL) {
        return SM_OK;
    }
    SM_TRY(write_weights(&check));
    for (int step = 1; step <= N_UPDATES; step++) {
        SM_TRY(check_update(&check, &with, step));
    }
    SM_FAIL_IF(check.n_failed > 0, SM_ERR_MISMATCH, "%s: %d of %d updates of %s by %s differ from the reference",
               device->info.id, check.n_failed, check.n_compared, model->title, optimizer->title);
    return SM_OK;
}

// After a mismatch the other checks still run; *first keeps it.
static sm_status go_on(sm_status status, sm_status *first) {
    *first = *first == SM_OK ? status : *first;
    return status == SM_ERR_MISMATCH ? SM_OK : status;
}

sm_status sm_verify_updates(sm_device *device, sm_precision precision, sm_mode mode, sm_verify_report report_row,
                            void *context) {
    sm_status first = SM_OK;
    for (int i = 0; i < sm_model_count() * sm_optimizer_count(); i++) {
        const sm_model *model = sm_model_at(i / sm_optimizer_count());
        const sm_optimizer *optimizer = sm_optimizer_at(i % sm_optimizer_count());
        SM_TRY(go_on(verify_optimizer(model, optimizer, device, precision, mode, report_row, context), &first));
    }
    return first;
}

sm_status sm_verify_step(sm_device *device, sm_precision precision, sm_mode mode, sm_recompute recompute,
                         unsigned without, sm_verify_report report_row, void *context) {
    const bool same_plan = mode == SM_MODE_NAIVE || without & 1u << sm_rewrite_find("first_write");
    sm_status first = SM_OK;
    for (int i = 0; i < sm_model_count(); i++) {
        variant v = {.mode = mode, .recompute = recompute, .without = without};
        for (v.n_accum = 2; v.n_accum >= (same_plan ? 2 : 1); v.n_accum--) {
            SM_TRY(go_on(verify_step(sm_model_at(i), device, precision, &v, report_row, context), &first));
        }
    }
    return first;
}

sm_status sm_verify_documents(sm_device *device, sm_precision precision, sm_mode mode, sm_verify_report report_row,
                              void *context) {
    static const sm_attention kinds[] = {SM_ATTENTION_NAIVE, SM_ATTENTION_FLASH};
    enum { N_KINDS = SM_COUNT(kinds) };
    sm_status first = SM_OK;
    for (int i = 0; i < sm_model_count() * N_KINDS; i++) {
        const variant v = {.mode = mode, .attention = kinds[i % N_KINDS], .documents = true, .n_accum = 1};
        SM_TRY(go_on(verify_step(sm_model_at(i / N_KINDS), device, precision, &v, report_row, context), &first));
    }
    return first;
}
