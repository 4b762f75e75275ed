// test_gradient_check.c: the checks of gradients and updates find what is wrong, and nothing where nothing is.
//
// Mutants: the reference backend, with one fault in one output of one kind of op. Every fault that changes a gradient,
// a weight or its state must be found. The faults: an output at half its size, an output that adds nothing, a sum that
// is overwritten instead of added to; and a mask that is missing.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "gradient_check.h"
#include "philox.h"
#include "rewrite.h"
#include "step.h"
#include "update_check.h"

enum { VOCAB = 37 };

static const sm_model_config gpt2 = {.model = &sm_model_gpt2,
                                     .n_layer = 2,
                                     .n_head = 2,
                                     .d_model = 16,
                                     .d_ff = 32,
                                     .vocab = VOCAB,
                                     .context = 16,
                                     .norm_eps = 1e-5};

static const sm_model_config llama = {.model = &sm_model_llama,
                                      .n_layer = 2,
                                      .n_head = 4,
                                      .n_kv_head = 2,
                                      .d_model = 16,
                                      .d_ff = 24,
                                      .vocab = VOCAB,
                                      .context = 16,
                                      .norm_eps = 1e-5,
                                      .rope_theta = 1e4,
                                      .untied = true};

enum { BATCH = 4, SEQUENCE = 16, N_TOKENS = BATCH * SEQUENCE, MAX_ELEMS = 1 << 16 };

// --- a backend with one fault ----------------------------------------------------------------

typedef enum { NO_FAULT, HALF, NOTHING, OVERWRITES, NO_MASK, N_FAULTS } fault;

static const char *const fault_names[N_FAULTS] = {"none", "half", "adds nothing", "overwrites", "no mask"};

static struct {
    fault fault;
    sm_op_kind kind;
    int output;
    bool happened;
} mutant;

static const sm_backend *reference;
static float before[MAX_ELEMS];
static float after[MAX_ELEMS];

static sm_status copy(sm_executable *executable, int tensor, bool write, float *values) {
    const int64_t n = sm_tensor_elems(&executable->plan->tensors[tensor]);
    assert_true(n <= MAX_ELEMS);
    return write ? reference->upload(executable, tensor, 0, n, values)
                 : reference->download(executable, tensor, 0, n, values);
}

static bool is_hit(const sm_op *op) {
    const bool belongs = op->phase != SM_PHASE_FORWARD || op->kind == SM_OP_LOSS_SCALE;
    return mutant.fault != NO_FAULT && belongs && op->kind == mutant.kind && op->out[mutant.output] != SM_NO_TENSOR;
}

// y[i] as it would have been, from what it was, `was`, and what it is, `is`.
static float spoil(bool adds, float was, float is) {
    const float old = adds ? was : 0;
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
        assert_int_equal(copy(executable, op->in[SM_IN(dropout, x)], false, after), SM_OK);
        return;
    }
    assert_int_equal(op->kind, SM_OP_CROSSENTROPY_BACKWARD);
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
    const bool adds = sm_op_get_info(op->kind)->out[mutant.output].mode == SM_ADDS && !op->attr.overwrites;
    const int64_t n = sm_tensor_elems(&executable->plan->tensors[tensor]);
    mutant.happened = true;
    SM_TRY(copy(executable, tensor, false, before));
    SM_TRY(reference->execute(executable, (sm_range){i, i + 1}, NULL));
    SM_TRY(copy(executable, tensor, false, after));
    for (int64_t k = 0; k < n; k++) {
        after[k] = spoil(adds, before[k], after[k]);
    }
    if (mutant.fault == NO_MASK) {
        unmask(executable, op);
    }
    return copy(executable, tensor, true, after);
}

static sm_status execute(sm_executable *executable, sm_range range, int64_t *op_ns) {
    (void)op_ns;
    for (int i = range.first; i < range.end; i++) {
        SM_TRY(is_hit(&executable->plan->ops[i]) ? run_spoilt(executable, i)
                                                 : reference->execute(executable, (sm_range){i, i + 1}, NULL));
    }
    return SM_OK;
}

static sm_backend mutants;

// --- a workload ------------------------------------------------------------------------------

static struct {
    double grad_norm;
    sm_update_check *update_check;
    sm_gradient_check gradients;
} checks;

static sm_status next_batch(void *ctx, sm_session *session, int64_t index) {
    int32_t tokens[N_TOKENS];
    int32_t targets[N_TOKENS];
    (void)ctx;
    for (int i = 0; i < N_TOKENS; i++) {
        const sm_philox_block random = sm_philox4x32(sm_philox_key(1, "batch"), (uint64_t)i, (uint64_t)index % 2);
        tokens[i] = (int32_t)(random.word[0] % (uint32_t)VOCAB);
        targets[i] = random.word[1] % 8 == 0 ? -1 : (int32_t)(random.word[2] % (uint32_t)VOCAB);
    }
    return sm_session_set_batch(session, tokens, targets);
}

static sm_status check_gradients(void *ctx, sm_session *session, int n_accum, sm_row *row) {
    SM_ROW_TEXT(row->gradient_check, "differences");
    sm_status status = sm_check_gradients(session, n_accum, next_batch, ctx, &checks.gradients);
    checks.grad_norm = checks.gradients.grad_norm;
    return status;
}

static sm_status before_step(void *ctx, sm_session *session, int64_t step, unsigned phases) {
    (void)ctx;
    (void)phases;
    if (step == 1) {
        SM_TRY(sm_poison_gradients(session));
    }
    return sm_update_check_begin(session, &checks.update_check);
}

static sm_status after_update(void *ctx, sm_session *session, sm_row *row) {
    sm_update_result result;
    (void)ctx;
    (void)row;
    sm_status status = sm_update_check_end(checks.update_check, session, checks.grad_norm, &result);
    checks.update_check = NULL;
    checks.grad_norm = 0;
    return status;
}

static const sm_workload workload = {.next_batch = next_batch,
                                     .check_gradients = check_gradients,
                                     .before_step = before_step,
                                     .after_update = after_update};

// --- running ---------------------------------------------------------------------------------

typedef struct {
    const sm_model_config *model;
    sm_mode mode;
    double dropout_p;
    int n_accum;
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
        assert_int_equal(sm_session_write(session, i, n, before), SM_OK);
    }
}

static sm_session *open_session(sm_device *device, const variant *v) {
    const sm_plan_options options = {.B = BATCH,
                                     .T = SEQUENCE,
                                     .dtype = SM_F32,
                                     .dropout_p = v->dropout_p,
                                     .seed = 1,
                                     .backward = true,
                                     .optimizer = &sm_optimizer_adamw,
                                     .one_micro_batch = v->n_accum == 1};
    sm_plan *plan = NULL;
    sm_session *session = NULL;
    assert_int_equal(sm_model_build(v->model, &options, &plan), SM_OK);
    assert_int_equal(sm_plan_rewrite(plan, v->mode, 0), SM_OK);
    assert_int_equal(sm_session_open(device, plan, &session), SM_OK);
    draw_weights(session);
    return session;
}

static sm_device *open_device(void) {
    sm_device *device = NULL;
    reference = sm_backend_find("reference");
    mutants = *reference;
    mutants.execute = execute;
    assert_int_equal(reference->open(0, &(sm_open_options){0}, &device), SM_OK);
    device->backend = &mutants;
    return device;
}

// Two steps with their checks: the first status that is not ok.
static sm_status run_steps(sm_session *session, const variant *v) {
    const sm_step_settings adamw = {
        .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1, .grad_clip = 0.5};
    sm_stepper stepper = {
        .session = session, .workload = &workload, .settings = &adamw, .phases = SM_RUN_STEP, .n_accum = v->n_accum};
    sm_row row;
    sm_status status = sm_row_init(&row);
    mutant.happened = false;
    for (int i = 0; i < 2 && status == SM_OK; i++) {
        int64_t elapsed_ns;
        double loss;
        status = sm_step_run(&stepper, &row, NULL, &elapsed_ns, &loss);
    }
    sm_row_free(&row);
    sm_update_check_free(checks.update_check);
    checks.update_check = NULL;
    return status;
}

// A number that a fault changes if it changes anything that a step leaves: gradients, weights, state, results.
static double fingerprint(sm_device *device, const variant *v) {
    static const sm_role roles[] = {SM_ROLE_PARAMETER, SM_ROLE_GRADIENT, SM_ROLE_OPTIMIZER, SM_ROLE_RESULT};
    sm_session *session = open_session(device, v);
    const sm_plan *plan = session->plan;
    const sm_step_settings adamw = {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-6, .grad_clip = 0.5};
    double sum = 0;
    assert_int_equal(sm_poison_gradients(session), SM_OK);
    assert_int_equal(sm_session_set_hyper(session, &adamw, 1, v->n_accum), SM_OK);
    for (int i = 0; i < v->n_accum; i++) {
        const unsigned phases = (i > 0 ? 0 : SM_RUN_ZERO_GRAD) | SM_RUN_FORWARD | SM_RUN_BACKWARD |
                                (i + 1 < v->n_accum ? 0 : SM_RUN_OPTIMIZER);
        assert_int_equal(next_batch(NULL, session, i), SM_OK);
        assert_int_equal(sm_session_run(session, phases, NULL), SM_OK);
    }
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_tensor *t = &plan->tensors[i];
        for (size_t r = 0; r < sizeof roles / sizeof roles[0]; r++) {
            if (t->role == roles[r] && t->view_of == SM_NO_TENSOR && t->arena >= 0) {
                const int64_t n = sm_tensor_elems(t);
                assert_int_equal(sm_session_read(session, i, n, after), SM_OK);
                for (int64_t k = 0; k < n; k++) {
                    sum += fabs((double)after[k]) * (double)(1 + k % 7) / (1e-3 + fabs((double)after[0]));
                }
            }
        }
    }
    sm_session_close(session);
    return sum;
}

// --- tests -----------------------------------------------------------------------------------

static const variant variants[] = {{&gpt2, SM_MODE_NAIVE, 0, 1},   {&gpt2, SM_MODE_FUSED, 0, 1},
                                   {&gpt2, SM_MODE_NAIVE, 0.1, 2}, {&llama, SM_MODE_NAIVE, 0.1, 2},
                                   {&llama, SM_MODE_FUSED, 0, 1},  {&gpt2, SM_MODE_FUSED, 0.1, 2}};

static void nothing_is_found_where_nothing_is_wrong(void **state) {
    sm_device *device = *state;
    mutant.fault = NO_FAULT;
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        sm_session *session = open_session(device, &variants[i]);
        sm_status status = run_steps(session, &variants[i]);
        if (status != SM_OK) {
            print_error("variant %zu: %s\n", i, sm_error_message());
        }
        assert_int_equal(status, SM_OK);
        assert_true(checks.gradients.tells);
        assert_true(checks.gradients.error <= 2e-3);
        sm_session_close(session);
    }
}

static bool kind_is_in(const sm_plan *plan, sm_op_kind kind, int output) {
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op *op = &plan->ops[i];
        if (op->kind == kind && (op->phase != SM_PHASE_FORWARD || kind == SM_OP_LOSS_SCALE) &&
            op->out[output] != SM_NO_TENSOR) {
            return true;
        }
    }
    return false;
}

static bool has_mask(sm_op_kind kind, int output) {
    return output == 0 && (kind == SM_OP_DROPOUT || kind == SM_OP_CROSSENTROPY_BACKWARD);
}

// Under a sanitizer the last two have to do: they have every kind of op, and the reference is ten times as slow.
#ifdef __SANITIZE_ADDRESS__
enum { FIRST_VARIANT = 4, LEAST_FOUND = 90 };
#else
enum { FIRST_VARIANT = 0, LEAST_FOUND = 260 };
#endif

typedef struct {
    int n_found;
    int n_missed;
    int n_harmless; // changed nothing that a step leaves
} tally;

static void try_mutant(sm_device *device, const variant *v, double sound, tally *t) {
    const double spoilt = fingerprint(device, v);
    if (fabs(spoilt - sound) <= 1e-6 * fabs(sound)) {
        t->n_harmless++;
        return;
    }
    sm_session *session = open_session(device, v);
    sm_status status = run_steps(session, v);
    sm_session_close(session);
    assert_true(mutant.happened);
    t->n_found += status == SM_ERR_MISMATCH;
    if (status != SM_ERR_MISMATCH) {
        t->n_missed++;
        print_error("missed: %s: %s, output %s: %s; mode %s, dropout %g, %d micro-batches (status %d, error %g)\n",
                    v->model->model->name, sm_op_name(mutant.kind),
                    sm_op_get_info(mutant.kind)->out[mutant.output].name, fault_names[mutant.fault],
                    sm_mode_name(v->mode), v->dropout_p, v->n_accum, (int)status, checks.gradients.error);
    }
}

static void try_kind(sm_device *device, const variant *v, const sm_plan *plan, double sound, tally *t) {
    const sm_op_info *info = sm_op_get_info(mutant.kind);
    for (mutant.output = 0; mutant.output < SM_MAX_OUT && info->out[mutant.output].name != NULL; mutant.output++) {
        for (int f = HALF; f < N_FAULTS && kind_is_in(plan, mutant.kind, mutant.output); f++) {
            const bool adds = info->out[mutant.output].mode == SM_ADDS;
            if ((f == OVERWRITES && !adds) || (f == NO_MASK && !has_mask(mutant.kind, mutant.output))) {
                continue;
            }
            mutant.fault = (fault)f;
            try_mutant(device, v, sound, t);
        }
    }
}

static void every_fault_is_found(void **state) {
    sm_device *device = *state;
    tally all = {0};
    for (size_t i = FIRST_VARIANT; i < sizeof variants / sizeof variants[0]; i++) {
        const variant *v = &variants[i];
        mutant.fault = NO_FAULT;
        const double sound = fingerprint(device, v);
        sm_session *session = open_session(device, v);
        for (int kind = 0; kind < SM_OP_KIND_COUNT; kind++) {
            tally of_kind = {0};
            mutant.kind = (sm_op_kind)kind;
            try_kind(device, v, session->plan, sound, &of_kind);
            if (of_kind.n_harmless > 0) {
                print_message("%s, variant %zu: %d harmless\n", sm_op_name(mutant.kind), i, of_kind.n_harmless);
            }
            all.n_found += of_kind.n_found;
            all.n_missed += of_kind.n_missed;
            all.n_harmless += of_kind.n_harmless;
        }
        sm_session_close(session);
    }
    print_message("mutants: %d found, %d missed, %d harmless\n", all.n_found, all.n_missed, all.n_harmless);
    assert_int_equal(all.n_missed, 0);
    assert_true(all.n_found >= LEAST_FOUND);
}

static int set_up(void **state) {
    *state = open_device();
    return 0;
}

static int tear_down(void **state) {
    sm_device *device = *state;
    reference->close(device);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_found_where_nothing_is_wrong),
        cmocka_unit_test(every_fault_is_found),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
