// test_gradient.c: the backward is the derivative of the forward: in f64, on the reference, every gradient of very
// small models against central differences of the loss, (L(w+h) - L(w-h)) / 2h: for the plan as built and rewritten,
// without dropout and with (the masks are held fixed).
#include "tests/support/session.h"
#include "philox.h"

static const sm_model_config gpt2 = {MODEL(gpt2, 2, 2, 8, 24, 11, 6)};

static const sm_model_config gpt2_bent = {MODEL(gpt2, 1, 2, 8, 24, 11, 6)};

// Heads that share keys and values, and a head of its own; and neither.
static const sm_model_config llama = {SM_DIMENSIONS(llama, 2, 4, 16, 6, 11, 6), .n_kv_head = 2, .norm_eps = 1e-2,
                                      .rope_theta = 100, .untied = true};
static const sm_model_config llama_tied = {MODEL(llama, 1, 2, 8, 12, 11, 6), .rope_theta = 1e4};

// Heads wider than d_model / n_head.
static const sm_model_config qwen3 = {SM_DIMENSIONS(qwen3, 2, 4, 16, 6, 11, 6), .n_kv_head = 2, .head_dim = 6,
                                      .norm_eps = 1e-2, .rope_theta = 100};

enum { BATCH = 2, SEQUENCE = 5, MOST_ELEMS = 64 * 8 };

// The difference quotient is off by about h^2 (third derivative) and by 1e-16 / h (rounding).
static const double h = 1e-5;
static const double tolerance = 1e-6; // of the largest gradient of the parameter

static bool covered[SM_OP_KIND_COUNT];
static const sm_model *covered_models[16];
static size_t n_covered_models;
static unsigned covered_epilogues;

static void upload(sm_session *s, int tensor, int64_t first, int64_t n, const double *values) {
    ok(s->device->backend->upload(s->executable, tensor, first, n, values));
}

static void download(sm_session *s, int tensor, int64_t n, double *values) {
    ok(s->device->backend->download(s->executable, tensor, 0, n, values));
}

// Fills a parameter so that every term of its gradient counts.
static void draw_weights(sm_session *s, int tensor, double *values) {
    const char *name = s->plan->tensors[tensor].name;
    const double centre = s->plan->tensors[tensor].init_value;
    int64_t n = s->plan->tensors[tensor].real_elems;
    assert_true(n <= MOST_ELEMS);
    for (int64_t i = 0; i < n; i++) {
        const double drawn = sm_philox4x32(sm_philox_key(7, name), (uint64_t)i, 0).word[0] * 0x1p-31 - 1; // in [-1, 1)
        values[i] = centre + 0.7 * drawn;
    }
    upload(s, tensor, 0, n, values);
}

static void set_batch(sm_session *s) {
    const int32_t tokens[BATCH * SEQUENCE] = {3, 10, 0, 3, 7, 1, 3, 3, 9, 10};
    const int32_t targets[BATCH * SEQUENCE] = {10, 0, -1, 7, 2, 3, -1, 9, 10, 4};
    const int32_t starts[BATCH * SEQUENCE] = {0, 0, 2, 2, 2, 0, 1, 1, 1, 4};
    ok(s->plan->starts == SM_NO_TENSOR ? SM_OK : sm_session_set_documents(s, starts));
    ok(sm_session_set_batch(s, tokens, targets));
    ok(sm_session_set_hyper(s, &sm_optimizer_adamw.defaults, 1, 1));
}

static double loss_of(sm_session *s) {
    double loss = 0;
    s->n_micro_steps = 3; // the same dropout masks every time
    ok(sm_session_run(s, SM_RUN_FORWARD, NULL));
    download(s, s->plan->loss, 1, &loss);
    return loss;
}

// Compares all gradients of one parameter; returns the largest error.
static double compare_param(sm_session *s, int tensor, const double *gradient) {
    double weights[MOST_ELEMS], largest = 0, worst = 0;
    int64_t n = s->plan->tensors[tensor].real_elems;
    draw_weights(s, tensor, weights);
    for (int64_t i = 0; i < n; i++) {
        const double moved[2] = {weights[i] + h, weights[i] - h};
        upload(s, tensor, i, 1, &moved[0]);
        double above = loss_of(s);
        upload(s, tensor, i, 1, &moved[1]);
        double below = loss_of(s);
        upload(s, tensor, i, 1, &weights[i]);
        double error = fabs((above - below) / (2 * h) - gradient[i]);
        assert_true(isfinite(error));
        worst = fmax(worst, error);
        largest = fmax(largest, fabs(gradient[i]));
    }
    FAIL_IF(!(worst <= tolerance * largest) || !(largest > 0), "%s: gradient off by %g, its largest is %g",
            s->plan->tensors[tensor].name, worst, largest);
    return worst / largest;
}

// Attention AUTO: rows are no documents.
static sm_session *open_session(sm_device *device, const sm_model_config *model, sm_mode mode, double dropout_p,
                                sm_attention attention) {
    const sm_plan_options options = {TRAINING_BY(NULL, BATCH, SEQUENCE, SM_F64), .dropout_p = dropout_p, .seed = 1,
                                     .documents = attention != SM_ATTENTION_AUTO, .attention = attention};
    sm_plan *plan = build_plan(model, &options, mode, 0);
    for (int i = 0; i < plan->n_ops; i++) {
        covered[plan->ops[i].kind] = true;
        covered_epilogues |= plan->ops[i].attr.epilogue;
    }
    covered_models[n_covered_models++ % 16] = model->model;
    return open_plan(device, plan);
}

// The gradients of the plan's own backward, all of them, before the differences begin: in a
// fused plan the forward range adds to some.
static void run_backward(sm_session *s, double (*gradients)[MOST_ELEMS]) {
    s->n_micro_steps = 3;
    ok(sm_session_run(s, SM_RUN_ZERO_GRAD | SM_RUN_FORWARD | SM_RUN_BACKWARD, NULL));
    for (int i = 0; i < s->plan->n_tensors; i++) {
        if (sm_plan_is_param(s->plan, i)) {
            const int gradient = sm_gradient_of(s->plan, i);
            assert_int_not_equal(gradient, SM_NO_TENSOR);
            download(s, gradient, s->plan->tensors[i].real_elems, gradients[i]);
        }
    }
}

static void check_gradients_of(const sm_model_config *model, sm_mode mode, double dropout_p, sm_attention attention,
                               int n_expected) {
    double values[MOST_ELEMS], worst = 0;
    int n_params = 0;
    SM_OWN(sm_device) *device = open_backend("reference", 0);
    SM_OWN(sm_session) *s = open_session(device, model, mode, dropout_p, attention);
    const sm_plan *plan = s->plan;
    SM_FREED double(*gradients)[MOST_ELEMS] = sm_calloc((size_t)plan->n_tensors, sizeof *gradients);
    set_batch(s);
    for (int i = 0; i < plan->n_tensors; i++) {
        if (sm_plan_is_param(plan, i)) {
            draw_weights(s, i, values);
        }
    }
    run_backward(s, gradients);
    for (int i = 0; i < plan->n_tensors; i++) {
        if (sm_plan_is_param(plan, i)) {
            worst = fmax(worst, compare_param(s, i, gradients[i]));
            n_params++;
        }
    }
    print_message("%s, mode %s, dropout %g: %d parameters, largest error %.1e\n", model->model->name,
                  sm_mode_name(mode), dropout_p, n_params, worst);
    assert_int_equal(n_params, n_expected);
}

static void check_gradients(const sm_model_config *model, sm_mode mode, double dropout_p, int n_expected) {
    check_gradients_of(model, mode, dropout_p, SM_ATTENTION_AUTO, n_expected);
}

TEST(test_documents) {
    static const sm_attention kinds[] = {SM_ATTENTION_NAIVE, SM_ATTENTION_FLASH};
    for (int i = 0; i < 2; i++) {
        check_gradients_of(&gpt2, SM_MODE_FUSED, 0.3, kinds[i], 4 + 12 * 2);
        check_gradients_of(&llama_tied, SM_MODE_FUSED, 0, kinds[i], 2 + 9);
        check_gradients_of(&qwen3, SM_MODE_FUSED, 0, kinds[i], 2 + 11 * 2);
    }
}

static void check_mode(sm_mode mode) {
    check_gradients(&gpt2, mode, 0, 4 + 12 * 2);
    for (int a = SM_ACTIVATION_GELU + 1; a < SM_ACTIVATION_COUNT; a++) {
        sm_model_config config = gpt2_bent;
        config.activation = a;
        check_gradients(&config, mode, 0, 4 + 12);
    }
    check_gradients(&llama, mode, 0, 3 + 9 * 2);
    check_gradients(&llama_tied, mode, 0, 2 + 9);
    check_gradients(&qwen3, mode, 0, 2 + 11 * 2);
    check_gradients(&gpt2, mode, 0.3, 4 + 12 * 2);
    check_gradients(&llama, mode, 0.3, 3 + 9 * 2);
}

TEST(test_naive) { check_mode(SM_MODE_NAIVE); }

TEST(test_fused) { check_mode(SM_MODE_FUSED); }

// Kinds without a derivative: the norm, scalers, casts, optimizers and their parts.
static const char *const updates[] = {
    "grad_sqnorm", "grad_clip",    "scaler_update",    "adamw",         "adam",      "sgd",     "lion",
    "adamw8bit",   "adafactor",    "adafactor_vector", "muon_momentum", "normalize", "combine", "muon_update",
    "cast_fp8",    "scale_update",
};

static bool is_update(sm_op_kind kind) {
    bool found = false;
    for (size_t i = 0; i < sizeof updates / sizeof updates[0]; i++) {
        found |= strcmp(updates[i], sm_op_name(kind)) == 0;
    }
    return found;
}

// Together the plans above run every other kind of op: a new kind must be added to one of them, or to the list.
TEST(test_coverage) {
    for (int kind = 0; kind < SM_OP_KIND_COUNT; kind++) {
        FAIL_IF(!covered[kind] && !is_update((sm_op_kind)kind) && !sm_op_is_communication((sm_op_kind)kind),
                "no plan of this test has an op %s", sm_op_name((sm_op_kind)kind));
    }
    for (int m = 0; m < sm_model_count(); m++) {
        bool found = false;
        for (int i = 0; i < 16; i++) {
            found |= covered_models[i] == sm_model_at(m);
        }
        FAIL_IF(!found, "no plan of this test is of %s", sm_model_at(m)->name);
    }
    assert_int_equal(covered_epilogues, SM_EPILOGUE_BIAS | SM_EPILOGUE_ACT | SM_EPILOGUE_ACT_BACKWARD);
}
