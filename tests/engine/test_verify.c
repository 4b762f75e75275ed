// test_verify.c: the cpu backend computes what the reference computes, op by op and a step at a time, with one thread
// and with several; the rewrites change no result; and the check itself detects a wrong device.
#include "src/verify/op_cases.h"
#include "tests/support/session.h"
#include "tests/support/whole.h"

// --- the cpu backend --------------------------------------------------------------------

static void check_cpu_ops(int n_threads, sm_dtype dtype) {
    tally t = {0};
    SM_OWN(sm_device) *device = open_backend("cpu", n_threads);
    assert_int_equal(sm_verify_ops(device, (sm_precision){.dtype = dtype}, NULL, show_row, &t), SM_OK);
    assert_true(t.n_rows > 300);
    assert_int_equal(t.n_skipped, 0);
}

TEST(test_cpu_ops_1_thread) { check_cpu_ops(1, SM_F32); }

TEST(test_cpu_ops_3_threads) { check_cpu_ops(3, SM_F32); }

TEST(test_cpu_ops_narrow) {
    check_cpu_ops(3, SM_F16);
    check_cpu_ops(3, SM_BF16);
    if (runs_all()) {
        check_cpu_ops(1, SM_BF16);
    }
}

// The rows of one step of each model: a gradient and a weight a parameter, loss and norm, and the copies of matrices.
static int rows_of_steps(bool has_copies) {
    int n = 0;
    for (int i = 0; i < sm_model_count(); i++) {
        const sm_model_config *config = &sm_model_at(i)->odd;
        sm_param_spec specs[SM_MAX_PARAM_KINDS];
        const int n_kinds = sm_model_at(i)->params(config, specs);
        n += 2 * 3; // of three steps
        for (int kind = 0; kind < n_kinds; kind++) {
            const int n_params = strstr(specs[kind].name, "%d") != NULL ? config->n_layer : 1;
            n += n_params * (has_copies && specs[kind].rows > 0 ? 3 : 2);
        }
    }
    return n;
}

static void check_step(const char *name, int n_threads, sm_dtype dtype, sm_mode mode, unsigned without) {
    tally t = {0};
    SM_OWN(sm_device) *device = open_backend(name, n_threads);
    ok(sm_verify_step(device, (sm_precision){.dtype = dtype}, mode, SM_RECOMPUTE_AUTO, without, show_row, &t));
    // Twice with first_write, which makes steps of one micro-batch others.
    const bool twice = mode != SM_MODE_NAIVE && !(without & 1u << sm_rewrite_find("first_write"));
    assert_int_equal(t.n_rows, rows_of_steps(sm_dtype_is_narrow(dtype)) * (twice ? 2 : 1));
    assert_int_equal(t.n_skipped, 0);
}

TEST(test_cpu_step) {
    for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
        check_step("cpu", n_threads, SM_F32, SM_MODE_NAIVE, 0);
        check_step("cpu", n_threads, SM_F32, SM_MODE_FUSED, 0);
    }
}

TEST(test_cpu_step_narrow) {
    check_step("cpu", 3, SM_F16, SM_MODE_FUSED, 0);
    check_step("reference", 0, SM_F16, SM_MODE_NAIVE, 0);
    check_step("cpu", 3, SM_BF16, SM_MODE_NAIVE, 0);
    check_step("cpu", 1, SM_BF16, SM_MODE_FUSED, 0);
    for (int i = 0; i < sm_rewrite_count() && runs_all(); i++) { // test_rewrites has them in fp32
        check_step("cpu", 3, SM_BF16, SM_MODE_FUSED, 1u << i);
    }
}

// Each kind of attention.
static void check_documents(const char *name, sm_dtype dtype, sm_mode mode) {
    tally t = {0};
    SM_OWN(sm_device) *device = open_backend(name, strcmp(name, "cpu") == 0 ? 3 : 0);
    assert_int_equal(sm_verify_documents(device, (sm_precision){.dtype = dtype}, mode, show_row, &t), SM_OK);
    assert_int_equal(t.n_rows, 2 * rows_of_steps(sm_dtype_is_narrow(dtype)));
    assert_int_equal(t.n_skipped, 0);
}

TEST(test_documents) {
    check_documents("reference", SM_F32, SM_MODE_FUSED);
    check_documents("cpu", SM_F32, SM_MODE_NAIVE);
    check_documents("cpu", SM_F32, SM_MODE_FUSED);
    check_documents("cpu", SM_BF16, SM_MODE_FUSED);
}

static void check_updates(const char *name, sm_dtype dtype, sm_mode mode) {
    tally t = {0};
    SM_OWN(sm_device) *device = open_backend(name, 3);
    assert_int_equal(sm_verify_updates(device, (sm_precision){.dtype = dtype}, mode, show_row, &t), SM_OK);
    assert_int_equal(t.n_rows, 2 * sm_model_count() * sm_optimizer_count());
    assert_int_equal(t.n_skipped, 0);
}

TEST(test_cpu_updates) {
    check_updates("cpu", SM_F32, SM_MODE_NAIVE);
    check_updates("cpu", SM_F32, SM_MODE_FUSED);
    check_updates("cpu", SM_BF16, SM_MODE_FUSED);
}

// --- rewrites: each by itself leaves a plan that computes the same ------------------------

TEST(test_rewrites) {
    for (int i = 0; i < sm_rewrite_count(); i++) {
        check_step("reference", 0, SM_F32, SM_MODE_FUSED, ~(1u << i));
    }
}

// --- the check itself -------------------------------------------------------------------

// A device that is the reference but for one fault.
typedef enum { FAULT_NAN, FAULT_VALUE, FAULT_IDLE, FAULT_REFUSES } fault_kind;
static fault_kind fault;
static const sm_backend *sound;

static sm_status faulty_supports(const sm_device *device, const sm_plan *plan, const sm_op *op) {
    if (fault == FAULT_REFUSES) {
        return sm_fail(SM_ERR_UNSUPPORTED, "faulty: refuses %s", sm_op_name(op->kind));
    }
    return sound->supports(device, plan, op);
}

static sm_status faulty_execute(sm_executable *executable, sm_range range, int64_t *op_ns) {
    return fault == FAULT_IDLE ? SM_OK : sound->execute(executable, range, op_ns);
}

// Spoils what is downloaded: the last value becomes NaN, or all are off by a thousandth.
static sm_status faulty_download(sm_executable *executable, int tensor, int64_t first, int64_t n, void *data) {
    SM_TRY(sound->download(executable, tensor, first, n, data));
    float *values = data;
    if (executable->plan->tensors[tensor].dtype != SM_F32) {
        return SM_OK;
    }
    for (int64_t i = 0; i < n && fault == FAULT_VALUE; i++) {
        values[i] *= 1.001f;
    }
    if (fault == FAULT_NAN) {
        values[n - 1] = NAN;
    }
    return SM_OK;
}

enum { MOST_SMALL_ELEMS = 3000 };

typedef enum { OPS, SMALL_OPS, STEP, UPDATES } subject;

static sm_status verify_with(fault_kind kind, subject what, tally *t) {
    *t = (tally){0};
    fault = kind;
    SM_OWN(sm_device) *device = open_backend("reference", 0);
    sound = device->backend;
    sm_backend faulty = *sound;
    faulty.supports = faulty_supports;
    faulty.execute = faulty_execute;
    faulty.download = faulty_download;
    device->backend = &faulty;
    const sm_precision f32 = {.dtype = SM_F32};
    const sm_verify_filter small = {.max_elems = MOST_SMALL_ELEMS};
    sm_status status = what == STEP ? sm_verify_step(device, f32, SM_MODE_NAIVE, SM_RECOMPUTE_AUTO, 0, count_row, t)
                       : what == UPDATES   ? sm_verify_updates(device, f32, SM_MODE_NAIVE, count_row, t)
                       : what == SMALL_OPS ? sm_verify_ops(device, f32, &small, count_row, t)
                                           : sm_verify_ops(device, f32, NULL, count_row, t);
    return status;
}

TEST(test_sees_faults) {
    tally t;
    int n_rows = 0;
    for (int kind = 0; kind < SM_OP_KIND_COUNT; kind++) {
        for (int i = 0; i < sm_op_case_count((sm_op_kind)kind); i++) {
            char text[SM_CASE_TEXT_SIZE];
            sm_op_case_text((sm_op_kind)kind, i, text);
            n_rows += !sm_op_case_is_fp8((sm_op_kind)kind, text);
        }
    }
    const fault_kind faults[] = {FAULT_NAN, FAULT_VALUE, FAULT_IDLE};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        assert_int_equal(verify_with(faults[i], runs_all() ? OPS : SMALL_OPS, &t), SM_ERR_MISMATCH);
        assert_true(runs_all() ? t.n_rows == n_rows : t.n_rows > n_rows / 2);
        assert_true(t.n_failed > t.n_rows * 9 / 10); // some outputs are all 0, or compared before they change
    }
    assert_int_equal(verify_with(FAULT_VALUE, STEP, &t), SM_ERR_MISMATCH);
    assert_int_equal(t.n_failed, t.n_rows);
    assert_int_equal(verify_with(FAULT_NAN, UPDATES, &t), SM_ERR_MISMATCH);
    assert_int_equal(t.n_failed, t.n_rows);
    assert_int_equal(verify_with(FAULT_REFUSES, OPS, &t), SM_OK);
    assert_int_equal(t.n_skipped, n_rows);
    assert_int_equal(verify_with(FAULT_REFUSES, STEP, &t), SM_OK);
    assert_int_equal(t.n_skipped, sm_model_count());
}

TEST(test_error_measure) {
    const double b[3] = {1, -4, 2};
    const double off[3] = {1, -4, 3};
    const double not_a_number[3] = {1, NAN, 2};
    const double infinite[3] = {1, -4, INFINITY};
    const double zeros[3] = {0, 0, 0};
    assert_true(sm_verify_error(SM_F64, 3, b, b, 0) == 0);
    assert_true(sm_verify_error(SM_F64, 3, off, b, 0) == 0.25);
    assert_true(sm_verify_error(SM_F64, 3, off, b, 0.5) == 2);
    assert_true(sm_verify_error(SM_F64, 3, zeros, zeros, 0) == 0);
    assert_true(isinf(sm_verify_error(SM_F64, 3, b, zeros, 0)));
    assert_true(isinf(sm_verify_error(SM_F64, 3, not_a_number, b, 0)));
    assert_true(isinf(sm_verify_error(SM_F64, 3, b, not_a_number, 0)));
    assert_true(isinf(sm_verify_error(SM_F64, 3, infinite, infinite, 0)));
}

TEST(test_cases_make_plans) {
    for (int kind = 0; kind < SM_OP_KIND_COUNT; kind++) {
        for (int i = 0; i < sm_op_case_count((sm_op_kind)kind); i++) {
            SM_OWN(sm_plan) *plan = NULL;
            assert_int_equal(sm_op_case_plan((sm_op_kind)kind, i, (sm_precision){.dtype = SM_F64}, &plan), SM_OK);
            assert_int_equal(plan->ops[plan->n_ops - 1].kind, kind);
        }
    }
}
