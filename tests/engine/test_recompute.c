// test_recompute.c: recomputation changes when something is computed, but not its value: a training keeps every bit, a
// step its FLOPs, and memory falls to one input for each block.
#include "tests/support/run_program.h"
#include "tests/support/session.h"

enum { BATCH = 3, SEQUENCE = 17, N_STEPS = 3 };

typedef struct {
    sm_dtype dtype;
    sm_mode mode;
    unsigned without;
    sm_recompute recompute;
    int n_accum;
} variant;

static sm_plan *build(const sm_model_config *config, const variant *v, int64_t B, int64_t T) {
    const sm_plan_options options = {TRAINING(B, T, v->dtype), .dropout_p = 0.1, .seed = 1,
                                     .one_micro_batch = v->n_accum == 1, .recompute = v->recompute};
    return build_plan(config, &options, v->mode, v->without);
}

// --- the same numbers ---------------------------------------------------------------------

static sm_session *open_session(sm_device *device, const sm_model_config *config, const variant *v) {
    return start_session(device, build(config, v, BATCH, SEQUENCE), 1);
}

// The tensor of that name is, bit by bit, that of the other session.
static void compare_tensor(sm_session *one, sm_session *other, int tensor) {
    const char *name = one->plan->tensors[tensor].name;
    const int64_t n = one->plan->tensors[tensor].real_elems;
    SM_FREED float *a = tensor_values(one, tensor, n);
    SM_FREED float *b = tensor_values(other, sm_plan_find_tensor(other->plan, name), n);
    FAIL_IF(memcmp(a, b, (size_t)n * sizeof *a) != 0, "%s differs with recomputation", name);
}

// Losses, gradients and weights.
static void compare_sessions(sm_session *one, sm_session *other) {
    int n_params = 0;
    compare_tensor(one, other, one->plan->losses);
    for (int i = 0; i < one->plan->n_tensors; i++) {
        if (sm_plan_is_param(one->plan, i)) {
            compare_tensor(one, other, i);
            compare_tensor(one, other, sm_gradient_of(one->plan, i));
            n_params++;
        }
    }
    assert_true(n_params > 0);
}

static void check_bits(sm_device *device, const sm_model_config *config, variant v) {
    const sm_recompute recompute = v.recompute;
    v.recompute = SM_RECOMPUTE_NONE;
    SM_OWN(sm_session) *kept = open_session(device, config, &v);
    v.recompute = recompute;
    SM_OWN(sm_session) *again = open_session(device, config, &v);
    for (int step = 1; step <= N_STEPS; step++) {
        run_made_step(kept, step, v.n_accum);
        run_made_step(again, step, v.n_accum);
        compare_sessions(kept, again);
    }
}

static void check_device(const char *backend_name, int n_threads, sm_dtype dtype) {
    SM_OWN(sm_device) *device = open_backend(backend_name, n_threads);
    for (int m = 0; m < sm_model_count(); m++) {
        for (int mode = SM_MODE_NAIVE; mode <= SM_MODE_FUSED; mode++) {
            for (int n_accum = 1; n_accum <= 2; n_accum++) {
                const variant block = {dtype, (sm_mode)mode, 0, SM_RECOMPUTE_BLOCK, n_accum};
                const variant two = {dtype, (sm_mode)mode, 0, SM_RECOMPUTE_BLOCK_2, n_accum};
                check_bits(device, &sm_model_at(m)->odd, block);
                check_bits(device, &sm_model_at(m)->odd, two);
            }
            // A fused bf16 product takes gelu of what it has not rounded yet; light takes it of what is stored.
            if (dtype != SM_BF16 || mode == SM_MODE_NAIVE) {
                check_bits(device, &sm_model_at(m)->odd, (variant){dtype, (sm_mode)mode, 0, SM_RECOMPUTE_LIGHT, 1});
            }
        }
        for (int i = 0; i < sm_rewrite_count(); i++) { // with one fusion each
            const unsigned without = ~(1u << i | 1u << sm_rewrite_find("recompute"));
            check_bits(device, &sm_model_at(m)->odd, (variant){dtype, SM_MODE_FUSED, without, SM_RECOMPUTE_BLOCK, 1});
        }
    }
}

TEST(test_same_bits) {
    check_device("reference", 0, SM_F32);
    check_device("cpu", 1, SM_F32);
    check_device("cpu", 3, SM_F32);
    check_device("cpu", 2, SM_BF16);
}

// --- the same work, in less memory ----------------------------------------------------------

static double flops_of(const sm_plan *plan) {
    double flops = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        flops += sm_op_flops(plan, &plan->ops[i]);
    }
    return flops;
}

static size_t transient_bytes(sm_plan *plan) {
    size_t by_role[SM_ROLE_COUNT];
    ok(sm_plan_assign_memory(plan, 0));
    sm_plan_memory(plan, by_role);
    return by_role[SM_ROLE_ACTIVATION] + by_role[SM_ROLE_SCRATCH];
}

static void check_memory(const sm_model_config *config, sm_dtype dtype, sm_mode mode) {
    size_t bytes[SM_RECOMPUTE_BLOCK + 1];
    double flops[SM_RECOMPUTE_BLOCK + 1];
    for (int r = SM_RECOMPUTE_NONE; r <= SM_RECOMPUTE_BLOCK; r++) {
        SM_OWN(sm_plan) *plan = build(config, &(variant){dtype, mode, 0, (sm_recompute)r, 1}, 8, 1024);
        bytes[r] = transient_bytes(plan);
        flops[r] = flops_of(plan);
    }
    assert_true(flops[SM_RECOMPUTE_LIGHT] == flops[SM_RECOMPUTE_NONE]);
    assert_true(flops[SM_RECOMPUTE_BLOCK] == flops[SM_RECOMPUTE_NONE]);
    assert_true(bytes[SM_RECOMPUTE_LIGHT] < bytes[SM_RECOMPUTE_NONE]);
    assert_true((double)bytes[SM_RECOMPUTE_BLOCK] <= 0.35 * (double)bytes[SM_RECOMPUTE_NONE]);
    // Of L blocks, groups of k keep L/k inputs and hold k blocks' activations once: the least is between.
    SM_OWN(sm_plan) *all = build(config, &(variant){dtype, mode, 0, SM_RECOMPUTE_BLOCK_24, 1}, 8, 1024);
    assert_true(flops_of(all) == flops[SM_RECOMPUTE_NONE]);
    assert_true(transient_bytes(all) > bytes[SM_RECOMPUTE_BLOCK]);
}

TEST(test_memory) {
    for (int m = 0; m < sm_model_count(); m++) {
        const sm_model_config *small = &sm_model_size_find(sm_model_at(m), "small")->config;
        check_memory(small, SM_F32, SM_MODE_NAIVE);
        check_memory(small, SM_F32, SM_MODE_FUSED);
        check_memory(small, SM_BF16, SM_MODE_FUSED);
    }
}

// Memory that lives from forward to backward: with each more block, one more tensor as large as the block's input.
static size_t bytes_between(const sm_model_config *config, sm_mode mode, sm_recompute recompute, int64_t n_layer) {
    sm_model_config model = *config;
    model.n_layer = n_layer;
    SM_OWN(sm_plan) *plan = build(&model, &(variant){SM_F32, mode, 0, recompute, 1}, BATCH, SEQUENCE);
    SM_FREED size_t *alive_bytes = sm_malloc((size_t)plan->n_ops * sizeof *alive_bytes);
    sm_plan_alive_bytes(plan, SM_ROLE_ACTIVATION, alive_bytes);
    const size_t bytes = alive_bytes[sm_plan_range(plan, SM_PHASE_FORWARD).end - 1]; // the mean of the losses
    return bytes;
}

TEST(test_one_input_a_block) {
    for (int m = 0; m < sm_model_count(); m++) {
        const sm_model_config *config = &sm_model_at(m)->odd;
        const size_t input_bytes = ((size_t)(BATCH * SEQUENCE * config->d_model) * sizeof(float) + 255) / 256 * 256;
        for (int mode = SM_MODE_NAIVE; mode <= SM_MODE_FUSED; mode++) {
            const size_t two = bytes_between(config, (sm_mode)mode, SM_RECOMPUTE_BLOCK, 2);
            const size_t five = bytes_between(config, (sm_mode)mode, SM_RECOMPUTE_BLOCK, 5);
            assert_int_equal(five - two, 3 * input_bytes);
        }
    }
}

// --- what is chosen -------------------------------------------------------------------------

static int n_recomputed(sm_mode mode, unsigned without, sm_recompute recompute) {
    SM_OWN(sm_plan) *plan =
        build(&sm_model_at(0)->odd, &(variant){SM_F32, mode, without, recompute, 1}, BATCH, SEQUENCE);
    int n = 0;
    for (const sm_op *op = plan->ops; op < plan->ops + plan->n_ops; op++) {
        n += op->attr.recomputed;
        assert_true(!op->attr.recomputed || op->range == SM_PHASE_BACKWARD);
    }
    assert_true((n > 0) == (plan->recompute != SM_RECOMPUTE_NONE));
    return n;
}

TEST(test_choice) {
    const unsigned without = 1u << sm_rewrite_find("recompute");
    const int light = n_recomputed(SM_MODE_FUSED, 0, SM_RECOMPUTE_LIGHT);
    const int block = n_recomputed(SM_MODE_FUSED, 0, SM_RECOMPUTE_BLOCK);
    assert_true(light > 0 && block > light);
    for (int mode = SM_MODE_NAIVE; mode <= SM_MODE_TUNED; mode++) {
        assert_int_equal(n_recomputed((sm_mode)mode, 0, SM_RECOMPUTE_AUTO), 0);
        assert_int_equal(n_recomputed((sm_mode)mode, 0, SM_RECOMPUTE_NONE), 0);
    }
    assert_int_equal(n_recomputed(SM_MODE_FUSED, without, SM_RECOMPUTE_LIGHT), 0);
    assert_true(n_recomputed(SM_MODE_NAIVE, 0, SM_RECOMPUTE_BLOCK) >= block);
}

#define RUN "run -m tiny --backend cpu -t 1 -b 2 --seq-len 8 -w 0 -r 1 --no-peaks -o json "

TEST(test_program) {
    CHECK_ALL(
        {RUN "--recompute block", 0, "\"recompute\": \"block\"", NULL},
        {RUN "--recompute block", 0, "\"--recompute=block\"", NULL}, // run_args, which `again` runs
        {RUN, 0, "\"recompute\": \"none\"", NULL}, {RUN "--recompute light", 0, "\"recompute\": \"light\"", NULL},
        {RUN "--mode naive", 0, "\"recompute\": \"none\"", NULL},
        {RUN "--without recompute", 0, "\"recompute\": \"none\"", NULL},
        {RUN "--pass-type forward", 0, "\"recompute\": null", NULL},
        {RUN "--recompute block --without recompute", 2, NULL, "contradict"},
        {RUN "--recompute all", 2, NULL, "there are none, light, block"},
        {"run -m tiny --backend cpu -b 2 --seq-len 8 --recompute none,block --dry-run", 0, "recompute=block", NULL},
        {"walk --mode fused --recompute block", 0, "recompute block, precision", NULL},
        {"walk --mode naive --recompute block", 0, "computed again, not kept from forward", NULL},
        {"estimate -m tiny -o json --recompute block", 0, "\"recompute\": \"block\"", NULL},
        {"verify --backend cpu -t 1 --filter step", 0, "block", NULL},
        {"verify --backend cpu -t 1 --filter step --mode fused --recompute none", 0, "| fused | none ", NULL},
        {"train -m tiny --backend cpu -t 1 -b 2 --seq-len 8 --steps 2 --recompute block", 0, NULL, NULL},
        {"profile -m tiny --backend cpu -t 1 -b 2 --seq-len 8 -r 2 --recompute block", 0, NULL, NULL},
        {"compare --without all -m tiny --backend cpu -t 1 -b 2 --seq-len 8 -w 0 -r 1 --recompute block", 0,
         "recompute", NULL});
}
