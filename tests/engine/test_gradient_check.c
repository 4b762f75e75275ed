// test_gradient_check.c: the checks of gradients and updates find every fault, and raise no false alarm.
//
// Mutants: the reference backend, with one fault in one output of one kind of op. Every fault that changes a gradient,
// a weight or its state must be found. The faults: an output, or the change of one that is updated, at half its size;
// an output that adds nothing; a sum that is overwritten instead of added to; and a mask that is missing.
#include "tests/support/session.h"
#include "philox.h"

enum { VOCAB = 37 };

static const sm_model_config gpt2 = {MODEL(gpt2, 2, 2, 16, 32, VOCAB, 16)};

static const sm_model_config llama = {MODEL(llama, 2, 4, 16, 24, VOCAB, 16), .n_kv_head = 2, .rope_theta = 1e4,
                                      .untied = true};

enum { BATCH = 4, SEQUENCE = 16, N_TOKENS = BATCH * SEQUENCE, MAX_ELEMS = 1 << 16 };

// --- a backend with one fault ----------------------------------------------------------------

typedef enum { NO_FAULT, HALF, NOTHING, OVERWRITES, NO_MASK, N_FAULTS } fault;

static const char *const fault_names[N_FAULTS] = {"none", "half", "adds nothing", "overwrites", "no mask"};

static struct {
    fault fault;
    sm_op_kind kind;
    int output;
    bool updates_only; // of the optimizer; otherwise in all of the step
    bool happened;
} mutant;

static const sm_backend *reference;
static float before[MAX_ELEMS];
static float after[MAX_ELEMS];

static sm_status copy(sm_executable *executable, int tensor, bool write, float *values) {
    static uint8_t codes[MAX_ELEMS];
    const sm_tensor *t = &executable->plan->tensors[tensor];
    const int64_t n = sm_tensor_elems(t);
    void *data = t->dtype == SM_U8 ? (void *)codes : values;
    assert_true(n <= MAX_ELEMS);
    for (int64_t i = 0; i < n && write && t->dtype == SM_U8; i++) {
        codes[i] = (uint8_t)values[i];
    }
    SM_TRY(write ? reference->upload(executable, tensor, 0, n, data)
                 : reference->download(executable, tensor, 0, n, data));
    for (int64_t i = 0; i < n && !write && t->dtype == SM_U8; i++) {
        values[i] = codes[i];
    }
    return SM_OK;
}

static bool belongs(const sm_plan *plan, const sm_op *op) {
    return mutant.updates_only ? sm_op_is_update(plan, op)
                               : op->phase != SM_PHASE_FORWARD || op->kind == SM_OP_LOSS_SCALE ||
                                     op->kind == SM_OP_CROSSENTROPY_WITH_GRADIENT;
}

// y[i] as it would have been, from what it was, `was`, and what it is, `is`.
static float spoil(bool changes, float was, float is) {
    const float old = changes ? was : 0;
    switch (mutant.fault) {
    case HALF: return old + 0.5F * (is - old);
    case NOTHING: return old;
    case OVERWRITES: return is - old;
    default: return is;
    }
}

// dropout's backward without its mask; cross-entropy's with the tokens whose target is to be ignored.
static void unmask(sm_executable *executable, const sm_op *op) {
    const sm_plan *plan = executable->plan;
    if (op->kind == SM_OP_DROPOUT) {
        ok(copy(executable, op->in[SM_IN(dropout, x)], false, after));
        return;
    }
    assert_true(op->kind == SM_OP_CROSSENTROPY_BACKWARD || op->kind == SM_OP_CROSSENTROPY_WITH_GRADIENT);
    const int64_t Vp = sm_tensor_cols(&plan->tensors[op->out[0]]);
    for (int64_t i = 0; i < sm_tensor_elems(&plan->tensors[op->out[0]]); i++) {
        if (after[i] == 0 && i % Vp < plan->V) {
            after[i] = 1.0F / (float)plan->V / N_TOKENS;
        }
    }
}

static sm_status run_spoilt(sm_executable *executable, int i) {
    const sm_op *op = &executable->plan->ops[i];
    const int tensor = op->out[mutant.output];
    const sm_out_mode mode = sm_op_get_info(op->kind)->out[mutant.output].mode;
    const bool changes = op->kind == SM_OP_ZERO || mode == SM_UPDATES || (mode == SM_ADDS && !op->attr.overwrites);
    const int64_t n = sm_tensor_elems(&executable->plan->tensors[tensor]);
    mutant.happened = true;
    SM_TRY(copy(executable, tensor, false, before));
    SM_TRY(reference->execute(executable, (sm_range){i, i + 1}, NULL));
    SM_TRY(copy(executable, tensor, false, after));
    for (int64_t k = 0; k < n; k++) {
        after[k] = spoil(changes, before[k], after[k]);
    }
    if (mutant.fault == NO_MASK) {
        unmask(executable, op);
    }
    return copy(executable, tensor, true, after);
}

static sm_status execute(sm_executable *executable, sm_range range, SM_UNUSED int64_t *op_ns) {
    for (int i = range.first; i < range.end; i++) {
        const sm_op *op = &executable->plan->ops[i];
        const bool is_hit = mutant.fault != NO_FAULT && belongs(executable->plan, op) && op->kind == mutant.kind &&
                            op->out[mutant.output] != SM_NO_TENSOR;
        SM_TRY(is_hit ? run_spoilt(executable, i) : reference->execute(executable, (sm_range){i, i + 1}, NULL));
    }
    return SM_OK;
}

static sm_backend mutants;

static sm_status next_batch(SM_UNUSED void *ctx, sm_session *session, int64_t index) {
    int32_t tokens[N_TOKENS], targets[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++) {
        const sm_philox_block random = sm_philox4x32(sm_philox_key(1, "batch"), (uint64_t)i, (uint64_t)index % 2);
        tokens[i] = (int32_t)(random.word[0] % (uint32_t)VOCAB);
        targets[i] = random.word[1] % 8 == 0 ? -1 : (int32_t)(random.word[2] % (uint32_t)VOCAB);
    }
    return sm_session_set_batch(session, tokens, targets);
}

static const sm_workload workload = {.next_batch = next_batch, CHECKED};

// --- running ---------------------------------------------------------------------------------

typedef struct {
    const sm_model_config *model;
    sm_mode mode;
    double dropout_p;
    int n_accum;
    const sm_optimizer *optimizer;
} variant;

static void draw_weights(sm_session *session) {
    const sm_plan *plan = session->plan;
    for (int i = 0; i < plan->n_tensors; i++) {
        if (!sm_plan_is_param(plan, i)) {
            continue;
        }
        const uint64_t key = sm_philox_key(3, plan->tensors[i].name);
        // GPT-2's biases of layernorms are not small, so that they count.
        const double centre = strstr(plan->tensors[i].name, "ln_") != NULL ? 1 : plan->tensors[i].init_value;
        const int64_t n = plan->tensors[i].real_elems;
        for (int64_t k = 0; k < n; k++) {
            const double uniform = (double)sm_philox4x32(key, (uint64_t)k, 0).word[0] * 0x1p-31 - 1;
            before[k] = (float)(centre + 0.2 * uniform);
        }
        ok(sm_session_write(session, i, n, before));
    }
}

static sm_step_settings settings_of(const sm_optimizer *optimizer) {
    sm_step_settings settings = optimizer->defaults;
    settings.lr = 1e-2;
    settings.weight_decay = 0.1;
    settings.grad_clip = 0.5;
    return settings;
}

static sm_session *open_session(sm_device *device, const variant *v) {
    const sm_plan_options options = {TRAINING_BY(v->optimizer, BATCH, SEQUENCE, SM_F32), .dropout_p = v->dropout_p,
                                     .seed = 1, .one_micro_batch = v->n_accum == 1};
    sm_session *session = open_plan(device, build_plan(v->model, &options, v->mode, 0));
    draw_weights(session);
    return session;
}

static unsigned micro_phases(int index, int n_accum) {
    return (index > 0 ? 0 : SM_RUN_ZERO_GRAD) | SM_RUN_FORWARD | SM_RUN_BACKWARD |
           (index + 1 < n_accum ? 0 : SM_RUN_OPTIMIZER);
}

// A second step whose update alone is checked: a measurement's look at its ops would find the fault before.
static sm_status run_second(sm_session *session, const variant *v, const sm_step_settings *settings, sm_row *row) {
    SM_TRY(checked_before(NULL, session, 2, SM_RUN_STEP, 1));
    SM_TRY(sm_session_set_hyper(session, settings, 2, v->n_accum));
    for (int i = 0; i < v->n_accum; i++) {
        SM_TRY(next_batch(NULL, session, v->n_accum + i));
        SM_TRY(sm_session_run(session, micro_phases(i, v->n_accum), NULL));
    }
    return checked_after(NULL, session, row);
}

// Two steps with these checks: the first status that is not ok.
static sm_status run_steps(sm_session *session, const variant *v) {
    const sm_step_settings settings = settings_of(v->optimizer);
    sm_stepper stepper = {
        .session = session, .workload = &workload, .settings = &settings, .phases = SM_RUN_STEP, .n_accum = v->n_accum};
    sm_row row;
    sm_row_init(&row);
    mutant.happened = false;
    checked.feed = next_batch;
    int64_t elapsed_ns;
    double loss;
    sm_status status = sm_step_run(&stepper, &row, NULL, &elapsed_ns, &loss);
    status = status == SM_OK ? run_second(session, v, &settings, &row) : status;
    sm_row_free(&row);
    sm_update_check_free(checked.update);
    checked.update = NULL;
    return status;
}

// A number that a fault changes if it changes anything that a step leaves: gradients, weights, state, results.
static double fingerprint(sm_device *device, const variant *v) {
    static const sm_role roles[] = {SM_ROLE_PARAMETER, SM_ROLE_GRADIENT, SM_ROLE_OPTIMIZER, SM_ROLE_RESULT};
    SM_OWN(sm_session) *session = open_session(device, v);
    const sm_plan *plan = session->plan;
    const sm_step_settings settings = settings_of(v->optimizer);
    double sum = 0;
    ok(sm_poison_gradients(session));
    ok(sm_session_set_hyper(session, &settings, 1, v->n_accum));
    for (int i = 0; i < v->n_accum; i++) {
        ok(next_batch(NULL, session, i));
        ok(sm_session_run(session, micro_phases(i, v->n_accum), NULL));
    }
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_tensor *t = &plan->tensors[i];
        for (size_t r = 0; r < sizeof roles / sizeof roles[0]; r++) {
            if (t->role == roles[r] && t->view_of == SM_NO_TENSOR && t->arena >= 0) {
                const int64_t n = sm_tensor_elems(t);
                double sizes = 1e-30;
                ok(sm_session_read(session, i, n, after));
                for (int64_t k = 0; k < n; k++) {
                    sizes += fabs((double)after[k]) * (double)(1 + k % 7);
                }
                sum += log(sizes); // whatever their unit
            }
        }
    }
    return sum;
}

// --- tests -----------------------------------------------------------------------------------

static const variant variants[] = {
    {&gpt2, SM_MODE_NAIVE, 0, 1, &sm_optimizer_adamw},   {&gpt2, SM_MODE_FUSED, 0, 1, &sm_optimizer_adamw},
    {&gpt2, SM_MODE_NAIVE, 0.1, 2, &sm_optimizer_adamw}, {&llama, SM_MODE_NAIVE, 0.1, 2, &sm_optimizer_adamw},
    {&llama, SM_MODE_FUSED, 0, 1, &sm_optimizer_adamw},  {&gpt2, SM_MODE_FUSED, 0.1, 2, &sm_optimizer_adamw}};

TEST(nothing_is_found_where_nothing_is_wrong) {
    mutant.fault = NO_FAULT;
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        SM_OWN(sm_session) *session = open_session(*state, &variants[i]);
        FAIL_IF(run_steps(session, &variants[i]) != SM_OK, "variant %zu: %s", i, sm_error_message());
        assert_true(checked.gradients.tells);
        assert_true(checked.gradients.error <= 2e-3);
        ok(sm_poison_gradients(session)); // all of them
        for (int t = 0; t < session->plan->n_tensors; t++) {
            const int gradient = sm_gradient_of(session->plan, t);
            const int64_t n = gradient == SM_NO_TENSOR ? 0 : session->plan->tensors[t].real_elems;
            ok(n == 0 ? SM_OK : sm_session_read(session, gradient, n, after));
            for (int64_t k = 0; k < n; k++) {
                assert_true(isnan(after[k]));
            }
        }
    }
}

static bool kind_is_in(const sm_plan *plan, sm_op_kind kind, int output) {
    for (const sm_op *op = plan->ops; op < plan->ops + plan->n_ops; op++) {
        if (op->kind == kind && op->out[output] != SM_NO_TENSOR && belongs(plan, op)) {
            return true;
        }
    }
    return false;
}

// Under a sanitizer the last two have to do: they have every kind of op, and the reference is ten times as slow.
#ifdef __SANITIZE_ADDRESS__
enum { FIRST_VARIANT = 4, LEAST_FOUND = 90 };
#else
enum { FIRST_VARIANT = 0, LEAST_FOUND = 240 };
#endif

typedef struct {
    int n_found, n_missed;
    int n_harmless; // changed nothing that a step leaves
} tally;

static void try_mutant(sm_device *device, const variant *v, double sound, tally *t) {
    const double spoilt = fingerprint(device, v);
    if (fabs(spoilt - sound) <= 1e-6 * fabs(sound)) {
        t->n_harmless++;
        return;
    }
    SM_OWN(sm_session) *session = open_session(device, v);
    const sm_status status = run_steps(session, v);
    assert_true(mutant.happened);
    t->n_found += status == SM_ERR_MISMATCH;
    if (status != SM_ERR_MISMATCH) {
        t->n_missed++;
        print_error("missed: %s: %s, output %s: %s; mode %s, dropout %g, %d micro-batches (status %d, error %g)\n",
                    v->model->model->name, sm_op_name(mutant.kind),
                    sm_op_get_info(mutant.kind)->out[mutant.output].name, fault_names[mutant.fault],
                    sm_mode_name(v->mode), v->dropout_p, v->n_accum, (int)status, checked.gradients.error);
    }
}

static void try_kind(sm_device *device, const variant *v, const sm_plan *plan, double sound, tally *t) {
    const sm_op_info *info = sm_op_get_info(mutant.kind);
    for (mutant.output = 0; mutant.output < SM_MAX_OUT && info->out[mutant.output].name != NULL; mutant.output++) {
        for (int f = HALF; f < N_FAULTS && kind_is_in(plan, mutant.kind, mutant.output); f++) {
            const bool adds = info->out[mutant.output].mode == SM_ADDS;
            const bool has_mask =
                mutant.output == 0 && (mutant.kind == SM_OP_DROPOUT || mutant.kind == SM_OP_CROSSENTROPY_BACKWARD ||
                                       mutant.kind == SM_OP_CROSSENTROPY_WITH_GRADIENT);
            if ((f == OVERWRITES && !adds) || (f == NO_MASK && !has_mask)) {
                continue;
            }
            mutant.fault = (fault)f;
            try_mutant(device, v, sound, t);
        }
    }
}

// Every fault of every kind of op in the variant's step.
static void try_all(sm_device *device, const variant *v, tally *all) {
    mutant.fault = NO_FAULT;
    const double sound = fingerprint(device, v);
    SM_OWN(sm_session) *session = open_session(device, v);
    for (int kind = 0; kind < SM_OP_KIND_COUNT; kind++) {
        tally of_kind = {0};
        mutant.kind = (sm_op_kind)kind;
        try_kind(device, v, session->plan, sound, &of_kind);
        if (of_kind.n_harmless > 0) {
            print_message("%s by %s: %d harmless\n", sm_op_name(mutant.kind), v->optimizer->name, of_kind.n_harmless);
        }
        assert_true(mutant.kind != SM_OP_ZERO || of_kind.n_harmless == 0); // what is not zeroed is not a number
        all->n_found += of_kind.n_found;
        all->n_missed += of_kind.n_missed;
        all->n_harmless += of_kind.n_harmless;
    }
}

TEST(every_fault_is_found) {
    sm_device *device = *state;
    tally all = {0};
    for (size_t i = FIRST_VARIANT; i < sizeof variants / sizeof variants[0]; i++) {
        try_all(device, &variants[i], &all);
    }
    print_message("mutants: %d found, %d missed, %d harmless\n", all.n_found, all.n_missed, all.n_harmless);
    assert_int_equal(all.n_missed, 0);
    assert_true(all.n_found >= LEAST_FOUND);
}

// Faults in the updates of every optimizer.
TEST(every_fault_of_an_update_is_found) {
    sm_device *device = *state;
    mutant.updates_only = true;
    for (int i = 0; i < sm_optimizer_count(); i++) {
        const variant v = {&gpt2, SM_MODE_FUSED, 0, 1, sm_optimizer_at(i)};
        tally found = {0};
        try_all(device, &v, &found);
        print_message("%s: %d found, %d missed, %d harmless\n", v.optimizer->name, found.n_found, found.n_missed,
                      found.n_harmless);
        assert_int_equal(found.n_missed, 0);
        assert_true(found.n_found >= 4); // halves and omissions of the weights and of a state at least
    }
    mutant.updates_only = false;
}

// --- lion -------------------------------------------------------------------------------------

// Turns every second sign of lion's first update round, after its state was made such that terms cancel but for
// rounding, or but for `left` of them. `factor`: of those results; not 1: wrong.
static sm_status turn_signs(sm_device *device, float left, float factor) {
    const variant v = {&gpt2, SM_MODE_FUSED, 0, 1, &sm_optimizer_lion};
    sm_step_settings settings = v.optimizer->defaults;
    sm_update_check *check = NULL;
    sm_update_result result;
    mutant.fault = NO_FAULT;
    SM_OWN(sm_session) *session = open_session(device, &v);
    const int p = sm_plan_find_tensor(session->plan, "params.matrices.0");
    const int g = sm_plan_find_tensor(session->plan, "grads.matrices.0");
    const int m = sm_plan_find_tensor(session->plan, "m.matrices.0");
    assert_true(p != SM_NO_TENSOR && g != SM_NO_TENSOR && m != SM_NO_TENSOR);
    const int64_t n = sm_tensor_elems(&session->plan->tensors[g]);
    assert_true(n <= MAX_ELEMS);
    ok(sm_session_set_hyper(session, &settings, 1, 1));
    ok(next_batch(NULL, session, 0));
    ok(sm_session_run(session, SM_RUN_ZERO_GRAD | SM_RUN_FORWARD | SM_RUN_BACKWARD, NULL));
    ok(sm_session_read(session, g, n, after));
    const float share = (float)((1 - settings.beta1) / settings.beta1);
    for (int64_t i = 0; i < n; i++) {
        before[i] = -share * (1 - left) * after[i];
    }
    ok(sm_session_write(session, m, n, before));
    ok(sm_session_read(session, p, n, before));
    ok(sm_update_check_begin(session, 1, &check));
    ok(sm_session_run(session, SM_RUN_OPTIMIZER, NULL));
    ok(sm_session_read(session, p, n, after));
    for (int64_t i = 0; i < n; i += 2) {
        after[i] = factor * (2 * before[i] - after[i]); // without decay
    }
    ok(sm_session_write(session, p, n, after));
    return sm_update_check_end(check, session, 0, &result);
}

TEST(open_signs_go_either_way) {
    assert_int_equal(turn_signs(*state, 0, 1), SM_OK);
    assert_int_equal(turn_signs(*state, 1e-5F, 1), SM_ERR_MISMATCH);
    assert_int_equal(turn_signs(*state, 0, NAN), SM_ERR_MISMATCH);
}

// One wrong weight is found by the seeds that draw its run: one of five.
TEST(weights_of_an_update_are_drawn) {
    enum { N_SEEDS = 40, WRONG_AT = 40 };
    const variant v = {&gpt2, SM_MODE_FUSED, 0, 1, &sm_optimizer_adamw};
    const float wrong = 7;
    int n_found = 0;
    mutant.fault = NO_FAULT;
    SM_OWN(sm_session) *session = open_session(*state, &v);
    ok(sm_session_set_hyper(session, &v.optimizer->defaults, 1, 1));
    ok(next_batch(NULL, session, 0));
    ok(sm_session_run(session, SM_RUN_ZERO_GRAD | SM_RUN_FORWARD | SM_RUN_BACKWARD, NULL));
    for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
        sm_update_check *check = NULL;
        sm_update_result result;
        ok(sm_update_check_begin(session, seed, &check));
        ok(sm_session_run(session, SM_RUN_OPTIMIZER, NULL));
        const int p = sm_plan_find_tensor(session->plan, "params.matrices.0");
        ok(sm_session_write_part(session, p, WRONG_AT, 1, &wrong));
        n_found += sm_update_check_end(check, session, 0, &result) == SM_ERR_MISMATCH;
    }
    assert_true(n_found > 0 && n_found < N_SEEDS);
}

static int set_up(void **state) {
    sm_device *device = *state = open_backend("reference", 0);
    reference = device->backend;
    mutants = *reference;
    mutants.execute = execute;
    device->backend = &mutants;
    return 0;
}

static int tear_down(void **state) {
    SM_OWN(sm_device) *device = *state;
    return 0;
}

AROUND_ALL(set_up, tear_down)
