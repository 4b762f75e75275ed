// test_spot_check.c: spot checks raise no false alarm in any mode and precision, and find an error anywhere in an output.
#include "tests/support/session.h"
#include "philox.h"
#include "src/verify/spot.h"
#include "tests/support/whole.h"

static const sm_model_config gpt2 = {MODEL(gpt2, 2, 4, 96, 200, 301, 130)};

static const sm_model_config llama = {MODEL(llama, 2, 6, 96, 136, 301, 130), .n_kv_head = 2, .rope_theta = 1e4,
                                      .untied = true};

// So wide that threads share the drawn rows of many sequences.
static const sm_model_config wide_llama = {MODEL(llama, 1, 24, 384, 136, 301, 8), .n_kv_head = 24, .rope_theta = 1e4};

typedef struct {
    const sm_model_config *model;
    sm_mode mode;
    sm_precision precision;
    double dropout_p;
    const sm_optimizer *optimizer;
    sm_attention attention;
    bool documents;
    int64_t B, T;
    int n_accum;
} variant;

// --- a session -------------------------------------------------------------------------------

static void feed(sm_session *session, uint64_t number) {
    const sm_plan *plan = session->plan;
    const int64_t n = plan->B * plan->T;
    SM_FREED int32_t *ids = sm_malloc(3 * (size_t)n * sizeof *ids);
    for (int64_t i = 0; i < n; i++) {
        const sm_philox_block block = sm_philox4x32(number, (uint64_t)i, 7);
        ids[i] = (int32_t)(block.word[0] % (uint32_t)plan->V);
        ids[n + i] = block.word[1] % 10 == 0 ? -1 : (int32_t)(block.word[2] % (uint32_t)plan->V);
        const int64_t t = i % plan->T;
        ids[2 * n + i] = t > 0 && block.word[3] % 20 != 0 ? ids[2 * n + i - 1] : (int32_t)t;
    }
    ok(plan->starts != SM_NO_TENSOR ? sm_session_set_documents(session, ids + 2 * n) : SM_OK);
    ok(sm_session_set_batch(session, ids, ids + n));
}

static sm_session *open_session(sm_device *device, const variant *v) {
    const sm_plan_options options = {TRAINING_BY(v->optimizer, v->B, v->T, v->precision.dtype),
                                     .products = v->precision.products,
                                     .dropout_p = v->dropout_p,
                                     .seed = 5,
                                     .attention = v->attention,
                                     .documents = v->documents,
                                     .scaling =
                                         v->precision.dtype == SM_F16 ? sm_dynamic_scaling : (sm_loss_scaling){0},
                                     .one_micro_batch = v->n_accum == 1};
    return start_if_supported(device, build_plan(v->model, &options, v->mode, 0), 3);
}

// The next step; with a check its last micro-batch is looked at.
static sm_status run_step(sm_session *session, const variant *v, int64_t step, sm_spot_check *check) {
    const sm_step_settings settings = sm_plan_settings(session->plan);
    assert_int_equal(sm_session_set_hyper(session, &settings, step, v->n_accum), SM_OK);
    for (int i = 0; i < v->n_accum; i++) {
        const unsigned phases = (i > 0 ? 0U : SM_RUN_ZERO_GRAD) | SM_RUN_FORWARD | SM_RUN_BACKWARD |
                                (i + 1 < v->n_accum ? 0U : SM_RUN_OPTIMIZER);
        feed(session, (uint64_t)(step * v->n_accum + i));
        const bool looks = check != NULL && i + 1 == v->n_accum;
        SM_TRY(looks ? sm_spot_check_run(check, session, phases, NULL) : sm_session_run(session, phases, NULL));
    }
    return sm_session_synchronize(session);
}

// --- honest backends ---------------------------------------------------------------------------

#define F32 \
    { .dtype = SM_F32 }
#define BF16 \
    { .dtype = SM_BF16 }
#define F16 \
    { .dtype = SM_F16 }

static const variant honest[] = {
    {&gpt2, SM_MODE_NAIVE, F32, 0, &sm_optimizer_adamw, SM_ATTENTION_AUTO, false, 3, 70, 1},
    {&gpt2, SM_MODE_NAIVE, F32, 0.1, &sm_optimizer_muon, SM_ATTENTION_NAIVE, true, 2, 130, 2},
    {&gpt2, SM_MODE_FUSED, F32, 0, &sm_optimizer_adamw, SM_ATTENTION_FLASH, false, 5, 33, 1},
    {&gpt2, SM_MODE_FUSED, F32, 0.1, &sm_optimizer_sgd, SM_ATTENTION_NAIVE, true, 2, 130, 2},
    {&gpt2, SM_MODE_FUSED, BF16, 0, &sm_optimizer_adamw, SM_ATTENTION_FLASH, false, 2, 130, 1},
    {&gpt2, SM_MODE_NAIVE, BF16, 0.1, &sm_optimizer_adamw, SM_ATTENTION_NAIVE, true, 2, 70, 1},
    {&gpt2, SM_MODE_FUSED, F16, 0, &sm_optimizer_adafactor, SM_ATTENTION_NAIVE, false, 2, 130, 1},
    {&llama, SM_MODE_NAIVE, F32, 0, &sm_optimizer_adamw, SM_ATTENTION_NAIVE, false, 3, 70, 1},
    {&llama, SM_MODE_FUSED, F32, 0.1, &sm_optimizer_muon, SM_ATTENTION_FLASH, true, 2, 130, 2},
    {&llama, SM_MODE_FUSED, BF16, 0, &sm_optimizer_muon, SM_ATTENTION_FLASH, false, 2, 130, 2},
    {&llama, SM_MODE_FUSED, F16, 0.1, &sm_optimizer_lion, SM_ATTENTION_NAIVE, true, 2, 130, 1},
    {&wide_llama, SM_MODE_NAIVE, F32, 0, &sm_optimizer_sgd, SM_ATTENTION_NAIVE, false, 32, 8, 1},
};

// Honest results differ from the host's by far less than is allowed: else the tolerance would be a matter of luck.
static void honest_steps_pass(const char *name, size_t every) {
    const sm_backend *backend = sm_backend_find(name);
    assert_non_null(backend);
    sm_device_info info;
    SM_OWN(sm_device) *device = NULL;
    assert_int_equal(backend->describe(0, &info), SM_OK);
    if (!info.available || backend->open(0, &(sm_open_options){.n_threads = 0}, &device) != SM_OK) {
        skip();
    }
    for (size_t i = 0; i < sizeof honest / sizeof honest[0]; i += every) {
        const variant *v = &honest[i];
        sm_spot_check *check = NULL;
        SM_OWN(sm_session) *session = open_session(device, v);
        if (session == NULL) {
            continue;
        }
        assert_int_equal(sm_spot_check_new(session->plan, i, &check), SM_OK);
        for (int64_t step = 1; step <= 4; step++) {
            const sm_status status = run_step(session, v, step, step == 1 ? NULL : check);
            FAIL_IF(status != SM_OK, "%s, variant %zu, step %d: %s", name, i, (int)step, sm_error_message());
        }
        const sm_spot_result result = sm_spot_check_result(check);
        FAIL_IF(!(result.error <= 0.6), "%s, variant %zu: error %g at %s", name, i, result.error, result.error_at);
        assert_true(result.least_looks >= 3);
        sm_spot_check_free(check);
    }
}

TEST(reference_passes) { honest_steps_pass("reference", 1); }
TEST(cpu_passes) { honest_steps_pass("cpu", 1); }
// A driver compiles kernels for each variant.
TEST(opencl_passes) { honest_steps_pass("opencl", runs_all() ? 1 : 3); }

static bool ran_alone[1024]; // ops, as those do that are looked at

static sm_status see(sm_executable *executable, sm_range ops, int64_t *op_ns) {
    ran_alone[ops.first] |= ops.end == ops.first + 1;
    return sm_backend_find("cpu")->execute(executable, ops, op_ns);
}

TEST(any_op_may_be_drawn) {
    SM_OWN(sm_device) *device = open_backend("cpu", 1);
    sm_backend seen = *device->backend;
    seen.execute = see;
    SM_OWN(sm_session) *session = open_session(device, &honest[0]);
    device->backend = &seen;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        sm_spot_check *check = NULL;
        ok(sm_spot_check_new(session->plan, seed, &check));
        ok(run_step(session, &honest[0], (int64_t)seed, check));
        sm_spot_check_free(check);
    }
    for (int i = 0; i < session->plan->n_ops; i++) {
        assert_true(ran_alone[i] || session->plan->ops[i].kind != SM_OP_MATMUL_FORWARD);
    }
}

TEST(what_is_no_number_stays_the_largest_error) {
    spot s = {.n_values = 0};
    spot_compare(&s, "y", NAN, 1, 1);
    spot_compare(&s, "y", 1, 1, 1);
    assert_false(s.error <= 1);
}
