// test_init.c: counter-based random numbers and the initial weights drawn from them.
#include "philox.h"
#include "tests/support/plans.h"

// Known answers of Philox4x32-10: all bits zero, all bits one, the digits of pi.
TEST(test_philox) {
    const struct {
        uint64_t key, low, high;
        uint32_t word[4];
    } known[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        sm_philox_block block = sm_philox4x32(known[i].key, known[i].low, known[i].high);
        for (int w = 0; w < 4; w++) {
            assert_int_equal(block.word[w], known[i].word[w]);
        }
    }
    assert_true(sm_philox_key(1, "a") != sm_philox_key(2, "a"));
    assert_true(sm_philox_key(1, "a") != sm_philox_key(1, "b"));
}

TEST(test_dropout_keeps_its_share) {
    const uint32_t threshold = sm_dropout_threshold(0.25);
    int kept = 0;
    for (uint64_t e = 0; e < 100000; e++) {
        kept += sm_dropout_keeps(42, 7, e, threshold);
    }
    assert_true(abs(kept - 75000) < 700); // five standard deviations
}

static float *init(const sm_plan *plan, const char *name, uint64_t seed, int64_t *n_elems) {
    int tensor = sm_plan_find_tensor(plan, name);
    assert_true(tensor != SM_NO_TENSOR && sm_plan_is_param(plan, tensor));
    *n_elems = plan->tensors[tensor].real_elems;
    float *values = sm_malloc((size_t)*n_elems * sizeof *values);
    sm_param_init(plan, tensor, seed, 0, *n_elems, values);
    return values;
}

// The same in parts too small to be shared among threads.
static float *init_in_parts(const sm_plan *plan, const char *name, uint64_t seed) {
    enum { PART = 1204 };
    int tensor = sm_plan_find_tensor(plan, name);
    int64_t n_elems = plan->tensors[tensor].real_elems;
    float *values = sm_malloc((size_t)n_elems * sizeof *values);
    for (int64_t first = 0; first < n_elems; first += PART) {
        int64_t n = n_elems - first < PART ? n_elems - first : PART;
        sm_param_init(plan, tensor, seed, first, n, values + first);
    }
    return values;
}

static void assert_normal(const float *values, int64_t n_elems, double std) {
    double sum = 0, squares = 0, fourth = 0;
    for (int64_t i = 0; i < n_elems; i++) {
        double x = values[i] / std;
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
    }
    double n = (double)n_elems;
    assert_true(fabs(sum / n) <= 5 / sqrt(n));
    assert_true(fabs(squares / n - 1) <= 5 * sqrt(2 / n));
    assert_true(fabs(fourth / n - 3) <= 5 * sqrt(96 / n));
}

TEST(test_initial_weights) {
    sm_model_config config = *gpt2_of("tiny");
    config.d_model = 256; // so that the fill is shared among threads
    config.vocab = 1201;
    const sm_plan_options options = {.B = 1, .T = 1, .dtype = SM_F32};
    SM_OWN(sm_plan) *plan = build_plan(&config, &options, SM_MODE_NAIVE, 0);
    int64_t n = 0, n_again = 0;

    SM_FREED float *wte = init(plan, "wte.weight", 3, &n);
    assert_int_equal(n, 1201 * 256); // without the padding rows
    assert_normal(wte, n, 0.02);
    SM_FREED float *again = init_in_parts(plan, "wte.weight", 3);
    assert_memory_equal(wte, again, (size_t)n * sizeof *wte);
    SM_FREED float *other = init(plan, "wte.weight", 4, &n_again);
    assert_true(memcmp(wte, other, (size_t)n * sizeof *wte) != 0);

    SM_FREED float *proj = init(plan, "h.1.mlp.c_proj.weight", 3, &n);
    assert_normal(proj, n, 0.02 / sqrt(2.0 * 2));
    SM_FREED float *ln = init(plan, "h.0.ln_1.weight", 3, &n);
    assert_true(ln[0] == 1.0f && ln[n - 1] == 1.0f);
    SM_FREED float *bias = init(plan, "ln_f.bias", 3, &n);
    assert_true(bias[0] == 0.0f && bias[n - 1] == 0.0f);
}
