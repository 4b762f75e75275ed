// test_bf16_training.c: bf16 and f16 on the cpu backend, with f32 master weights: training learns as in f32, the copies
// of the weights follow their masters, and a wrong loss is detected.
#include "f16.h"
#include "tests/support/training_curve.h"

TEST(test_curves) {
    static const struct {
        sm_dtype format;
        sm_mode mode;
    } cases[] = {{SM_BF16, SM_MODE_NAIVE}, {SM_BF16, SM_MODE_FUSED}, {SM_F16, SM_MODE_FUSED}};
    static double wide[N_STEPS], narrow[N_STEPS];
    SM_OWN(sm_device) *device = open_backend("cpu", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        train(device, (sm_precision){.dtype = SM_F32}, cases[i].mode, wide);
        train(device, (sm_precision){.dtype = cases[i].format}, cases[i].mode, narrow);
        compare_curves(sm_dtype_name(cases[i].format), wide, narrow);
    }
}

static int find_copy(const sm_plan *plan, const char *name) {
    int copy = plan->tensors[sm_plan_find_tensor(plan, name)].working_copy;
    assert_true(copy != SM_NO_TENSOR);
    return copy;
}

// Uploaded weights are rounded in the copy and exact in the master; so are the weights after updates.
TEST(test_copies_follow_masters) {
    static float master[32 * 128], copy[32 * 128];
    const char *name = "h.1.mlp.c_fc.weight";
    double losses[3];
    fixture f;
    SM_OWN(sm_device) *device = open_backend("cpu", 1);
    set_up(&f, device, (sm_precision){.dtype = SM_BF16}, SM_MODE_FUSED);
    const int tensor = sm_plan_find_tensor(f.session->plan, name);
    const int64_t n = sm_tensor_elems(&f.session->plan->tensors[tensor]);
    assert_int_equal(n, 32 * 128);
    for (int round = 0; round < 2; round++) {
        ok(sm_session_read(f.session, tensor, n, master));
        ok(sm_session_read(f.session, find_copy(f.session->plan, name), n, copy));
        int n_rounded = 0;
        for (int64_t i = 0; i < n; i++) {
            assert_true(copy[i] == sm_bf16_widen(sm_bf16_round(master[i])));
            n_rounded += copy[i] != master[i];
        }
        assert_true(n_rounded > n / 2);
        take_steps(&f, 3, losses);
    }
    tear_down(&f);
}

static sm_status check_loss(fixture *f, sm_loss_check *result) {
    const sm_loss_draw draw = {.seed = SEED};
    ok(sm_tokens_batch(f->tokens, 0, BATCH, SEQUENCE, f->ids[0], f->ids[1]));
    ok(sm_session_set_batch(f->session, f->ids[0], f->ids[1]));
    ok(sm_session_run(f->session, SM_RUN_FORWARD, NULL));
    return sm_check_loss(f->session, f->config, 0, SEED, f->ids[0], f->ids[1], NULL, &draw, result);
}

// The check passes at the start and after training, and sees one matrix's copy that is not its master's.
static void see_faults(sm_dtype dtype) {
    static float zeros[32 * 128];
    static double losses[100];
    fixture f;
    sm_loss_check result;
    SM_OWN(sm_device) *device = open_backend("cpu", 1);
    set_up(&f, device, (sm_precision){.dtype = dtype}, SM_MODE_FUSED);
    for (int round = 0; round < 2; round++) {
        ok(check_loss(&f, &result));
        print_message("loss check: error %.2e, allowed %.2e\n", result.error, result.tolerance);
        assert_true(result.error > 0 && result.tolerance < 0.1);
        take_steps(&f, 100, losses);
    }
    const char *const names[] = {"h.0.attn.c_proj.weight", "h.1.mlp.c_proj.weight", "h.1.mlp.c_fc.weight"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ok(sm_session_draw(f.session, SEED));
        const int copy = find_copy(f.session->plan, names[i]);
        ok(sm_session_write(f.session, copy, sm_tensor_elems(&f.session->plan->tensors[copy]), zeros));
        sm_status status = check_loss(&f, &result);
        print_message("%s left out: error %.2e, allowed %.2e\n", names[i], result.error, result.tolerance);
        assert_int_equal(status, SM_ERR_MISMATCH);
    }
    ok(sm_session_draw(f.session, SEED));
    const int vector = sm_plan_find_tensor(f.session->plan, "ln_f.bias");
    zeros[0] = NAN;
    ok(sm_session_write(f.session, vector, 1, zeros));
    assert_int_equal(check_loss(&f, &result), SM_ERR_MISMATCH); // not a number is a mismatch, too
    zeros[0] = 0;
    tear_down(&f);
}

TEST(test_loss_check) {
    see_faults(SM_BF16);
    see_faults(SM_F16);
}

// In f32 each token counts, also one that is not a number in a batch of which all is looked at.
TEST(test_loss_check_of_each_token) {
    fixture f = {.config = gpt2_of("tiny")};
    sm_loss_check result;
    const sm_loss_draw draw = {.seed = SEED};
    const sm_plan_options options = {.B = 2, .T = SEQUENCE, .seed = SEED};
    SM_OWN(sm_device) *device = open_backend("cpu", 1);
    f.session = start_session(device, build_plan(f.config, &options, SM_MODE_FUSED, 0), SEED);
    ok(sm_tokens_embedded(f.config->vocab, &f.tokens));
    ok(sm_tokens_batch(f.tokens, 0, 2, SEQUENCE, f.ids[0], f.ids[1]));
    ok(sm_session_set_batch(f.session, f.ids[0], f.ids[1]));
    ok(sm_session_run(f.session, SM_RUN_FORWARD, NULL));
    for (int i = 0; i < 2; i++) {
        const sm_status status = sm_check_loss(f.session, f.config, 0, SEED, f.ids[0], f.ids[1], NULL, &draw, &result);
        assert_int_equal(status, i == 0 ? SM_OK : SM_ERR_MISMATCH);
        ok(sm_session_write_part(f.session, f.session->plan->losses, 3, 1, &(float){NAN}));
    }
    tear_down(&f);
}

static sm_status feed(void *ctx, sm_session *session, int64_t index) {
    fixture *f = ctx;
    ok(sm_tokens_batch(f->tokens, index, BATCH, SEQUENCE, f->ids[0], f->ids[1]));
    return sm_session_set_batch(session, f->ids[0], f->ids[1]);
}

// Of a batch of 8, two sequences are looked at, drawn, and others in each round; the rest's mean has to be like theirs.
TEST(test_loss_check_draws_sequences) {
    fixture f;
    sm_loss_check result;
    int n_found[2] = {0};
    unsigned rounds = 0;
    SM_OWN(sm_device) *device = open_backend("cpu", 1);
    set_up(&f, device, (sm_precision){.dtype = SM_F32}, SM_MODE_FUSED);
    for (int leaves_out = 0; leaves_out < 2; leaves_out++) { // all sequences but the first two; else one token is wrong
        ok(feed(&f, f.session, 0));
        ok(sm_session_run(f.session, SM_RUN_FORWARD, NULL));
        SM_FREED float *losses = tensor_values(f.session, f.session->plan->losses, BATCH * SEQUENCE);
        losses[3] += leaves_out ? 0 : 1e-2F;
        memset(losses + 2 * SEQUENCE, 0, leaves_out ? 6 * SEQUENCE * sizeof *losses : 0);
        ok(sm_session_write(f.session, f.session->plan->losses, BATCH * SEQUENCE, losses));
        for (int i = 0; i < 16; i++) {
            const sm_loss_draw draw = {.seed = (uint64_t)i / 4, .round = i % 4};
            const bool is_found = sm_check_loss(f.session, f.config, 0, SEED, f.ids[0], f.ids[1], NULL, &draw,
                                                &result) == SM_ERR_MISMATCH;
            n_found[leaves_out] += is_found;
            rounds |= is_found && !leaves_out ? 1u << draw.round : 0;
        }
    }
    assert_true(n_found[0] == 4 && n_found[1] == 16 && (rounds & (rounds - 1)) != 0);
    tear_down(&f);
}

// A first scale that is too large is lowered until there are gradients to check; the step is then not skipped.
TEST(test_check_settles_the_scale) {
    const float too_large = 0x1p40f;
    fixture f;
    sm_gradient_check result;
    double scale = 0;
    int64_t n_skipped = 1;
    SM_OWN(sm_device) *device = open_backend("cpu", 1);
    set_up(&f, device, (sm_precision){.dtype = SM_F16}, SM_MODE_FUSED);
    ok(sm_session_write_part(f.session, f.session->plan->scaler, SM_SCALER_SCALE, 1, &too_large));
    ok(sm_session_set_hyper(f.session, &sm_optimizer_adamw.defaults, 1, 1));
    ok(feed(&f, f.session, 0));
    ok(sm_session_run(f.session, SM_RUN_ZERO_GRAD | SM_RUN_FORWARD | SM_RUN_BACKWARD, NULL));
    ok(sm_check_gradients(f.session, 1, feed, &f, &result));
    assert_true(result.tells);
    ok(sm_session_loss_scale(f.session, &scale));
    assert_true(scale >= 65536 && scale < (double)too_large);
    ok(sm_session_run(f.session, SM_RUN_OPTIMIZER, NULL));
    ok(sm_session_skipped(f.session, &n_skipped));
    assert_int_equal(n_skipped, 0);
    tear_down(&f);
}
