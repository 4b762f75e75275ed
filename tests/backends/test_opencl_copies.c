// test_opencl_copies.c: copies during computation, as two processes' devices exchange gradients: out, in, added, and
// rounded to bf16, exact to the bit; and a copy of the weights. Skipped, with the reason, without a device.
#include "f16.h"
#include "tests/support/kept_weights.h"
#include "tests/support/opencl_device.h"

enum { N = 100003, FIRST = 64, PART = N - 2 * FIRST, LARGE = 1 << 22, N_OPS = 8 };

typedef struct {
    sm_device *device;
    sm_plan *plan;
    sm_executable *executable;
    int tensor;
    float own[N], theirs[N], result[N];
    uint16_t rounded[N];
} bench;

// Any sign and exponent, but not too small, so that devices without denormals give the same.
static float number_at(int i, unsigned seed) {
    const unsigned mixed = ((unsigned)i * 2654435761u) ^ (seed * 40503u);
    const float size = (float)(1 + mixed % 100000) / 777.0f;
    return mixed & 0x10000u ? size : -size;
}

static void set_up(bench *b) {
    const int64_t dims[] = {N};
    const int64_t large_dims[] = {LARGE};
    b->device = open_device("registers");
    b->plan = sm_plan_new(SM_F32);
    for (int i = 0; i < N; i++) {
        b->own[i] = number_at(i, 1);
        b->theirs[i] = number_at(i, 2);
    }
    b->tensor = sm_plan_add_tensor(b->plan, SM_ROLE_GRADIENT, SM_F32, 1, dims, "g");
    const int large = sm_plan_add_tensor(b->plan, SM_ROLE_GRADIENT, SM_F32, 1, large_dims, "large");
    for (int i = 0; i < N_OPS; i++) {
        sm_op zero = sm_op_make(SM_OP_ZERO, SM_PHASE_ZERO_GRAD, -1);
        zero.out[0] = i + 1 < N_OPS ? large : b->tensor; // at the end of much work
        check(sm_plan_add_op(b->plan, &zero));
    }
    check(sm_plan_assign_memory(b->plan, b->device->info.max_alloc_bytes));
    check(backend->prepare(b->device, b->plan, &b->executable));
    check(backend->pin(b->executable, b->theirs, N * sizeof *b->theirs));
    check(backend->upload(b->executable, b->tensor, 0, N, b->own));
}

static void tear_down(bench *b) {
    backend->release(b->executable);
    backend->close(b->device);
    sm_plan_free(b->plan);
}

static void copy(bench *b, sm_copy_kind kind, bool is_bf16, void *host) {
    const sm_copy c = {
        .kind = kind, .tensor = b->tensor, .offset_elems = FIRST, .n_elems = PART, .is_bf16 = is_bf16, .host = host};
    void *ticket = NULL;
    check(backend->begin_copy(b->executable, &c, &ticket));
    check(backend->wait_copy(b->executable, ticket));
}

static bool is_part(int i) { return i >= FIRST && i < FIRST + PART; }

TEST(test_plain) {
    static bench b;
    set_up(&b);
    copy(&b, SM_COPY_OUT, false, b.result);
    for (int i = 0; i < PART; i++) {
        assert_true(b.result[i] == b.own[FIRST + i]);
    }
    copy(&b, SM_COPY_ADD, false, b.theirs);
    check(backend->download(b.executable, b.tensor, 0, N, b.result));
    for (int i = 0; i < N; i++) {
        assert_true(b.result[i] == (is_part(i) ? b.own[i] + b.theirs[i - FIRST] : b.own[i]));
    }
    copy(&b, SM_COPY_IN, false, b.theirs);
    check(backend->download(b.executable, b.tensor, 0, N, b.result));
    for (int i = 0; i < N; i++) {
        assert_true(b.result[i] == (is_part(i) ? b.theirs[i - FIRST] : b.own[i]));
    }
    tear_down(&b);
}

// A copy begins when what was started before it is done.
TEST(test_copies_wait_for_ops) {
    static bench b;
    set_up(&b);
    for (int round = 0; round < 5; round++) {
        check(backend->upload(b.executable, b.tensor, 0, N, b.own));
        check(backend->execute(b.executable, (sm_range){0, N_OPS}, NULL));
        copy(&b, SM_COPY_OUT, false, b.result);
        for (int i = 0; i < PART; i++) {
            FAIL_IF(b.result[i] != 0, "round %d: element %d was copied before it was computed", round, i);
        }
    }
    tear_down(&b);
}

static float rounded(float x) { return sm_bf16_widen(sm_bf16_round(x)); }

TEST(test_rounded) {
    static bench b;
    set_up(&b);
    copy(&b, SM_COPY_OUT, true, b.rounded);
    for (int i = 0; i < PART; i++) {
        assert_int_equal(b.rounded[i], sm_bf16_round(b.own[FIRST + i]));
        b.rounded[i] = sm_bf16_round(b.theirs[i]);
    }
    copy(&b, SM_COPY_ADD, true, b.rounded);
    check(backend->download(b.executable, b.tensor, 0, N, b.result));
    for (int i = 0; i < N; i++) {
        const float wanted = is_part(i) ? rounded(rounded(b.own[i]) + rounded(b.theirs[i - FIRST])) : b.own[i];
        assert_true(b.result[i] == wanted);
    }
    tear_down(&b);
}

TEST(test_kept_weights) {
    SM_OWN(sm_device) *device = open_device("registers");
    check_kept_weights(device, SM_F32);
    check_kept_weights(device, SM_BF16);
}

AROUND_ALL(find_device, NULL)
