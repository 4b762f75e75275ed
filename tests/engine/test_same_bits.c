// test_same_bits.c: rewrites that change only the order of computing change no bit of a training.
#include "tests/support/session.h"

// Rows and widths that no vector divides, and more rows than the loss head takes at once.
static const sm_model_config model = {MODEL(gpt2, 2, 3, 15, 60, 37, 20)};

enum { BATCH = 31, SEQUENCE = 17, N_STEPS = 3, MOST_ELEMS = 64 * 60 };

static sm_session *open_session(sm_device *device, sm_dtype dtype, unsigned without, int n_accum) {
    const sm_plan_options options = {TRAINING(BATCH, SEQUENCE, dtype), .dropout_p = 0.1, .seed = 1,
                                     .one_micro_batch = n_accum == 1, .recompute = SM_RECOMPUTE_LIGHT};
    return start_session(device, build_plan(&model, &options, SM_MODE_FUSED, without), 1);
}

// Every parameter of one is, bit by bit, that of the other; and they have moved.
static void compare_weights(sm_session *one, sm_session *other) {
    float initial[MOST_ELEMS];
    int n_moved = 0;
    for (int i = 0; i < one->plan->n_tensors; i++) {
        if (!sm_plan_is_param(one->plan, i)) {
            continue;
        }
        const int64_t n = one->plan->tensors[i].real_elems;
        const char *name = one->plan->tensors[i].name;
        SM_FREED float *a = tensor_values(one, i, n);
        SM_FREED float *b = tensor_values(other, sm_plan_find_tensor(other->plan, name), n);
        FAIL_IF(memcmp(a, b, (size_t)n * sizeof *a) != 0, "%s: the weights differ", name);
        sm_param_init(one->plan, i, 1, 0, n, initial);
        n_moved += memcmp(a, initial, (size_t)n * sizeof *a) != 0;
    }
    assert_int_equal(n_moved, 28);
}

static double traffic_bytes(const sm_plan *plan) {
    double bytes = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        bytes += sm_op_bytes(plan, &plan->ops[i]);
    }
    return bytes;
}

static void check_rewrite_of(sm_dtype dtype, const char *backend_name, int n_threads, const char *rewrite,
                             unsigned without, int n_accum) {
    SM_OWN(sm_device) *device = open_backend(backend_name, n_threads);
    SM_OWN(sm_session) *with_it = open_session(device, dtype, without, n_accum);
    SM_OWN(sm_session) *without_it = open_session(device, dtype, without | 1u << sm_rewrite_find(rewrite), n_accum);
    assert_true(traffic_bytes(with_it->plan) != traffic_bytes(without_it->plan)); // it did something
    for (int step = 1; step <= N_STEPS; step++) {
        run_made_step(with_it, step, n_accum);
        run_made_step(without_it, step, n_accum);
    }
    compare_weights(with_it, without_it);
}

static void check_rewrite(const char *backend_name, int n_threads, const char *rewrite, unsigned without, int n_accum) {
    check_rewrite_of(SM_F32, backend_name, n_threads, rewrite, without, n_accum);
}

TEST(test_recompute) {
    const unsigned nothing_fused =
        1u << sm_rewrite_find("matmul_epilogue") | 1u << sm_rewrite_find("residual_layernorm");
    for (int n_accum = 1; n_accum <= 2; n_accum++) {
        check_rewrite("reference", 0, "recompute", 0, n_accum);
        check_rewrite("cpu", 1, "recompute", 0, n_accum);
        check_rewrite("cpu", 3, "recompute", 0, n_accum);
        check_rewrite("cpu", 3, "recompute", nothing_fused, n_accum);
    }
}

TEST(test_first_write) {
    const unsigned whole_logits = 1u << sm_rewrite_find("loss_head");
    for (int n_accum = 1; n_accum <= 4; n_accum *= 2) {
        check_rewrite("reference", 0, "first_write", 0, n_accum);
        check_rewrite("cpu", 1, "first_write", 0, n_accum);
        check_rewrite("cpu", 3, "first_write", 0, n_accum);
        check_rewrite("cpu", 3, "first_write", whole_logits, n_accum);
        check_rewrite_of(SM_BF16, "cpu", 3, "first_write", 0, n_accum);
    }
}

// Plans are refused where the conditions do not hold that backends rely on.
TEST(test_one_micro_batch_is_kept) {
    SM_OWN(sm_device) *device = open_backend("reference", 0);
    SM_OWN(sm_session) *s = open_session(device, SM_F32, 0, 1);
    run_made_step(s, 1, 1);
    assert_int_equal(sm_session_run(s, SM_RUN_FORWARD | SM_RUN_BACKWARD, NULL), SM_ERR_INTERNAL);
    assert_non_null(strstr(sm_error_message(), "one micro-batch"));
    ok(sm_session_run(s, SM_RUN_ZERO_GRAD, NULL));
    ok(sm_session_run(s, SM_RUN_FORWARD, NULL));
    ok(sm_session_run(s, SM_RUN_BACKWARD, NULL));
    assert_int_equal(sm_session_run(s, SM_RUN_BACKWARD, NULL), SM_ERR_INTERNAL);
}

// Bytes of the gradients that the plan's ops overwrite.
static double overwritten_bytes(const sm_plan *plan, int *n_ops) {
    double bytes = 0;
    *n_ops = 0;
    for (const sm_op *op = plan->ops; op < plan->ops + plan->n_ops; op++) {
        if (op->attr.overwrites) {
            const int db = op->out[SM_OUT(matmul_backward_weight, db)];
            bytes += (double)sm_tensor_bytes(&plan->tensors[op->out[SM_OUT(matmul_backward_weight, dW)]]);
            bytes += db != SM_NO_TENSOR ? (double)sm_tensor_bytes(&plan->tensors[db]) : 0;
            ++*n_ops;
        }
    }
    return bytes;
}

// A weight's gradient is written once a step, and read and written by each micro-batch that follows.
TEST(test_later_micro_batches_add) {
    SM_OWN(sm_device) *device = open_backend("reference", 0);
    for (int n_accum = 1; n_accum <= 3; n_accum++) {
        SM_OWN(sm_session) *s = open_session(device, SM_F32, 0, n_accum);
        const sm_plan *plan = s->plan;
        int n_overwrite = 0, n_later = 0;
        double more_bytes = 0;
        const double bytes = overwritten_bytes(plan, &n_overwrite);
        for (int i = 0; i < plan->n_ops; i++) {
            sm_op later;
            const sm_op *op = &plan->ops[i];
            n_later += sm_op_later(plan, op, &later);
            assert_false(later.attr.overwrites);
            more_bytes += n_accum * (sm_op_mean_bytes(plan, op, n_accum) - sm_op_bytes(plan, op));
        }
        assert_int_equal(n_overwrite, 4 * model.n_layer + 1);
        assert_int_equal(n_later, n_accum == 1 ? 0 : n_overwrite);
        assert_true(fabs(more_bytes - (n_accum - 1) * bytes) < 1e-6 * bytes);
    }
}

static void run_micro_batch(sm_session *s, unsigned phases) {
    int32_t tokens[BATCH * SEQUENCE];
    for (int i = 0; i < BATCH * SEQUENCE; i++) {
        tokens[i] = i % (int)model.vocab;
    }
    ok(sm_session_set_batch(s, tokens, tokens));
    s->n_micro_steps = 0; // the same masks
    ok(sm_session_run(s, phases, NULL));
}

static float first_of(sm_session *s, const char *name) {
    float value;
    ok(sm_session_read(s, sm_plan_find_tensor(s->plan, name), 1, &value));
    return value;
}

// The zero-grad says which is first, in whatever pieces a micro-batch is run; a forward alone is none.
TEST(test_first_follows_zero_grad) {
    static const char name[] = "d.h.0.mlp.c_fc.weight";
    SM_OWN(sm_device) *device = open_backend("reference", 0);
    SM_OWN(sm_session) *s = open_session(device, SM_F32, 0, 2);
    ok(sm_session_set_hyper(s, &sm_optimizer_adamw.defaults, 1, 2));
    run_micro_batch(s, SM_RUN_ZERO_GRAD | SM_RUN_FORWARD | SM_RUN_BACKWARD);
    const float once = first_of(s, name);
    run_micro_batch(s, SM_RUN_FORWARD);
    assert_true(once != 0 && first_of(s, name) == once);
    run_micro_batch(s, SM_RUN_FORWARD | SM_RUN_BACKWARD);
    assert_true(first_of(s, name) == 2 * once);
    run_micro_batch(s, SM_RUN_ZERO_GRAD);
    run_micro_batch(s, SM_RUN_FORWARD);
    run_micro_batch(s, SM_RUN_BACKWARD);
    assert_true(first_of(s, name) == once);
    run_micro_batch(s, SM_RUN_FORWARD);
    run_micro_batch(s, SM_RUN_BACKWARD);
    assert_true(first_of(s, name) == 2 * once);
}
