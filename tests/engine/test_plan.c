// test_plan.c: plans as data: sizes, memory, rewrites, and refusals.
#include "src/rewrites/passes.h"
#include "tests/support/plans.h"

// GPT-2's small, with places in memory.
static sm_plan *build_small(int64_t B, int64_t T, sm_mode mode, unsigned without) {
    return place_plan(gpt2_of("small"), &(sm_plan_options){TRAINING(B, T, SM_F32)}, mode, without);
}

// Of GPT-2 as published; of Llama with the vocabulary that published benchmarks have; of Qwen 3 as transformers counts.
static const struct {
    const sm_model *model;
    const char *size;
    int64_t vocab; // 0: the size's
    int64_t n_params;
} counts[] = {
    {&sm_model_gpt2, "small", 0, 124439808},      {&sm_model_gpt2, "medium", 0, 354823168},
    {&sm_model_gpt2, "large", 0, 774030080},      {&sm_model_gpt2, "xl", 0, 1557611200},
    {&sm_model_llama, "small", 10000, 128625408}, {&sm_model_llama, "medium", 10000, 423183360},
    {&sm_model_llama, "large", 10000, 969411840}, {&sm_model_llama, "xl", 10000, 1998235200},
    {&sm_model_llama, "2.7B", 10000, 3406809600}, {&sm_model_qwen3, "0.6B", 0, 596049920},
    {&sm_model_qwen3, "1.7B", 0, 1720574976},     {&sm_model_qwen3, "4B", 0, 4022468096},
    {&sm_model_qwen3, "8B", 0, 8190735360},
};
enum { N_COUNTS = sizeof counts / sizeof counts[0] };

TEST(test_parameter_counts) {
    for (int i = 0; i < N_COUNTS; i++) {
        sm_model_config config = sm_model_size_find(counts[i].model, counts[i].size)->config;
        config.vocab = counts[i].vocab > 0 ? counts[i].vocab : config.vocab;
        assert_int_equal(sm_model_n_params(&config), counts[i].n_params);
        // The plan's tensors hold exactly these, padding and what is a part of another aside.
        const sm_plan_options options = {.B = 1, .T = 1, .dtype = SM_F32};
        SM_OWN(sm_plan) *plan = build_plan(&config, &options, SM_MODE_NAIVE, 0);
        int64_t n_elems = 0;
        for (int t = 0; t < plan->n_tensors; t++) {
            n_elems += sm_plan_is_param(plan, t) ? plan->tensors[t].real_elems : 0;
        }
        assert_int_equal(n_elems, counts[i].n_params);
    }
    assert_ptr_equal(sm_model_size_find(&sm_model_gpt2, "124M"), sm_model_size_find(&sm_model_gpt2, "small"));
    assert_null(sm_model_size_find(&sm_model_gpt2, "huge"));
}

TEST(every_model_is_counted) {
    for (int m = 0; m < sm_model_count(); m++) {
        int n = 0;
        for (int i = 0; i < N_COUNTS; i++) {
            n += counts[i].model == sm_model_at(m);
        }
        FAIL_IF(n == 0, "%s has no number of parameters in this test", sm_model_at(m)->name);
    }
}

typedef struct {
    int first, last;
} lifetime;

static lifetime life_of(const sm_plan *plan, int root) {
    lifetime life = {plan->n_ops, -1};
    for (int i = 0; i < plan->n_ops; i++) {
        for (int k = 0; k < SM_MAX_IN + SM_MAX_OUT; k++) {
            int t = k < SM_MAX_IN ? plan->ops[i].in[k] : plan->ops[i].out[k - SM_MAX_IN];
            if (t != SM_NO_TENSOR && sm_plan_root(plan, t) == root) {
                life.first = i < life.first ? i : life.first;
                life.last = i;
            }
        }
    }
    return life;
}

// No two tensors that hold data at the same time may share a byte.
static void assert_no_overlap(const sm_plan *plan) {
    SM_FREED lifetime *lives = sm_malloc((size_t)plan->n_tensors * sizeof *lives);
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_role role = plan->tensors[i].role;
        lives[i] =
            role == SM_ROLE_ACTIVATION || role == SM_ROLE_SCRATCH ? life_of(plan, i) : (lifetime){0, plan->n_ops};
    }
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_tensor *a = &plan->tensors[i];
        if (a->view_of != SM_NO_TENSOR || lives[i].last < 0) {
            continue;
        }
        assert_true(a->arena >= 0 && a->arena < plan->n_arenas);
        assert_true(a->offset_bytes + sm_tensor_bytes(a) <= plan->arenas[a->arena].size_bytes);
        for (int k = 0; k < i; k++) {
            const sm_tensor *b = &plan->tensors[k];
            bool apart = b->view_of != SM_NO_TENSOR || lives[k].last < 0 || a->arena != b->arena ||
                         a->offset_bytes + sm_tensor_bytes(a) <= b->offset_bytes ||
                         b->offset_bytes + sm_tensor_bytes(b) <= a->offset_bytes;
            // An op may write over its input: one life then ends at the op where the other begins.
            bool one_after_another = lives[i].last <= lives[k].first || lives[k].last <= lives[i].first;
            FAIL_IF(!apart && !one_after_another, "%s and %s share memory while both hold data", a->name, b->name);
        }
    }
}

TEST(test_memory) {
    for (int mode = SM_MODE_NAIVE; mode <= SM_MODE_FUSED; mode++) {
        for (int with_dropout = 0; with_dropout < 2; with_dropout++) {
            const sm_plan_options options = {TRAINING(3, 17, SM_F32), .dropout_p = with_dropout ? 0.1 : 0};
            SM_OWN(sm_plan) *plan = place_plan(gpt2_of("tiny"), &options, (sm_mode)mode, 0);
            assert_no_overlap(plan);
            size_t by_role[SM_ROLE_COUNT];
            size_t total = sm_plan_memory(plan, by_role);
            size_t sum = 0;
            for (int role = 0; role < SM_ROLE_COUNT; role++) {
                sum += by_role[role];
            }
            assert_int_equal(sum, total);
            assert_true(by_role[SM_ROLE_OPTIMIZER] == 2 * by_role[SM_ROLE_PARAMETER]);
        }
    }
}

// The operands of a gradient of weights outlive the eight ops after it, which do not write there.
TEST(operands_of_weights_gradients_stay) {
    const sm_plan_options options = {TRAINING(3, 17, SM_BF16)};
    SM_OWN(sm_plan) *plan = place_plan(gpt2_of("tiny"), &options, SM_MODE_FUSED, 0);
    SM_FREED sm_range *lives = sm_malloc((size_t)plan->n_tensors * sizeof *lives);
    assert_no_overlap(plan);
    sm_plan_lifetimes(plan, lives);
    for (int i = 0; i < plan->n_ops; i++) {
        for (int next = i + 1; next <= i + 8 && next < plan->n_ops; next++) {
            for (int k = 0; k < SM_MAX_OUT * SM_MAX_IN; k++) {
                const int in = plan->ops[i].in[k % SM_MAX_IN], out = plan->ops[next].out[k / SM_MAX_IN];
                const bool has_in = plan->ops[i].kind == SM_OP_MATMUL_BACKWARD_WEIGHT && in != SM_NO_TENSOR;
                assert_true(!has_in || lives[in].end > next);
                assert_false(has_in && out != SM_NO_TENSOR &&
                             sm_tensors_overlap(&plan->tensors[in], &plan->tensors[out]));
            }
        }
    }
}

TEST(test_memory_limit) {
    const size_t limit = 64 << 10;
    const sm_plan_options options = {TRAINING(2, 16, SM_F32), .max_tensor_bytes = limit};
    SM_OWN(sm_plan) *plan = build_plan(gpt2_of("tiny"), &options, SM_MODE_NAIVE, 0);
    ok(sm_plan_assign_memory(plan, limit));
    assert_no_overlap(plan);
    for (int i = 0; i < plan->n_arenas; i++) {
        assert_true(plan->arenas[i].size_bytes <= limit);
    }
    assert_int_equal(sm_plan_assign_memory(plan, 4096), SM_ERR_OOM);
    assert_non_null(strstr(sm_error_message(), "params.matrices"));
}

static double flops_of_phase(const sm_plan *plan, sm_phase phase) {
    double flops = 0;
    for (const sm_op *op = plan->ops; op < plan->ops + plan->n_ops; op++) {
        if (op->kind == SM_OP_CROSSENTROPY_WITH_GRADIENT) { // one half is the backward's
            flops += phase == SM_PHASE_FORWARD || phase == SM_PHASE_BACKWARD ? sm_op_flops(plan, op) / 2 : 0;
        } else {
            flops += op->phase == phase ? sm_op_flops(plan, op) : 0;
        }
    }
    return flops;
}

// A kind that the table of FLOPs forgets would count none.
static void expect_work(const sm_plan *plan) {
    for (const sm_op *op = plan->ops; op < plan->ops + plan->n_ops; op++) {
        const bool is_work = op->kind != SM_OP_ZERO && !op->attr.recomputed;
        FAIL_IF((sm_op_flops(plan, op) > 0) != is_work, "%s: %g FLOPs", sm_op_name(op->kind), sm_op_flops(plan, op));
    }
}

TEST(test_every_op_counts) {
    for (int m = 0; m < sm_model_count(); m++) {
        for (int o = 0; o < sm_optimizer_count(); o++) {
            for (int mode = SM_MODE_NAIVE; mode <= SM_MODE_FUSED; mode++) {
                const sm_model_config *config = &sm_model_size_find(sm_model_at(m), "tiny")->config;
                const sm_plan_options options = {TRAINING_BY(sm_optimizer_at(o), 2, 16, SM_F32)};
                SM_OWN(sm_plan) *plan = build_plan(config, &options, (sm_mode)mode, 0);
                expect_work(plan);
            }
        }
    }
}

// A rewrite changes how, not how much: FLOPs a phase stay, ops and memory shrink.
TEST(test_rewrites_keep_the_work) {
    SM_OWN(sm_plan) *naive = build_small(2, 512, SM_MODE_NAIVE, 0);
    for (int i = -1; i < sm_rewrite_count(); i++) { // all of them, then each alone
        SM_OWN(sm_plan) *plan = build_small(2, 512, SM_MODE_FUSED, i < 0 ? 0 : ~(1u << i));
        for (int phase = 0; phase < SM_PHASE_COUNT; phase++) {
            double a = flops_of_phase(naive, (sm_phase)phase);
            double b = flops_of_phase(plan, (sm_phase)phase);
            FAIL_IF(!(a - b <= 1e-9 * a && b - a <= 1e-9 * a), "rewrite %d changes the FLOPs of %s from %g to %g", i,
                    sm_phase_name((sm_phase)phase), a, b);
        }
        assert_true(sm_plan_memory(plan, NULL) <= sm_plan_memory(naive, NULL));
    }
}

static int count_kind(const sm_plan *plan, sm_op_kind kind) {
    int n = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        n += plan->ops[i].kind == kind && !plan->ops[i].attr.recomputed;
    }
    return n;
}

TEST(test_fused_has_no_leftovers) {
    SM_OWN(sm_plan) *plan = build_small(4, 256, SM_MODE_FUSED, 0);
    const sm_op_kind gone[] = {SM_OP_ATTENTION_FORWARD, SM_OP_ATTENTION_BACKWARD, SM_OP_BIAS_FORWARD,
                               SM_OP_GELU_FORWARD,      SM_OP_GELU_BACKWARD,      SM_OP_RESIDUAL};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        assert_int_equal(count_kind(plan, gone[i]), 0);
    }
    assert_int_equal(count_kind(plan, SM_OP_CROSSENTROPY_WITH_GRADIENT), 2); // 1,024 rows in two chunks
    // Only each chunk of logits exists.
    for (int i = 0; i < plan->n_ops; i++) {
        for (int k = 0; k < SM_MAX_OUT; k++) {
            int t = plan->ops[i].out[k];
            assert_true(t == SM_NO_TENSOR || strcmp(plan->tensors[t].name, "logits") != 0);
        }
    }
    assert_false(plan->tuned);
    SM_OWN(sm_plan) *tuned = build_small(4, 256, SM_MODE_TUNED, 0);
    assert_true(tuned->tuned);
    assert_int_equal(tuned->n_ops, plan->n_ops);
}

// Each bias's gradient is summed by the op next to it, and written as its weight's is: by the first micro-batch alone.
TEST(test_bias_gradients_join) {
    const unsigned first_write = 1u << sm_rewrite_find("first_write");
    const int n_layer = gpt2_of("small")->n_layer;
    for (int with = 0; with < 2; with++) {
        SM_OWN(sm_plan) *plan = build_small(2, 64, SM_MODE_FUSED, with ? 0 : first_write);
        int n_joined = 0;
        for (const sm_op *op = plan->ops; op < plan->ops + plan->n_ops; op++) {
            sm_op later;
            if (op->kind == SM_OP_MATMUL_BACKWARD_WEIGHT &&
                op->out[SM_OUT(matmul_backward_weight, db)] != SM_NO_TENSOR) {
                n_joined++;
                assert_false(op->attr.w_transposed);
                assert_int_equal(op->attr.overwrites, with);
                assert_int_equal(sm_op_later(plan, op, &later), with);
            }
        }
        assert_int_equal(count_kind(plan, SM_OP_BIAS_BACKWARD), 0);
        assert_int_equal(n_joined, 2 * n_layer); // of qkv and fc; layernorms sum the others
    }
}

// A product that something else reads, too, keeps its memory: xw = x W; y = xw + b; z = y + xw.
TEST(test_a_product_that_others_read_stays) {
    static const int64_t dims[] = {1, 4, 8};
    static const int64_t square[] = {8, 8};
    const int none = SM_NO_TENSOR;
    for (int n_readers = 1; n_readers <= 2; n_readers++) {
        SM_OWN(sm_plan) *plan = sm_plan_new(SM_F32);
        int t[6]; // x, xw, y, z, W, b
        for (int i = 0; i < 6; i++) {
            const sm_role role = i < 4 ? SM_ROLE_ACTIVATION : SM_ROLE_PARAMETER;
            const int n_dims = i < 4 ? 3 : 6 - i;
            t[i] = sm_plan_add_tensor(plan, role, SM_F32, n_dims, i < 4 ? dims : square, "t%d", i);
        }
        const struct {
            sm_op_kind kind;
            int in[3], out;
        } ops[] = {{SM_OP_MATMUL_FORWARD, {t[0], t[4], none}, t[1]},
                   {SM_OP_BIAS_FORWARD, {t[1], t[5], none}, t[2]},
                   {SM_OP_RESIDUAL, {t[2], t[n_readers == 2 ? 1 : 0], none}, t[3]}};
        for (int i = 0; i < 3; i++) {
            sm_op op = sm_op_make(ops[i].kind, SM_PHASE_FORWARD, -1);
            memcpy(op.in, ops[i].in, sizeof ops[i].in);
            op.out[0] = ops[i].out;
            ok(sm_plan_add_op(plan, &op));
        }
        ok(sm_rewrite_matmul_epilogue(plan));
        assert_int_equal(plan->n_ops, n_readers == 1 ? 2 : 3);
    }
}

// Of the 16 (N,C) that a block keeps for its backward, recompute leaves 10, and nothing computed again.
TEST(test_recompute_keeps_less) {
    size_t bytes[2][SM_ROLE_COUNT];
    for (int without = 0; without < 2; without++) {
        const sm_plan_options options = {TRAINING(4, 256, SM_F32), .recompute = SM_RECOMPUTE_LIGHT};
        SM_OWN(sm_plan) *plan =
            place_plan(gpt2_of("small"), &options, SM_MODE_FUSED, without ? 1u << sm_rewrite_find("recompute") : 0);
        assert_no_overlap(plan);
        sm_plan_memory(plan, bytes[without]);
        int n_recomputed = 0;
        for (int i = 0; i < plan->n_ops; i++) {
            n_recomputed += plan->ops[i].attr.recomputed;
        }
        assert_int_equal(n_recomputed, without ? 0 : 3 * 12);
    }
    assert_true((double)bytes[0][SM_ROLE_ACTIVATION] <= 0.65 * (double)bytes[1][SM_ROLE_ACTIVATION]);
    assert_true(bytes[0][SM_ROLE_SCRATCH] == bytes[1][SM_ROLE_SCRATCH]); // it fits where the logits were
}

// Attention that stores no T x T: activations grow with T, not with its square.
TEST(test_fused_memory_is_linear_in_T) {
    size_t bytes[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        sm_model_config config = *gpt2_of("small");
        config.context = 8192;
        const sm_plan_options options = {TRAINING(1, i == 0 ? 4096 : 8192, SM_F32)};
        SM_OWN(sm_plan) *plan = place_plan(&config, &options, SM_MODE_FUSED, 0);
        size_t by_role[SM_ROLE_COUNT];
        sm_plan_memory(plan, by_role);
        bytes[i] = by_role[SM_ROLE_ACTIVATION];
    }
    assert_true(bytes[1] <= 2 * bytes[0] + 4096);
}

TEST(test_refusals) {
    const sm_model_config tiny = *gpt2_of("tiny");
    const sm_plan_options good = {.B = 1, .T = 8, .dtype = SM_F32};
    const struct {
        sm_model_config config;
        sm_plan_options options;
        const char *message;
    } cases[] = {
        {tiny, {.B = 0, .T = 8}, "batch size 0"},
        {tiny, {.B = 1, .T = 65}, "context of 64"},
        {tiny, {.B = 1, .T = 0}, "sequence length 0"},
        {tiny, {.B = 1, .T = 8, .dropout_p = 1}, "dropout 1"},
        {{MODEL(gpt2, 1, 3, 32, 64, 8, 8)}, good, "3 heads"},
        {{MODEL(gpt2, 0, 1, 32, 64, 8, 8)}, good, "n_layer is 0"},
        {{MODEL(gpt2, 1, 1, 32, 64, INT32_MAX, 8)}, good, "vocab is 2147483647"},
        {{MODEL(gpt2, 1, 1, 1 << 20, 1 << 22, 2000000000, 1 << 24)}, {.B = INT32_MAX, .T = 1 << 24}, "impossible"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sm_plan *plan = NULL;
        sm_status status = sm_model_build(&cases[i].config, &cases[i].options, &plan);
        FAIL_IF(status != SM_ERR_INVALID || plan != NULL || strstr(sm_error_message(), cases[i].message) == NULL,
                "case %zu: status %s, message: %s", i, sm_status_text(status), sm_error_message());
    }
}

TEST(test_op_check) {
    SM_OWN(sm_plan) *plan = sm_plan_new(SM_F32);
    int a = sm_plan_add_tensor(plan, SM_ROLE_ACTIVATION, SM_F32, 2, (const int64_t[]){4, 8}, "a");
    int w = sm_plan_add_tensor(plan, SM_ROLE_PARAMETER, SM_F32, 2, (const int64_t[]){8, 3}, "w");
    int y = sm_plan_add_tensor(plan, SM_ROLE_ACTIVATION, SM_F32, 2, (const int64_t[]){4, 3}, "y");
    int ids = sm_plan_add_tensor(plan, SM_ROLE_BATCH, SM_I32, 2, (const int64_t[]){4, 8}, "ids");
    sm_op op = sm_op_make(SM_OP_MATMUL_FORWARD, SM_PHASE_FORWARD, -1);
    op.in[SM_IN(matmul_forward, x)] = a;
    op.in[SM_IN(matmul_forward, W)] = w;
    op.out[SM_OUT(matmul_forward, y)] = y;
    assert_int_equal(sm_op_check(plan, &op), SM_OK);
    op.attr.w_transposed = true; // then w would have to be (3,8)
    assert_int_equal(sm_op_check(plan, &op), SM_ERR_INTERNAL);
    op.attr.w_transposed = false;
    op.in[SM_IN(matmul_forward, x)] = ids;
    assert_int_equal(sm_op_check(plan, &op), SM_ERR_INTERNAL);
    op.in[SM_IN(matmul_forward, x)] = SM_NO_TENSOR;
    assert_int_equal(sm_op_check(plan, &op), SM_ERR_INTERNAL);
    assert_non_null(strstr(sm_error_message(), "operand x is missing"));
    assert_int_equal(sm_plan_add_view(plan, a, 30, 1, (const int64_t[]){3}, "beyond"), SM_NO_TENSOR);
}
