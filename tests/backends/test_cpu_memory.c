// test_cpu_memory.c: the cpu backend allocates what it predicts for a plan, and restores kept weights.
#include "tests/support/kept_weights.h"
#include "src/verify/op_cases.h"

// The plan's arenas, each in whole pages.
static size_t arena_bytes(const sm_plan *plan) {
    enum { PAGE_BYTES = 4096 };
    size_t total_bytes = 0;
    for (int i = 0; i < plan->n_arenas; i++) {
        total_bytes += (plan->arenas[i].size_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    }
    return total_bytes;
}

static void check_estimate(sm_device *device, sm_plan *plan, const char *what, const char *of) {
    sm_executable *executable = NULL;
    assert_int_equal(sm_plan_assign_memory(plan, 0), SM_OK);
    assert_int_equal(device->backend->prepare(device, plan, &executable), SM_OK);
    const size_t foretold = arena_bytes(plan) + device->backend->working_bytes(device, plan);
    FAIL_IF(foretold != executable->memory_bytes, "%s %s in %s: %zu bytes foretold, %zu allocated", what, of,
            sm_dtype_name(plan->dtype), foretold, executable->memory_bytes);
    device->backend->release(executable);
}

// Every kind of op separately, so that each one's scratch counts.
static void check_ops(sm_device *device, sm_dtype dtype) {
    for (int kind = 0; kind < SM_OP_KIND_COUNT; kind++) {
        for (int i = 0; i < sm_op_case_count((sm_op_kind)kind); i++) {
            SM_OWN(sm_plan) *plan = NULL;
            char text[SM_CASE_TEXT_SIZE];
            sm_op_case_text((sm_op_kind)kind, i, text);
            assert_int_equal(sm_op_case_plan((sm_op_kind)kind, i, (sm_precision){.dtype = dtype}, &plan), SM_OK);
            check_estimate(device, plan, sm_op_name((sm_op_kind)kind), text);
        }
    }
}

static void check(sm_dtype dtype) {
    const sm_plan_options options = {TRAINING(4, 64, dtype)};
    for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
        SM_OWN(sm_device) *device = open_backend("cpu", n_threads);
        SM_OWN(sm_plan) *plan = build_plan(gpt2_of("tiny"), &options, SM_MODE_FUSED, 0);
        check_ops(device, dtype);
        check_estimate(device, plan, "tiny", "b4s64");
    }
}

TEST(test_fp32) { check(SM_F32); }

TEST(test_narrow) {
    check(SM_BF16);
    check(SM_F16);
}

TEST(test_kept_weights) {
    static const char *const names[] = {"cpu", "reference"};
    static const sm_dtype formats[] = {SM_F32, SM_BF16};
    for (int i = 0; i < 4; i++) {
        SM_OWN(sm_device) *device = open_backend(names[i / 2], i < 2 ? 2 : 1);
        check_kept_weights(device, formats[i % 2]);
    }
}

// Another session's tensors, which a plan reads in place, stay as they are.
TEST(memory_of_the_caller_is_only_read) {
    enum { N = 4096 };
    static float values[N], result[N];
    const int64_t dims[] = {N};
    sm_executable *executable = NULL;
    SM_OWN(sm_device) *device = open_backend("cpu", 2);
    SM_OWN(sm_plan) *plan = sm_plan_new(SM_F32);
    const sm_backend *backend = device->backend;
    sm_op op = sm_op_make(SM_OP_GELU_FORWARD, SM_PHASE_FORWARD, -1);
    op.in[SM_IN(gelu_forward, x)] = sm_plan_add_tensor(plan, SM_ROLE_PARAMETER, SM_F32, 1, dims, "x");
    op.out[SM_OUT(gelu_forward, y)] = sm_plan_add_tensor(plan, SM_ROLE_ACTIVATION, SM_F32, 1, dims, "y");
    assert_int_equal(sm_plan_add_op(plan, &op), SM_OK);
    assert_int_equal(sm_plan_assign_memory(plan, 0), SM_OK);
    plan->tensors[op.in[0]].memory = values;
    for (int i = 0; i < N; i++) {
        values[i] = 100.1F;
    }
    assert_int_equal(backend->prepare(device, plan, &executable), SM_OK);
    assert_int_equal(backend->execute(executable, (sm_range){0, 1}, NULL), SM_OK);
    assert_int_equal(backend->synchronize(executable), SM_OK);
    assert_int_equal(backend->download(executable, op.out[0], 0, N, result), SM_OK);
    for (int i = 0; i < N; i++) {
        assert_true(values[i] == 100.1F && result[i] == 100.1F);
    }
    backend->release(executable);
}
