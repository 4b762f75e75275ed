// test_optimizers.c: every optimizer against its source on fixed gradients and in trainings (tests/golden/README.md),
// on every backend; the size of its state; training with 8-bit moments as with 32-bit ones; and the loss scaler against
// PyTorch's, with skipped steps.

#include "tests/support/session.h"
#include "dynamic_map.h"
#include "src/data/tokens.h"
#include "src/weights/weights.h"

enum { MOST_ELEMS = 640, RUN_B = 2, RUN_T = 9 };

static const sm_param_spec specs[] = {
    {.name = "embed", .rows = 24, .cols = 16},
    {.name = "h.%d.wide", .rows = 16, .cols = 40},
    {.name = "h.%d.tall", .rows = 40, .cols = 16},
    {.name = "h.%d.bias", .rows = 0, .cols = 40},
};
enum { N_SPECS = sizeof specs / sizeof specs[0] };

// --- plans of an update alone -----------------------------------------------------------------

static sm_plan *build_update(const sm_optimizer *optimizer, const sm_param_spec *kinds, int n_kinds, sm_dtype dtype,
                             const sm_loss_scaling *scaling, sm_status *status) {
    SM_AT_END(sm_params_free) sm_params params;
    const int64_t n_hyper = SM_HYPER_COUNT, n_scaler = SM_SCALER_COUNT, one = 1;
    sm_plan *plan = sm_plan_new(dtype);
    assert_non_null(plan);
    ok(sm_params_add(plan, kinds, n_kinds, 1, true, 0, &params));
    plan->hyper = sm_plan_add_tensor(plan, SM_ROLE_BATCH, plan->real, 1, &n_hyper, "hyper");
    plan->grad_norm = sm_plan_add_tensor(plan, SM_ROLE_RESULT, plan->real, 1, &one, "grad_norm");
    if (scaling != NULL) {
        plan->scaling = *scaling;
        plan->scaler = sm_plan_add_tensor(plan, SM_ROLE_OPTIMIZER, plan->real, 1, &n_scaler, SM_SCALER_NAME);
    }
    *status = sm_optimizer_build(optimizer, plan, &params);
    return plan;
}

static sm_session *open_update(const sm_optimizer *optimizer, sm_device *device, sm_dtype dtype,
                               const sm_loss_scaling *scaling) {
    sm_status status;
    sm_plan *plan = build_update(optimizer, specs, N_SPECS, dtype, scaling, &status);
    ok(status);
    return open_plan(device, plan);
}

// --- goldens ----------------------------------------------------------------------------------

// Writes the golden's arrays "PREFIX + parameter" to the parameters; or, times `scale`, to their gradients.
static void write_params(sm_session *session, const sm_safetensors *file, const char *prefix, double scale) {
    for (int t = 0; t < session->plan->n_tensors; t++) {
        if (sm_plan_is_param(session->plan, t)) {
            int64_t n;
            SM_FREED float *values = array_values(file, textf("%s%s", prefix, session->plan->tensors[t].name), &n);
            for (int64_t i = 0; i < n && scale != 0; i++) {
                values[i] *= (float)scale;
            }
            ok(sm_session_write(session, scale != 0 ? sm_gradient_of(session->plan, t) : t, n, values));
        }
    }
}

// Largest difference of a parameter from the golden's, over the largest value that it has.
static double largest_error(sm_session *session, const sm_safetensors *file, const char *prefix) {
    double worst = 0;
    for (int t = 0; t < session->plan->n_tensors; t++) {
        double difference = 0, largest = 0;
        if (!sm_plan_is_param(session->plan, t)) {
            continue;
        }
        int64_t n;
        SM_FREED float *want = array_values(file, textf("%s%s", prefix, session->plan->tensors[t].name), &n);
        SM_FREED float *got = tensor_values(session, t, n);
        for (int64_t i = 0; i < n; i++) {
            difference = fmax(difference, isnan(got[i]) ? INFINITY : fabs((double)got[i] - (double)want[i]));
            largest = fmax(largest, fabs((double)want[i]));
        }
        worst = fmax(worst, difference / largest);
    }
    return worst;
}

// Settings of a golden's case: the optimizer's own where it names none.
static sm_step_settings read_settings(const sm_optimizer *optimizer, const json_t *golden) {
    sm_step_settings settings = optimizer->defaults;
    for (int i = 0; i < sm_setting_count(); i++) {
        const json_t *value = json_object_get(golden, sm_setting_at(i)->name);
        if (value != NULL) {
            *sm_setting_of(&settings, sm_setting_at(i)) = json_number_value(value);
        }
    }
    return settings;
}

static double run_golden(sm_device *device, const json_t *golden, const sm_safetensors *file, int64_t n_steps) {
    const char *name = json_string_value(json_object_get(golden, "name"));
    const sm_optimizer *optimizer = sm_optimizer_find(json_string_value(json_object_get(golden, "optimizer")));
    assert_non_null(optimizer);
    const sm_step_settings settings = read_settings(optimizer, golden);
    SM_OWN(sm_session) *session = open_update(optimizer, device, SM_F32, NULL);
    write_params(session, file, "", 0);
    for (int64_t step = 0; step < n_steps; step++) {
        write_params(session, file, textf("grad.%lld.", (long long)step), 1);
        ok(sm_session_set_hyper(session, &settings, step + 1, 1));
        ok(sm_session_run(session, SM_RUN_OPTIMIZER, NULL));
    }
    ok(sm_session_synchronize(session));
    return largest_error(session, file, textf("%s.", name));
}

static void check_goldens(const char *backend) {
    json_error_t error;
    SM_OWN(sm_safetensors) *file = NULL;
    json_auto_t *goldens = json_load_file(SM_TEST_GOLDEN_DIR "/optimizers.json", 0, &error);
    ok(sm_safetensors_open(SM_TEST_GOLDEN_DIR "/optimizers.safetensors", &file));
    assert_non_null(goldens);
    SM_OWN(sm_device) *device = open_backend(backend, 0);
    const int64_t n_steps = json_integer_value(json_object_get(goldens, "n_steps"));
    bool seen[64] = {false};
    SM_EACH(golden, json_object_get(goldens, "cases")) {
        const char *name = json_string_value(json_object_get(golden, "name"));
        const double difference = run_golden(device, golden, file, n_steps);
        for (int k = 0; k < sm_optimizer_count(); k++) {
            seen[k] |= strcmp(sm_optimizer_at(k)->name, json_string_value(json_object_get(golden, "optimizer"))) == 0;
        }
        // Muon's iteration amplifies the rounding errors of small singular values; and bitsandbytes on a CPU gives one
        // element in fifty a neighbour of the nearest code.
        FAIL_IF(!(difference <= (strcmp(name, "muon") == 0        ? 2e-5
                                 : strcmp(name, "adamw8bit") == 0 ? 2e-4
                                                                  : 2e-6)),
                "%s on %s: weights differ by %.3g from the golden's", name, backend, difference);
    }
    for (int k = 0; k < sm_optimizer_count(); k++) {
        FAIL_IF(!seen[k], "no golden of %s", sm_optimizer_at(k)->name);
    }
}

// --- trainings --------------------------------------------------------------------------------

// A model of the goldens, whose vocabulary is not a multiple of what its matrices are padded to.
static sm_session *open_model(sm_device *device, const char *folder, const sm_optimizer *optimizer, int64_t *vocab) {
    sm_model_config config;
    const char *path = textf(SM_TEST_GOLDEN_DIR "/%s/model", folder);
    ok(sm_weights_read_config(path, &config));
    assert_true(sm_model_padded_vocab(&config) > config.vocab);
    *vocab = config.vocab;
    const sm_plan_options options = {TRAINING_BY(optimizer, RUN_B, RUN_T, SM_F32)};
    sm_session *session = open_plan(device, build_plan(&config, &options, SM_MODE_NAIVE, 0));
    ok(sm_weights_load(path, &config, session, NULL));
    return session;
}

// Weights, gradients and state after the model's rows are 0: none of them counts in a norm, or moves.
static void check_padding(sm_session *session) {
    const sm_plan *plan = session->plan;
    int n_padded = 0;
    for (int t = 0; t < plan->n_tensors; t++) {
        const int64_t n = sm_tensor_elems(&plan->tensors[t]);
        const int64_t n_real = plan->tensors[t].real_elems;
        if (n == n_real) {
            continue;
        }
        SM_FREED float *values = sm_malloc((size_t)n * sizeof *values);
        const int tensors[2] = {t, sm_plan_is_param(plan, t) ? sm_gradient_of(plan, t) : t};
        for (int k = 0; k < 2; k++) {
            ok(sm_session_read(session, tensors[k], n, values));
            for (int64_t i = n_real; i < n; i++) {
                assert_true(values[i] == 0);
            }
        }
        n_padded++;
    }
    assert_true(n_padded > 0);
}

// The largest difference of a loss, relative to it.
static double run_training(sm_device *device, const json_t *golden) {
    const sm_optimizer *optimizer = sm_optimizer_find(json_string_value(json_object_get(golden, "optimizer")));
    const json_t *losses = json_object_get(golden, "losses");
    int32_t inputs[RUN_B * RUN_T], targets[RUN_B * RUN_T];
    SM_OWN(sm_tokens) *stream = NULL;
    int64_t vocab;
    double worst = 0;
    assert_non_null(optimizer);
    assert_int_equal(json_array_size(losses), 20);
    const sm_step_settings settings = read_settings(optimizer, golden);
    SM_OWN(sm_session) *session =
        open_model(device, json_string_value(json_object_get(golden, "model")), optimizer, &vocab);
    ok(sm_tokens_open(SM_TEST_GOLDEN_DIR "/stream.bin", SM_TOKENS_UINT16, vocab, &stream));
    for (size_t i = 0; i < json_array_size(losses); i++) {
        const double want = json_number_value(json_array_get(losses, i));
        double loss;
        ok(sm_tokens_batch(stream, (int64_t)i, RUN_B, RUN_T, inputs, targets));
        ok(sm_session_set_batch(session, inputs, targets));
        ok(sm_session_set_hyper(session, &settings, (int64_t)i + 1, 1));
        ok(sm_session_run(session, SM_RUN_STEP, NULL));
        ok(sm_session_loss(session, &loss));
        worst = fmax(worst, isnan(loss) ? INFINITY : fabs(loss - want) / want);
    }
    check_padding(session);
    return worst;
}

static void check_trainings(const char *backend) {
    json_error_t error;
    json_auto_t *goldens = json_load_file(SM_TEST_GOLDEN_DIR "/optimizers.json", 0, &error);
    assert_non_null(goldens);
    SM_OWN(sm_device) *device = open_backend(backend, 0);
    SM_EACH(golden, json_object_get(goldens, "runs")) {
        const char *optimizer = json_string_value(json_object_get(golden, "optimizer"));
        const double difference = run_training(device, golden);
        // Of 8 bits, rounding decides where a number lies half-way between two codes.
        FAIL_IF(!(difference <= (strcmp(optimizer, "adamw8bit") == 0 ? 1e-4 : 1e-5)),
                "%s on %s, model %s: losses differ by %.3g from the golden's", optimizer, backend,
                json_string_value(json_object_get(golden, "model")), difference);
    }
    assert_int_equal(json_array_size(json_object_get(goldens, "runs")), 2 * sm_optimizer_count());
}

// --- the loss scaler --------------------------------------------------------------------------

enum { SPOILT_AT = 3 * 40 + 5 };

// A step with the gradients of `number`, scaled as the session has it.
static void scaled_step(sm_session *session, const sm_safetensors *file, const sm_step_settings *settings,
                        int64_t number, const char *spoilt) {
    double scale = 0;
    ok(sm_session_loss_scale(session, &scale));
    write_params(session, file, textf("grad.%lld.", (long long)number % 4), scale);
    if (spoilt != NULL) {
        // As make_scaler.py has it: the gradient of one element of one parameter is not a number that f16 holds.
        const float value = strtof(spoilt, NULL);
        ok(sm_session_write_part(session, sm_plan_find_tensor(session->plan, "d.h.0.wide"), SPOILT_AT, 1, &value));
    }
    ok(sm_session_set_hyper(session, settings, number + 1, 1));
    ok(sm_session_run(session, SM_RUN_OPTIMIZER, NULL));
}

static void compare_scaler(sm_session *session, const json_t *golden, int64_t n_skipped) {
    double scale = 0, norm = 0;
    int64_t skipped = 0;
    ok(sm_session_loss_scale(session, &scale));
    ok(sm_session_skipped(session, &skipped));
    ok(sm_session_grad_norm(session, &norm));
    const json_t *want = json_object_get(golden, "norm");
    assert_true(scale == json_number_value(json_object_get(golden, "scale")));
    assert_int_equal(skipped, n_skipped);
    assert_true(json_is_null(want) ? !isfinite(norm) : fabs(norm / json_number_value(want) - 1) < 1e-6);
}

// The scale after every step is GradScaler's, and so are the weights after the last: skipped steps do not count.
static void check_scaler(const char *backend) {
    json_error_t error;
    SM_OWN(sm_safetensors) *inputs = NULL;
    SM_OWN(sm_safetensors) *results = NULL;
    json_auto_t *golden = json_load_file(SM_TEST_GOLDEN_DIR "/scaler.json", 0, &error);
    assert_non_null(golden);
    ok(sm_safetensors_open(SM_TEST_GOLDEN_DIR "/optimizers.safetensors", &inputs));
    ok(sm_safetensors_open(SM_TEST_GOLDEN_DIR "/scaler.safetensors", &results));
    const json_t *of = json_object_get(golden, "scaler");
    const sm_loss_scaling scaling = {.scale = json_number_value(json_object_get(of, "init_scale")),
                                     .growth = json_number_value(json_object_get(of, "growth_factor")),
                                     .backoff = json_number_value(json_object_get(of, "backoff_factor")),
                                     .interval = json_number_value(json_object_get(of, "growth_interval"))};
    const sm_step_settings settings = read_settings(&sm_optimizer_adamw, json_object_get(golden, "settings"));
    SM_OWN(sm_device) *device = open_backend(backend, 0);
    SM_OWN(sm_session) *session = open_update(&sm_optimizer_adamw, device, SM_F32, &scaling);
    write_params(session, inputs, "", 0);
    int64_t n_skipped = 0;
    SM_EACH(step, json_object_get(golden, "steps")) {
        const char *spoilt = json_string_value(json_object_get(step, "spoilt"));
        n_skipped += spoilt != NULL;
        scaled_step(session, inputs, &settings, (int64_t)step_at, spoilt);
        compare_scaler(session, step, n_skipped);
    }
    assert_true(n_skipped > 0);
    const double difference = largest_error(session, results, "");
    FAIL_IF(!(difference <= 2e-6), "%s: weights differ by %.3g from those with PyTorch's GradScaler", backend,
            difference);
}

// Every tensor that outlives a step, one after the other.
static float *read_lasting(sm_session *session, int64_t *n) {
    const sm_plan *plan = session->plan;
    float *values = sm_calloc((size_t)plan->n_tensors, MOST_ELEMS * sizeof *values * 4);
    *n = 0;
    for (int t = 0; t < plan->n_tensors; t++) {
        const sm_tensor *tensor = &plan->tensors[t];
        const bool lasts = tensor->role == SM_ROLE_PARAMETER || tensor->role == SM_ROLE_OPTIMIZER;
        if (lasts && t != plan->scaler && tensor->view_of == SM_NO_TENSOR) {
            ok(sm_session_read(session, t, sm_tensor_elems(tensor), values + *n));
            *n += sm_tensor_elems(tensor);
        }
    }
    return values;
}

// Weights, their copies in f16 and the state are bit by bit as before a skipped step; the next step moves them.
static void check_skips(const char *backend) {
    SM_OWN(sm_safetensors) *file = NULL;
    ok(sm_safetensors_open(SM_TEST_GOLDEN_DIR "/optimizers.safetensors", &file));
    SM_OWN(sm_device) *device = open_backend(backend, 0);
    for (int k = 0; k < sm_optimizer_count(); k++) {
        const sm_optimizer *optimizer = sm_optimizer_at(k);
        const char *const spoilt[] = {NULL, "inf", "nan", "-inf", NULL};
        SM_OWN(sm_session) *session = open_update(optimizer, device, SM_F16, &sm_dynamic_scaling);
        write_params(session, file, "", 0);
        for (int step = 0; step < 5; step++) {
            int64_t n;
            SM_FREED float *before = read_lasting(session, &n);
            scaled_step(session, file, &optimizer->defaults, step, spoilt[step]);
            SM_FREED float *after = read_lasting(session, &n);
            const bool same = memcmp(before, after, (size_t)n * sizeof *before) == 0;
            FAIL_IF(same != (spoilt[step] != NULL), "%s on %s: step %d %s weights and state", optimizer->name, backend,
                    step, same ? "leaves" : "changes");
        }
    }
}

static void check_all(const char *backend) {
    const sm_backend *found = sm_backend_find(backend);
    SKIP_IF(strcmp(backend, "opencl") == 0 && (found == NULL || found->device_count() == 0));
    check_goldens(backend);
    check_trainings(backend);
    check_scaler(backend);
    check_skips(backend);
}

TEST(test_reference) { check_all("reference"); }
TEST(test_cpu) { check_all("cpu"); }
TEST(test_opencl) { check_all("opencl"); }

// --- state ------------------------------------------------------------------------------------

// Bytes of state a parameter of GPT-2-like matrices.
static double state_bytes(const char *name) {
    static const sm_param_spec large[] = {{.name = "h.%d.w", .rows = 768, .cols = 3072},
                                          {.name = "h.%d.b", .rows = 0, .cols = 3072}};
    size_t by_role[SM_ROLE_COUNT];
    sm_status status;
    SM_OWN(sm_plan) *plan = build_update(sm_optimizer_find(name), large, 2, SM_F32, NULL, &status);
    ok(status);
    ok(sm_plan_assign_memory(plan, 0));
    sm_plan_memory(plan, by_role);
    return (double)by_role[SM_ROLE_OPTIMIZER] / (768.0 * 3072 + 3072);
}

TEST(test_state) {
    assert_true(fabs(state_bytes("adamw") - 8) < 0.01);
    assert_true(fabs(state_bytes("adam") - 8) < 0.01);
    assert_true(fabs(state_bytes("sgd") - 4) < 0.01);
    assert_true(fabs(state_bytes("lion") - 4) < 0.01);
    assert_true(fabs(state_bytes("muon") - 4) < 0.02);
    assert_true(state_bytes("adamw8bit") <= 2.1);
    assert_true(state_bytes("adafactor") <= 0.02);
}

TEST(test_muon_needs_hidden_matrices) {
    sm_status status;
    SM_OWN(sm_plan) *plan = build_update(&sm_optimizer_muon, specs, 1, SM_F32, NULL, &status);
    assert_int_equal(status, SM_ERR_INVALID);
    assert_string_equal(sm_error_message(), "optimizer muon: the model has no hidden matrices; use adamw");
}

// --- 8 bits -----------------------------------------------------------------------------------

// The published map: bitsandbytes' create_dynamic_map, some of its entries; ascending, and symmetric but for one.
TEST(test_dynamic_map) {
    const struct {
        bool is_signed;
        int code;
        double value;
    } entries[] = {
        {true, 0, -0.99296875}, {true, 126, -5.5e-7},    {true, 127, 0},       {true, 128, 5.5e-7},
        {true, 129, 3.25e-6},   {true, 254, 0.99296875}, {true, 255, 1},       {false, 0, 0},
        {false, 1, 3.25e-7},    {false, 2, 7.75e-7},     {false, 3, 2.125e-6}, {false, 254, 0.996484375},
        {false, 255, 1},
    };
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        const double value = sm_quant_value(entries[i].is_signed, entries[i].code);
        assert_true(fabs(value - entries[i].value) <= 1e-12 + 1e-9 * fabs(entries[i].value));
    }
    for (int code = 1; code < SM_QUANT_CODES; code++) {
        assert_true(sm_quant_value(true, code) > sm_quant_value(true, code - 1));
        assert_true(sm_quant_value(false, code) > sm_quant_value(false, code - 1));
    }
}

// Steps down a bowl, whose gradient is the distance from a target: loss after `n_steps` over the first.
static double descend(sm_device *device, const sm_optimizer *optimizer, int n_steps) {
    float p[MOST_ELEMS] = {0}, g[MOST_ELEMS];
    SM_OWN(sm_session) *session = open_update(optimizer, device, SM_F32, NULL);
    const int value = sm_plan_find_tensor(session->plan, "h.0.wide");
    const int gradient = sm_plan_find_tensor(session->plan, "d.h.0.wide");
    sm_step_settings settings = optimizer->defaults;
    settings.lr = 0.02;
    settings.weight_decay = 0;
    double loss = 0, first = 0;
    for (int step = 1; step <= n_steps; step++) {
        loss = 0;
        for (int i = 0; i < MOST_ELEMS; i++) {
            const double scale = pow(2, -(i % 4)); // some directions are flatter
            g[i] = (float)(scale * ((double)p[i] - sin(i)));
            loss += (double)g[i] * ((double)p[i] - sin(i));
        }
        first = step == 1 ? loss : first;
        ok(sm_session_write(session, gradient, MOST_ELEMS, g));
        ok(sm_session_set_hyper(session, &settings, step, 1));
        ok(sm_session_run(session, SM_RUN_OPTIMIZER, NULL));
        ok(sm_session_read(session, value, MOST_ELEMS, p));
    }
    return loss / first;
}

// After 200 steps, less than a thousandth of the first loss apart.
TEST(test_8_bits_descend_like_32) {
    sm_device *device = open_backend("cpu", 0);
    const double wide = descend(device, &sm_optimizer_adamw, 200);
    const double narrow = descend(device, &sm_optimizer_adamw8bit, 200);
    device->backend->close(device);
    assert_true(wide < 0.01);
    FAIL_IF(!(fabs(narrow - wide) < 1e-3), "loss after 200 steps: %g of the first with 32 bits, %g with 8", wide,
            narrow);
}
