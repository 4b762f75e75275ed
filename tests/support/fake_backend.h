// fake_backend.h: for tests of the harness: a plan of six ops, and a backend that does what a test tells it.
#pragma once

#include <malloc.h>
#include <signal.h>
#include <time.h>

#include "tests/support/test.h"
#include "bench/measure/step.h"

// --- a program of six ops ------------------------------------------------------------------

enum { B = 2, T = 2, N_ELEMS = 10 };

static int add_tensor(sm_plan *plan, sm_role role, sm_dtype dtype, int64_t n, const char *name) {
    int tensor = sm_plan_add_tensor(plan, role, dtype, 1, &n, "%s", name);
    assert_true(tensor >= 0);
    return tensor;
}

static void add_op(sm_plan *plan, sm_op_kind kind, sm_phase range, sm_phase phase, const int in[3], const int out[3]) {
    sm_op op = sm_op_make(kind, phase, -1);
    op.range = range;
    for (int i = 0; i < 3; i++) {
        op.in[i] = in[i];
        op.out[i] = out[i];
    }
    assert_int_equal(sm_plan_add_op(plan, &op), SM_OK);
}

// zero | residual, residual (reported as backward), loss_mean | gelu_backward | adamw
static sm_plan *make_plan(void) {
    const int none = SM_NO_TENSOR;
    sm_plan *p = sm_plan_new(SM_F32);
    assert_non_null(p);
    p->B = B;
    p->T = T;
    p->V = 16;
    p->n_params = N_ELEMS;
    p->tokens = add_tensor(p, SM_ROLE_BATCH, SM_I32, B * T, "tokens");
    p->targets = add_tensor(p, SM_ROLE_BATCH, SM_I32, B * T, "targets");
    p->hyper = add_tensor(p, SM_ROLE_BATCH, SM_F32, SM_HYPER_COUNT, "hyper");
    p->loss = add_tensor(p, SM_ROLE_RESULT, SM_F32, 1, "loss");
    p->losses = add_tensor(p, SM_ROLE_RESULT, SM_F32, B * T, "losses");
    int clip = add_tensor(p, SM_ROLE_RESULT, SM_F32, 1, "clip");
    p->grad_norm = clip;
    int x = add_tensor(p, SM_ROLE_ACTIVATION, SM_F32, N_ELEMS, "x");
    int y = add_tensor(p, SM_ROLE_ACTIVATION, SM_F32, N_ELEMS, "y");
    int w = add_tensor(p, SM_ROLE_PARAMETER, SM_F32, N_ELEMS, "w");
    p->tensors[w].is_saved = true;
    int g = add_tensor(p, SM_ROLE_GRADIENT, SM_F32, N_ELEMS, "d.w");
    int m = add_tensor(p, SM_ROLE_OPTIMIZER, SM_F32, N_ELEMS, "m.w");
    int v = add_tensor(p, SM_ROLE_OPTIMIZER, SM_F32, N_ELEMS, "v.w");
    add_op(p, SM_OP_ZERO, SM_PHASE_ZERO_GRAD, SM_PHASE_ZERO_GRAD, (int[]){none, none, none}, (int[]){g, none, none});
    add_op(p, SM_OP_RESIDUAL, SM_PHASE_FORWARD, SM_PHASE_FORWARD, (int[]){x, w, none}, (int[]){y, none, none});
    add_op(p, SM_OP_RESIDUAL, SM_PHASE_FORWARD, SM_PHASE_BACKWARD, (int[]){x, w, none}, (int[]){y, none, none});
    add_op(p, SM_OP_LOSS_MEAN, SM_PHASE_FORWARD, SM_PHASE_FORWARD, (int[]){p->losses, p->targets, none},
           (int[]){p->loss, none, none});
    add_op(p, SM_OP_GELU_BACKWARD, SM_PHASE_BACKWARD, SM_PHASE_BACKWARD, (int[]){y, x, none}, (int[]){g, none, none});
    add_op(p, SM_OP_ADAMW, SM_PHASE_OPTIMIZER, SM_PHASE_OPTIMIZER, (int[]){g, p->hyper, clip}, (int[]){w, m, v});
    return p;
}

// FLOPs of these: 0 | 10, 10, 4 | 180 | 160.
enum { FORWARD_FLOPS = 24, BACKWARD_FLOPS = 180, ADAMW_FLOPS = 160 };
enum { UPDATE_BYTES = 28 * N_ELEMS + 4 * (SM_HYPER_COUNT + 1) }; // g, p, m, v; the settings, and the factor of the norm

// --- a backend under control ------------------------------------------------------------------

// Which numbers a step that is made again gets otherwise.
typedef enum { FAKE_REPEATS, FAKE_OTHER_LOSSES, FAKE_LAST_BITS, FAKE_OTHER_GRADIENTS } fake_change;

static struct {
    // Set by a test.
    double loss;
    int bad_loss_at_step; // the loss of this step (1, 2, ...) is NaN; 0 = never
    int odd_loss_at_step; // the loss of this step is odd_loss; 0 = never
    double odd_loss;
    fake_change change;   // of a step that is made again
    int wrong_from_step;  // gelu_backward has 1 for a gradient of 0 from this step on; 0 = never
    int wrong_in_last_of; // but only in the last of so many micro-batches; 0 = in all
    sm_status keep_result;
    bool keeps_nothing; // the backend has no keep_weights
    int fail_at_step;   // execute fails at this step; 0 = never
    sm_status failure;
    int sleep_at_step; // this step takes sleep_ms
    int sleep_ms, interrupt_at_step;
    int ms_of_step;     // op 1 sleeps that long
    int64_t op_cost_ns; // op i is said to take (i + 1) times this; 0 = its real time
    sm_status check_result;
    bool check_is_mute;
    sm_status gradient_result;
    bool gradient_check_is_mute;
    sm_status update_result;

    // Seen.
    volatile sig_atomic_t interrupted;
    int n_steps;      // from uploads of hyper: a step that is made again is none
    int n_kept;       // copies of the weights that were made
    uint64_t kept_at; // bits of the numbers of steps by then
    int n_put_back, n_resumed;
    bool is_kept;
    bool is_again;   // a step is being made again
    bool is_changed; // its results are others
    int n_waits;     // after the last op of the backward
    float gradient;
    int n_batches;
    int n_batches_again; // of steps that were made again
    int n_checks, steps_at_check[4];
    int updates_before_step; // runs of the optimizer's op by then
    int n_gradient_checks;
    int updates_at_gradient_check; // runs of the optimizer's op by then
    int n_update_checks[2];        // before and after
    int n_executed[8];             // by op
    int n_untimed[8];
    size_t heap_at_begin; // 0: no clock runs
    int n_allocating_steps, n_progress;
    int64_t deadline_ns; // of the executable at first
} fake;

enum { NO_WAITS = -1000 };

static void spin_ns(int64_t wanted_ns) {
    struct timespec a;
    struct timespec b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    do {
        clock_gettime(CLOCK_MONOTONIC, &b);
    } while ((b.tv_sec - a.tv_sec) * 1000000000LL + (b.tv_nsec - a.tv_nsec) < wanted_ns);
}

static int64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static sm_status fake_supports(SM_UNUSED const sm_device *device, SM_UNUSED const sm_plan *plan,
                               SM_UNUSED const sm_op *op) {
    return SM_OK;
}

static size_t fake_working_bytes(SM_UNUSED const sm_device *device, SM_UNUSED const sm_plan *plan) { return 1000; }

static sm_status fake_prepare(sm_device *device, const sm_plan *plan, sm_executable **executable) {
    *executable = calloc(1, sizeof(**executable));
    assert_non_null(*executable);
    **executable = (sm_executable){.device = device, .plan = plan, .memory_bytes = 12345};
    return SM_OK;
}

static void fake_release(sm_executable *executable) { free(executable); }

static sm_status fake_execute(sm_executable *executable, sm_range range, int64_t *op_ns) {
    fake.deadline_ns = fake.deadline_ns == 0 ? executable->deadline_ns : fake.deadline_ns;
    if (fake.fail_at_step == fake.n_steps) {
        return sm_fail(fake.failure, "fake: step %d fails", fake.n_steps);
    }
    if (fake.sleep_at_step == fake.n_steps) {
        spin_ns((int64_t)fake.sleep_ms * 1000000);
    }
    for (int i = range.first; i < range.end; i++) {
        int64_t begin_ns = clock_ns();
        fake.n_executed[i]++;
        if (i == 0 || i == 4) { // zeroed, and added to
            fake.gradient = i == 4 && fake.wrong_from_step > 0 && fake.n_steps >= fake.wrong_from_step &&
                            (fake.wrong_in_last_of == 0 || fake.n_batches % fake.wrong_in_last_of == 0);
        }
        fake.is_changed = false;
        fake.n_waits = i == 4 ? 0 : NO_WAITS;
        if (i == 1 && fake.ms_of_step > 0) {
            nanosleep(&(struct timespec){.tv_nsec = 1000000L * fake.ms_of_step}, NULL);
        }
        fake.n_untimed[i] += op_ns == NULL;
        if (op_ns != NULL) {
            op_ns[i] += fake.op_cost_ns > 0 ? (i + 1) * fake.op_cost_ns : clock_ns() - begin_ns;
        }
    }
    return SM_OK;
}

static size_t heap_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

// The end of a step. Between the pieces of a checked one there are others: the checks allocate what they need.
static sm_status fake_synchronize(SM_UNUSED sm_executable *executable) {
    fake.n_waits++;
    fake.is_changed |= fake.is_again && fake.n_waits == 2; // after all that is looked at
    fake.n_allocating_steps += fake.heap_at_begin != 0 && heap_bytes() != fake.heap_at_begin;
    fake.heap_at_begin = 0;
    return SM_OK;
}

// The upload of the settings is what a step begins with.
static sm_status fake_upload(sm_executable *executable, int tensor, SM_UNUSED int64_t offset_elems, int64_t n_elems,
                             SM_UNUSED const void *data) {
    fake.n_waits = NO_WAITS;
    if (tensor == executable->plan->hyper) {
        assert_int_equal(n_elems, SM_HYPER_COUNT);
        fake.n_steps++;
        fake.heap_at_begin = heap_bytes();
    }
    return SM_OK;
}

static float fake_loss(void) {
    return fake.bad_loss_at_step == fake.n_steps   ? NAN
           : fake.odd_loss_at_step == fake.n_steps ? (float)fake.odd_loss
                                                   : (float)fake.loss;
}

// All tensors are 0, which is what every op makes of its inputs, but for the losses.
static float fake_value(const sm_plan *plan, int tensor) {
    const fake_change change = fake.is_changed ? fake.change : FAKE_REPEATS;
    const sm_role role = plan->tensors[tensor].role;
    if (tensor == plan->loss || tensor == plan->losses) {
        return change == FAKE_LAST_BITS      ? nextafterf(fake_loss(), INFINITY)
               : change == FAKE_OTHER_LOSSES ? fake_loss() * 1.001F
                                             : fake_loss();
    }
    if (tensor == plan->grad_norm) {
        return (float)fake.loss;
    }
    return role == SM_ROLE_GRADIENT ? fake.gradient + (change == FAKE_OTHER_GRADIENTS ? 1 : 0) : 0;
}

static sm_status fake_download(sm_executable *executable, int tensor, int64_t offset_elems, int64_t n_elems,
                               void *data) {
    const sm_plan *plan = executable->plan;
    const sm_tensor *t = &plan->tensors[tensor];
    assert_true(offset_elems >= 0 && n_elems >= 0 && offset_elems + n_elems <= sm_tensor_elems(t));
    if (t->dtype == SM_I32) {
        memset(data, 0, (size_t)n_elems * sizeof(int32_t));
        return SM_OK;
    }
    for (int64_t i = 0; i < n_elems; i++) {
        ((float *)data)[i] = fake_value(plan, tensor);
    }
    return SM_OK;
}

static sm_status fake_keep_weights(SM_UNUSED sm_executable *executable, sm_weights_action action) {
    if (action == SM_WEIGHTS_KEEP) {
        if (fake.keep_result != SM_OK) {
            return sm_fail(fake.keep_result, "fake: no room for a copy");
        }
        assert_false(fake.is_kept);
        fake.n_kept++;
        fake.kept_at |= UINT64_C(1) << fake.n_steps % 64;
    } else if (action == SM_WEIGHTS_RESTORE) {
        assert_true(fake.is_kept && !fake.is_again);
        fake.n_put_back++;
    } else if (action == SM_WEIGHTS_RESUME) {
        assert_true(fake.is_again);
        fake.n_resumed++;
    }
    fake.is_kept = action != SM_WEIGHTS_DROP;
    fake.is_again = action == SM_WEIGHTS_RESTORE;
    fake.is_changed = false;
    return SM_OK;
}

// --- the checks of a workload ---------------------------------------------------------------

static sm_status fake_check_gradients(SM_UNUSED void *ctx, sm_session *session, SM_UNUSED int64_t first_batch,
                                      SM_UNUSED int n_accum, sm_row *row) {
    fake.n_gradient_checks++;
    fake.updates_at_gradient_check = fake.n_executed[session->plan->n_ops - 1];
    fake.heap_at_begin = heap_bytes(); // the update follows
    SM_ROW_TEXT(row->gradient_check, fake.gradient_check_is_mute ? "" : "none");
    return fake.gradient_result == SM_OK ? SM_OK : sm_fail(fake.gradient_result, "fake: wrong gradient");
}

static sm_status fake_before_step(SM_UNUSED void *ctx, SM_UNUSED sm_session *session, SM_UNUSED int64_t step,
                                  SM_UNUSED unsigned phases, SM_UNUSED uint64_t seed) {
    fake.n_update_checks[0]++;
    return SM_OK;
}

static sm_status fake_after_update(SM_UNUSED void *ctx, SM_UNUSED sm_session *session, sm_row *row) {
    fake.n_update_checks[1]++;
    SM_ROW_TEXT(row->update_check, "none");
    return fake.update_result == SM_OK ? SM_OK : sm_fail(fake.update_result, "fake: wrong update");
}

static inline sm_status fake_next_batch(SM_UNUSED void *ctx, sm_session *session, SM_UNUSED int64_t index) {
    static const int32_t ids[B * T];
    return sm_session_set_batch(session, ids, ids);
}

static inline sm_status fake_check(SM_UNUSED void *ctx, SM_UNUSED sm_session *session, SM_UNUSED int64_t index,
                                   SM_UNUSED uint64_t seed, sm_row *row) {
    row->loss_reference = 2.5;
    SM_ROW_TEXT(row->loss_check, "a constant");
    return SM_OK;
}

// Set-up of a test: all is well.
static inline int fake_reset(SM_UNUSED void **state) {
    memset(&fake, 0, sizeof(fake));
    fake.loss = 2.5;
    fake.failure = SM_ERR_DEVICE;
    fake.fail_at_step = -1;
    fake.sleep_at_step = -1;
    fake.interrupt_at_step = -1;
    fake.bad_loss_at_step = -1;
    return 0;
}

#define FAKE_CHECKS \
    .check_gradients = fake_check_gradients, .before_step = fake_before_step, .after_update = fake_after_update

static const sm_backend fake_backend = {
    .name = "fake",
    .summary = "does what the test says",
    .supports = fake_supports,
    .working_bytes = fake_working_bytes,
    .prepare = fake_prepare,
    .release = fake_release,
    .execute = fake_execute,
    .synchronize = fake_synchronize,
    .upload = fake_upload,
    .download = fake_download,
    .keep_weights = fake_keep_weights,
};

static sm_device fake_device = {.backend = &fake_backend,
                                .info = {.id = "fake:0", .name = "Fake 1", .n_threads = 3, .available = true}};
