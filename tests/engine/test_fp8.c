// test_fp8.c: factors of 8 bits: the formats, scales by amax of the last steps, faults put into casts, scales and
// products, training as in bf16, and a resumed run.
#include "backends/reference/ref.h"
#include "tests/support/temp_folder.h"
#include "tests/support/training_curve.h"
#include "src/weights/weights.h"

static const sm_precision fp8 = {SM_BF16, SM_PRODUCTS_FP8};

// The definition: Micikevicius et al. 2022, table 1.
static double value_of(int byte, int digits, int bias) {
    const int exponent = (byte & 0x7F) >> digits;
    const double fraction = ldexp(byte & ((1 << digits) - 1), -digits);
    const double size = exponent == 0 ? ldexp(fraction, 1 - bias) : ldexp(1 + fraction, exponent - bias);
    return byte & 0x80 ? -size : size;
}

TEST(formats) {
    const struct {
        sm_dtype dtype;
        int digits, bias, largest; // its byte
    } cases[] = {{SM_E4M3, 3, 7, 0x7E}, {SM_E5M2, 2, 15, 0x7B}};
    for (size_t c = 0; c < SM_COUNT(cases); c++) {
        const sm_number_format *f = sm_dtype_format(cases[c].dtype);
        for (int i = 0; i <= cases[c].largest; i++) {
            const float value = (float)value_of(i, cases[c].digits, cases[c].bias);
            const float next = (float)value_of(i + 1, cases[c].digits, cases[c].bias);
            const float middle = value + (next - value) / 2;
            const float from[] = {value, middle, nextafterf(middle, 0), nextafterf(middle, INFINITY), -middle};
            const int up = i < cases[c].largest ? i + 1 : i, even = i % 2 == 0 ? i : up;
            const int expected[] = {i, even, i, up, even | 0x80};
            const uint8_t bytes[2] = {(uint8_t)i, (uint8_t)(i | 0x80)};
            uint8_t rounded[5];
            float wide[2];
            f->widen(2, bytes, wide);
            f->round(5, from, rounded);
            assert_true(wide[0] == value && wide[1] == -value && signbit(wide[1]));
            for (int k = 0; k < 5; k++) {
                FAIL_IF(rounded[k] != expected[k], "%s: %g becomes %d, not %d", f->name, (double)from[k], rounded[k],
                        expected[k]);
            }
        }
        const float far[] = {1e30f, -INFINITY, NAN};
        uint8_t bytes[3];
        float wide[3];
        f->round(3, far, bytes);
        f->widen(3, bytes, wide);
        assert_true((double)wide[0] == f->largest_finite && (double)wide[1] == -f->largest_finite && isnan(wide[2]));
    }
}

// --- faults ----------------------------------------------------------------------------------

// What is wrong with an op's result.
typedef enum { NOTHING, SCALE, OLD_SCALE, COLUMNS, ROWS, AMAX, BIAS, PRODUCT, DX, DW, N_FAULTS } fault;

static const struct {
    sm_op_kind kind;
    int out;
} places[N_FAULTS] = {
    [SCALE] = {SM_OP_SCALE_UPDATE, SM_OUT(scale_update, scale)},
    [OLD_SCALE] = {SM_OP_SCALE_UPDATE, SM_OUT(scale_update, history)},
    [COLUMNS] = {SM_OP_CAST_FP8, SM_OUT(cast_fp8, columns)},
    [ROWS] = {SM_OP_CAST_FP8, SM_OUT(cast_fp8, rows)},
    [AMAX] = {SM_OP_CAST_FP8, SM_OUT(cast_fp8, amax)},
    [BIAS] = {SM_OP_CAST_FP8, SM_OUT(cast_fp8, db)},
    [PRODUCT] = {SM_OP_MATMUL_FORWARD, SM_OUT(matmul_forward, y)},
    [DX] = {SM_OP_MATMUL_BACKWARD_INPUT, SM_OUT(matmul_backward_input, dx)},
    [DW] = {SM_OP_MATMUL_BACKWARD_WEIGHT, SM_OUT(matmul_backward_weight, dW)},
};

static fault planted;

static void begin(fixture *f, sm_device *device) {
    const sm_plan_options options = {TRAINING(BATCH, SEQUENCE, SM_BF16), .products = SM_PRODUCTS_FP8,
                                     .attention = SM_ATTENTION_NAIVE};
    *f = (fixture){.device = device, .config = gpt2_of("tiny")};
    f->session = start_session(device, build_plan(f->config, &options, SM_MODE_FUSED, 0), SEED);
    ok(sm_tokens_embedded(f->config->vocab, &f->tokens));
}

// Two neighbours that differ change places; a single number, or a product, is twice what it should be.
static sm_status spoil(sm_executable *e, int tensor) {
    const sm_tensor *t = &e->plan->tensors[tensor];
    const int64_t n = sm_tensor_elems(t);
    const size_t size_bytes = sm_dtype_size(t->dtype);
    const sm_backend *reference = sm_backend_find("reference");
    SM_FREED char *values = sm_malloc((size_t)n * size_bytes);
    SM_TRY(reference->download(e, tensor, 0, n, values));
    for (int64_t i = 0; i < n && (planted == AMAX || planted >= PRODUCT || planted == SCALE); i++) {
        float wide;
        sm_dtype_format(t->dtype)->widen(1, values + (size_t)i * size_bytes, &wide);
        wide *= 2;
        sm_dtype_format(t->dtype)->round(1, &wide, values + (size_t)i * size_bytes);
    }
    for (int64_t i = 0; i + 1 < n && (planted == COLUMNS || planted == ROWS || planted == OLD_SCALE || planted == BIAS);
         i++) {
        char *a = values + (size_t)i * size_bytes, *b = a + size_bytes, kept[8];
        if (memcmp(a, b, size_bytes) != 0) {
            memcpy(kept, a, size_bytes);
            memcpy(a, b, size_bytes);
            memcpy(b, kept, size_bytes);
            break;
        }
    }
    return reference->upload(e, tensor, 0, n, values);
}

static sm_status execute(sm_executable *e, sm_range range, int64_t *op_ns) {
    for (int i = range.first; i < range.end; i++) {
        const sm_op *op = &e->plan->ops[i];
        SM_TRY(sm_backend_find("reference")->execute(e, (sm_range){i, i + 1}, op_ns));
        const int tensor = op->out[places[planted].out];
        const bool is_there = op->kind == places[planted].kind && tensor != SM_NO_TENSOR;
        SM_TRY(planted != NOTHING && is_there ? spoil(e, tensor) : SM_OK);
    }
    return SM_OK;
}

// The first drawn op that is wrong, in six steps.
TEST(faults_are_found) {
    for (planted = NOTHING; planted < N_FAULTS; planted++) {
        sm_status status = SM_OK;
        fixture f;
        sm_spot_check *check;
        SM_OWN(sm_device) *device = open_backend("reference", 1);
        sm_backend spoilt = *device->backend;
        spoilt.execute = execute;
        begin(&f, device);
        device->backend = &spoilt;
        ok(sm_spot_check_new(f.session->plan, planted, &check));
        for (int step = 0; step < 6 && status == SM_OK; step++) {
            ok(sm_tokens_batch(f.tokens, step, BATCH, SEQUENCE, f.ids[0], f.ids[1]));
            ok(sm_session_set_batch(f.session, f.ids[0], f.ids[1]));
            ok(sm_session_set_hyper(f.session, &sm_optimizer_adamw.defaults, step + 1, 1));
            status = sm_spot_check_run(check, f.session, SM_RUN_STEP, NULL);
        }
        print_message("fault %d: %s\n", planted, status == SM_OK ? "nothing is wrong" : sm_error_message());
        assert_int_equal(status, planted == NOTHING ? SM_OK : SM_ERR_MISMATCH);
        assert_true(planted == NOTHING || strstr(sm_error_message(), sm_op_name(places[planted].kind)) != NULL);
        sm_spot_check_free(check);
        tear_down(&f);
    }
}

// --- training --------------------------------------------------------------------------------

// As in bf16, within a percent; and the scales have followed amax.
TEST(losses_are_those_of_bf16) {
    static double narrow[N_STEPS], bytes[N_STEPS];
    SM_OWN(sm_device) *device = open_backend("reference", 1);
    train(device, (sm_precision){.dtype = SM_BF16}, SM_MODE_FUSED, narrow);
    train(device, fp8, SM_MODE_FUSED, bytes);
    compare_curves("fp8 beside bf16", narrow, bytes);
}

// A run that is resumed has the bits of one that was not, and a scale that cannot be is refused.
TEST(a_resumed_run_has_the_same_bits) {
    double losses[6], again[3];
    int64_t step;
    fixture f, g;
    SM_OWN(sm_device) *device = open_backend("reference", 1);
    const char *dir = temp_path("fp8");
    begin(&f, device);
    take_steps(&f, 3, losses);
    ok(sm_weights_save(dir, f.config, f.session, 3));
    begin(&g, device);
    ok(sm_weights_load(dir, g.config, g.session, &step));
    take_steps(&f, 3, losses);
    take_steps(&g, 3, again);
    assert_memory_equal(losses, again, sizeof again);
    const int scales = sm_plan_find_tensor(f.session->plan, SM_FP8_PREFIX "e4m3.scales");
    ok(sm_session_write_part(f.session, scales, 1, 1, &(float){3}));
    ok(sm_weights_save(dir, f.config, f.session, 6));
    assert_int_equal(sm_weights_load(dir, g.config, g.session, &step), SM_ERR_FORMAT);
    assert_non_null(strstr(sm_error_message(), "tensor 'fp8.e4m3.scales': 3 cannot be"));
    tear_down(&f);
    tear_down(&g);
}

// A cast makes an infinite number the format's largest: the next step's loss says so.
TEST(an_infinite_weight_is_not_hidden) {
    double losses[2];
    fixture f;
    SM_OWN(sm_device) *device = open_backend("reference", 1);
    begin(&f, device);
    const int weight = sm_plan_find_tensor(f.session->plan, "h.0.mlp.c_fc.weight");
    ok(sm_session_write_part(f.session, weight, 5, 1, &(float){INFINITY}));
    take_steps(&f, 2, losses);
    assert_true(isfinite(losses[0]) && isnan(losses[1]));
    tear_down(&f);
}

// It stays NaN in 8 bits, and the scale is that of the other numbers.
TEST(a_nan_has_no_part_in_amax) {
    const float x[4] = {1, NAN, -3, 2}, scale = 16;
    float amax = 0, wide[4];
    uint8_t rows[4], columns[4];
    ref_cast_fp8_f32(2, 2, sm_dtype_format(SM_E4M3), x, &scale, rows, columns, &amax);
    sm_dtype_format(SM_E4M3)->widen(4, columns, wide);
    assert_true(amax == 3 && wide[0] == 16 && wide[1] == -48 && isnan(wide[2]) && wide[3] == 32);
}

// So a run may be resumed with another --recompute.
TEST(what_is_computed_again_has_the_same_scale) {
    int64_t n[2];
    for (int again = 0; again < 2; again++) {
        const sm_plan_options options = {TRAINING(2, 16, SM_BF16), .products = SM_PRODUCTS_FP8,
                                         .recompute = again ? SM_RECOMPUTE_BLOCK : SM_RECOMPUTE_NONE};
        SM_OWN(sm_plan) *plan = build_plan(gpt2_of("tiny"), &options, SM_MODE_FUSED, 0);
        n[again] = plan->tensors[sm_plan_find_tensor(plan, SM_FP8_PREFIX "e4m3.scales")].dims[0];
    }
    assert_int_equal(n[0], n[1]);
}

TEST(what_cannot_be_is_refused) {
    const sm_plan_options options = {TRAINING(2, 16, SM_BF16), .products = SM_PRODUCTS_FP8};
    SM_OWN(sm_plan) *plan = NULL;
    ok(sm_model_build(gpt2_of("tiny"), &options, &plan));
    SM_OWN(sm_device) *cpu = open_backend("cpu", 1);
    assert_int_equal(sm_session_supports(cpu, plan), SM_ERR_UNSUPPORTED);
    assert_non_null(strstr(sm_error_message(), "no fp8 products"));
}
