// test_golden.c: every backend and mode against PyTorch's results (tests/golden/README.md): loss, all gradients,
// log-probabilities, AdamW with clipping, accumulation and decay, 50 losses of a run; and our saved model against the
// one that transformers saved.
#define OWN_MAIN

#include "tests/support/session.h"
#include "tests/support/temp_folder.h"
#include "src/data/tokens.h"
#include "src/weights/weights.h"

static const double LOSS_TOLERANCE = 1e-5;     // relative, after one forward pass
static const double LOG_P_TOLERANCE = 1e-4;    // absolute
static const double GRADIENT_TOLERANCE = 1e-4; // largest difference over largest value, a tensor
static const double WEIGHT_TOLERANCE = 1e-4;   // the same
static const double RUN_TOLERANCE = 1e-3;      // relative, a loss of the 50-step run

typedef struct {
    const char *golden; // folder of the model's goldens
    const char *backend;
    sm_mode mode;
} variant;

// A session on the golden's model, with the arrays and scalars of one golden file.
typedef struct {
    char model_dir[256];
    sm_model_config config;
    sm_device *device;
    sm_session *session;
    json_t *scalars;
    sm_safetensors *arrays;
} fixture;

// --- the golden files -------------------------------------------------------------------------

static double scalar(const json_t *scalars, const char *key) {
    const json_t *value = json_object_get(scalars, key);
    FAIL_IF(!json_is_number(value), "the golden has no number %s", key);
    return json_number_value(value);
}

static double item(const json_t *scalars, const char *key, int64_t i) {
    const json_t *value = json_array_get(json_object_get(scalars, key), (size_t)i);
    FAIL_IF(!json_is_number(value), "the golden has no number %s[%lld]", key, (long long)i);
    return json_number_value(value);
}

// The values of one array of n_elems; the caller frees them.
static float *read_array(const sm_safetensors *file, const char *name, int64_t n_elems) {
    int64_t n;
    float *values = array_values(file, name, &n);
    assert_int_equal(n, n_elems);
    return values;
}

static int32_t *read_ids(const sm_safetensors *file, const char *name, int64_t n_elems) {
    SM_FREED float *values = read_array(file, name, n_elems);
    int32_t *ids = sm_calloc((size_t)n_elems, sizeof *ids);
    for (int64_t i = 0; i < n_elems; i++) {
        ids[i] = (int32_t)values[i];
    }
    return ids;
}

static sm_step_settings read_adamw(const json_t *scalars) {
    return (sm_step_settings){
        .beta1 = scalar(scalars, "beta1"),
        .beta2 = scalar(scalars, "beta2"),
        .eps = scalar(scalars, "eps"),
        .weight_decay = scalar(scalars, "weight_decay"),
    };
}

// --- sessions ---------------------------------------------------------------------------------

// `name` is the golden's: steps or run. Only steps has arrays.
static fixture open_fixture(const variant *v, const char *name) {
    fixture f = {0};
    json_error_t error;
    snprintf(f.model_dir, sizeof f.model_dir, "%s/%s/model", SM_TEST_GOLDEN_DIR, v->golden);
    const char *path = textf("%s/%s/%s.json", SM_TEST_GOLDEN_DIR, v->golden, name);
    f.scalars = json_load_file(path, 0, &error);
    FAIL_IF(f.scalars == NULL, "%s: %s", path, error.text);
    path = textf("%s/%s/%s.safetensors", SM_TEST_GOLDEN_DIR, v->golden, name);
    if (access(path, F_OK) == 0) {
        ok(sm_safetensors_open(path, &f.arrays));
    }

    f.device = open_backend(v->backend, 0);
    ok(sm_weights_read_config(f.model_dir, &f.config));
    const int64_t B = (int64_t)scalar(f.scalars, "B");
    const sm_plan_options options = {TRAINING(B, (int64_t)scalar(f.scalars, "T"), SM_F32)};
    f.session = open_plan(f.device, build_plan(&f.config, &options, v->mode, 0));
    ok(sm_weights_load(f.model_dir, &f.config, f.session, NULL));
    return f;
}

static void close_fixture(fixture *f) {
    sm_session_close(f->session);
    f->device->backend->close(f->device);
    sm_safetensors_close(f->arrays);
    json_decref(f->scalars);
}

static int64_t batch_elems(const fixture *f) { return f->session->plan->B * f->session->plan->T; }

// --- comparisons ------------------------------------------------------------------------------

static void expect_near(const char *what, int64_t i, double value, double truth, double tolerance) {
    double error = fabs(value - truth) / fabs(truth);
    FAIL_IF(!(error <= tolerance), "%s %lld is %.9g, PyTorch's %.9g: %.2e apart, tolerance %.0e", what, (long long)i,
            value, truth, error, tolerance);
}

// Largest difference over the largest value in truth, among elements [first, end).
static void expect_array_near(const char *name, const float *values, const float *truth, int64_t first, int64_t end,
                              double tolerance) {
    double largest = 0;
    for (int64_t i = first; i < end; i++) {
        largest = fmax(largest, fabs((double)truth[i]));
    }
    for (int64_t i = first; i < end; i++) {
        double error = fabs((double)values[i] - (double)truth[i]) / largest;
        FAIL_IF(!(error <= tolerance), "%s[%lld] is %.9g, PyTorch's %.9g: %.2e apart, tolerance %.0e", name,
                (long long)i, (double)values[i], (double)truth[i], error, tolerance);
    }
}

// Compares the tensor `plan_prefix` + parameter of the session with `golden_prefix` + parameter of the golden.
static void expect_params_near(const fixture *f, const char *plan_prefix, const char *golden_prefix, bool with_keys,
                               double tolerance) {
    const sm_plan *plan = f->session->plan;
    int n_left = 0;
    for (int i = 0; i < sm_safetensors_count(f->arrays); i++) {
        n_left += strncmp(sm_safetensors_at(f->arrays, i)->name, golden_prefix, strlen(golden_prefix)) == 0;
    }
    for (int i = 0; i < plan->n_tensors; i++) {
        if (!sm_plan_is_param(plan, i)) {
            continue;
        }
        const int64_t n = plan->tensors[i].real_elems;
        const char *name = plan->tensors[i].name;
        const int tensor = sm_plan_find_tensor(plan, textf("%s%s", plan_prefix, name));
        assert_true(tensor != SM_NO_TENSOR);
        SM_FREED float *values = tensor_values(f->session, tensor, n);
        name = textf("%s%s%s", golden_prefix, f->config.model->disk_prefix, name);
        SM_FREED float *truth = read_array(f->arrays, name, n);
        if (!with_keys && strstr(name, "attn.c_attn.bias") != NULL) {
            expect_array_near(name, values, truth, 0, n / 3, tolerance);
            expect_array_near(name, values, truth, 2 * n / 3, n, tolerance);
        } else {
            expect_array_near(name, values, truth, 0, n, tolerance);
        }
        n_left--;
    }
    assert_int_equal(n_left, 0);
}

// --- tests ------------------------------------------------------------------------------------

TEST(loss_and_gradients) {
    fixture f = open_fixture(*state, "steps");
    const sm_step_settings adamw = read_adamw(f.scalars);
    int64_t n_ids = (int64_t)(scalar(f.scalars, "n_steps") * scalar(f.scalars, "n_accum")) * batch_elems(&f);
    SM_FREED int32_t *tokens = read_ids(f.arrays, "tokens", n_ids);
    SM_FREED int32_t *targets = read_ids(f.arrays, "targets", n_ids);
    double loss;

    ok(sm_session_set_hyper(f.session, &adamw, 1, 1));
    ok(sm_session_set_batch(f.session, tokens, targets));
    ok(sm_session_run(f.session, SM_RUN_ZERO_GRAD | SM_RUN_FORWARD | SM_RUN_BACKWARD, NULL));
    ok(sm_session_loss(f.session, &loss));
    expect_near("loss", 0, loss, scalar(f.scalars, "loss"), LOSS_TOLERANCE);
    expect_params_near(&f, "d.", "grad.", true, GRADIENT_TOLERANCE);

    close_fixture(&f);
}

// log sum_v exp(logits[v])
static double log_sum_exp(const float *logits, int64_t V) {
    double sum = 0;
    for (int64_t v = 0; v < V; v++) {
        sum += exp((double)logits[v]);
    }
    return log(sum);
}

// Asks for each id of the vocabulary in turn as the target everywhere: a token's loss is then the
// negative log-probability of that id. So all logits are compared, up to the constant of a row
// that no probability depends on, also where they are never in memory at once.
TEST(log_probabilities) {
    fixture f = open_fixture(*state, "steps");
    const sm_step_settings adamw = read_adamw(f.scalars);
    const int64_t N = batch_elems(&f);
    const int64_t V = f.config.vocab;
    int64_t n_ids = (int64_t)(scalar(f.scalars, "n_steps") * scalar(f.scalars, "n_accum")) * N;
    SM_FREED int32_t *tokens = read_ids(f.arrays, "tokens", n_ids);
    SM_FREED int32_t *targets = sm_malloc((size_t)N * sizeof *targets);
    SM_FREED float *logits = read_array(f.arrays, "logits", N * V);
    SM_FREED float *losses = sm_malloc((size_t)N * sizeof *losses);

    ok(sm_session_set_hyper(f.session, &adamw, 1, 1));
    for (int64_t v = 0; v < V; v++) {
        for (int64_t n = 0; n < N; n++) {
            targets[n] = (int32_t)v;
        }
        ok(sm_session_set_batch(f.session, tokens, targets));
        ok(sm_session_run(f.session, SM_RUN_FORWARD, NULL));
        ok(sm_session_synchronize(f.session));
        ok(sm_session_read(f.session, f.session->plan->losses, N, losses));
        for (int64_t n = 0; n < N; n++) {
            double truth = log_sum_exp(logits + n * V, V) - (double)logits[n * V + v];
            FAIL_IF(!(fabs((double)losses[n] - truth) <= LOG_P_TOLERANCE),
                    "-log p(%lld) at token %lld is %.9g, PyTorch's %.9g", (long long)v, (long long)n, (double)losses[n],
                    truth);
        }
    }

    close_fixture(&f);
}

TEST(clipped_steps) {
    fixture f = open_fixture(*state, "steps");
    sm_step_settings adamw = read_adamw(f.scalars);
    const int64_t n_steps = (int64_t)scalar(f.scalars, "n_steps");
    const int64_t n_accum = (int64_t)scalar(f.scalars, "n_accum");
    const int64_t N = batch_elems(&f);
    SM_FREED int32_t *tokens = read_ids(f.arrays, "tokens", n_steps * n_accum * N);
    SM_FREED int32_t *targets = read_ids(f.arrays, "targets", n_steps * n_accum * N);

    adamw.grad_clip = scalar(f.scalars, "grad_clip");
    for (int64_t step = 0; step < n_steps; step++) {
        double norm;
        adamw.lr = item(f.scalars, "lr", step);
        ok(sm_session_set_hyper(f.session, &adamw, step + 1, n_accum));
        ok(sm_session_run(f.session, SM_RUN_ZERO_GRAD, NULL));
        for (int64_t micro = step * n_accum; micro < (step + 1) * n_accum; micro++) {
            double loss;
            ok(sm_session_set_batch(f.session, tokens + micro * N, targets + micro * N));
            ok(sm_session_run(f.session, SM_RUN_FORWARD | SM_RUN_BACKWARD, NULL));
            ok(sm_session_loss(f.session, &loss));
            expect_near("loss of micro-batch", micro, loss, item(f.scalars, "micro_losses", micro), LOSS_TOLERANCE);
        }
        ok(sm_session_run(f.session, SM_RUN_OPTIMIZER, NULL));
        ok(sm_session_grad_norm(f.session, &norm));
        expect_near("gradient norm of step", step, norm, item(f.scalars, "grad_norms", step), GRADIENT_TOLERANCE);
    }
    // Without the keys' biases: their gradient is rounding noise (README.md says why).
    expect_params_near(&f, "", "updated.", false, WEIGHT_TOLERANCE);

    close_fixture(&f);
}

TEST(fifty_losses) {
    fixture f = open_fixture(*state, "run");
    sm_step_settings adamw = read_adamw(f.scalars);
    const int64_t n_steps = (int64_t)scalar(f.scalars, "n_steps");
    const sm_plan *plan = f.session->plan;
    sm_tokens *stream;
    SM_FREED int32_t *inputs = sm_calloc((size_t)batch_elems(&f), sizeof *inputs);
    SM_FREED int32_t *targets = sm_calloc((size_t)batch_elems(&f), sizeof *targets);

    adamw.lr = scalar(f.scalars, "lr");
    ok(sm_tokens_open(SM_TEST_GOLDEN_DIR "/stream.bin", SM_TOKENS_UINT16, f.config.vocab, &stream));
    for (int64_t i = 0; i < n_steps; i++) {
        double loss;
        ok(sm_tokens_batch(stream, i, plan->B, plan->T, inputs, targets));
        ok(sm_session_set_batch(f.session, inputs, targets));
        ok(sm_session_set_hyper(f.session, &adamw, i + 1, 1));
        ok(sm_session_run(f.session, SM_RUN_STEP, NULL));
        ok(sm_session_loss(f.session, &loss));
        expect_near("loss of step", i, loss, item(f.scalars, "losses", i), RUN_TOLERANCE);
    }

    sm_tokens_close(stream);
    close_fixture(&f);
}

static void expect_same_entry(const sm_safetensors *ours, const sm_safetensors *theirs, int i) {
    const sm_safetensors_entry *b = sm_safetensors_at(theirs, i);
    const sm_safetensors_entry *a = NULL;
    for (int k = 0; k < sm_safetensors_count(ours); k++) {
        a = strcmp(sm_safetensors_at(ours, k)->name, b->name) == 0 ? sm_safetensors_at(ours, k) : a;
    }
    assert_non_null(a);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->n_dims, b->n_dims);
    assert_memory_equal(a->dims, b->dims, (size_t)b->n_dims * sizeof *b->dims);
    SM_FREED float *values = read_array(ours, b->name, b->n_elems);
    SM_FREED float *truth = read_array(theirs, b->name, b->n_elems);
    assert_memory_equal(values, truth, (size_t)b->n_elems * sizeof *values);
}

// Load and save: the same names, dtypes, shapes and bytes as transformers wrote, and a config that says the same.
TEST(saved_as_transformers_saves) {
    fixture f = open_fixture(*state, "steps");
    const char *dir = temp_path("saved");
    sm_model_config config;
    SM_OWN(sm_safetensors) *ours = NULL;
    SM_OWN(sm_safetensors) *theirs = NULL;
    ok(sm_weights_save(dir, &f.config, f.session, 1));
    ok(sm_weights_read_config(dir, &config));
    assert_memory_equal(&config, &f.config, sizeof config);
    ok(sm_safetensors_open(textf("%s/model.safetensors", dir), &ours));
    ok(sm_safetensors_open(textf("%s/model.safetensors", f.model_dir), &theirs));
    assert_int_equal(sm_safetensors_count(ours), sm_safetensors_count(theirs));
    for (int i = 0; i < sm_safetensors_count(theirs); i++) {
        expect_same_entry(ours, theirs, i);
    }
    assert_string_equal(sm_safetensors_metadata(ours, "format"), sm_safetensors_metadata(theirs, "format"));
    close_fixture(&f);
}

static variant variants[] = {
    {".", "reference", SM_MODE_NAIVE},     {".", "reference", SM_MODE_FUSED},     {".", "cpu", SM_MODE_NAIVE},
    {".", "cpu", SM_MODE_FUSED},           {"llama", "reference", SM_MODE_NAIVE}, {"llama", "reference", SM_MODE_FUSED},
    {"llama", "cpu", SM_MODE_NAIVE},       {"llama", "cpu", SM_MODE_FUSED},       {"qwen3", "reference", SM_MODE_NAIVE},
    {"qwen3", "reference", SM_MODE_FUSED}, {"qwen3", "cpu", SM_MODE_NAIVE},       {"qwen3", "cpu", SM_MODE_FUSED},
};
enum { N_VARIANTS = sizeof variants / sizeof variants[0], MAX_EACH = 8 };

// A golden's folder begins with the name of its model; GPT-2's is the first.
static void require_goldens(void) {
    for (int m = 1; m < sm_model_count(); m++) {
        const char *name = sm_model_at(m)->name;
        int n = 0;
        for (int i = 0; i < N_VARIANTS; i++) {
            n += strncmp(variants[i].golden, name, strlen(name)) == 0;
        }
        if (n == 0) {
            fprintf(stderr, "%s has no golden in this test (tests/golden/make_goldens.py)\n", name);
            exit(1);
        }
    }
}

int main(void) {
    static char names[N_VARIANTS * MAX_EACH][96];
    static struct CMUnitTest all[N_VARIANTS * MAX_EACH];
    require_goldens();
    assert_true(n_tests <= MAX_EACH);
    for (size_t i = 0; i < N_VARIANTS * n_tests; i++) {
        variant *v = &variants[i / n_tests];
        all[i] = tests[i % n_tests];
        snprintf(names[i], sizeof names[i], "%s, %s: %s %s", all[i].name, v->golden, v->backend, sm_mode_name(v->mode));
        all[i].name = names[i];
        all[i].initial_state = v;
    }
    return cmocka_run_group_tests(all, temp_folder_make, temp_folder_remove);
}
