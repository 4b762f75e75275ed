// test_tensor_attention.c: the choice of attention ops for matrix units, and of their sizes; needs no device.
#include "tests/support/test.h"
#include "backends/opencl/nvidia/tensor.h"

static const opencl_facts hopper = {.compute_capability = 90};
static const opencl_facts ada = {.compute_capability = 89};

// Flash attention of two tensors: qkv and y, as forward has them.
typedef struct {
    sm_tensor tensors[2];
    sm_plan plan;
    opencl_attention attention;
} example;

static void make_example(example *x, sm_dtype dtype, sm_products products, int64_t HS) {
    *x = (example){.plan = {.dtype = dtype, .products = products, .n_tensors = 2},
                   .attention = {.forward = true, .B = 1, .T = 7, .NH = 2, .NKV = 1, .HS = HS, .qkv = 0, .y = 1}};
    x->attention.dy = x->attention.dqkv = SM_NO_TENSOR;
    x->tensors[0] = x->tensors[1] = (sm_tensor){.dtype = dtype};
    x->plan.tensors = x->tensors;
}

static bool attends(example *x) { return opencl_tensor_attends(&hopper, &x->plan, &x->attention); }

static bool attends_to(sm_dtype dtype, sm_products products, int64_t HS) {
    example x;
    make_example(&x, dtype, products, HS);
    return attends(&x);
}

TEST(test_formats) {
    assert_true(attends_to(SM_BF16, SM_PRODUCTS_PLAIN, 64));
    assert_true(attends_to(SM_F16, SM_PRODUCTS_PLAIN, 64));
    assert_true(attends_to(SM_F32, SM_PRODUCTS_TF32, 64));
    assert_true(attends_to(SM_F32, SM_PRODUCTS_TF32X3, 64));
    assert_false(attends_to(SM_F32, SM_PRODUCTS_PLAIN, 64));
}

TEST(test_head_sizes) {
    for (int64_t HS = 1; HS <= 256; HS++) {
        assert_int_equal(attends_to(SM_BF16, SM_PRODUCTS_PLAIN, HS), HS % 8 == 0 && HS <= 128);
        assert_int_equal(attends_to(SM_F32, SM_PRODUCTS_TF32, HS), HS % 8 == 0 && HS <= 128);
    }
}

TEST(test_stored_weights) {
    example x;
    make_example(&x, SM_BF16, SM_PRODUCTS_PLAIN, 64);
    x.attention.stores_weights = true;
    assert_false(attends(&x));
}

TEST(test_alignment) {
    example x;
    make_example(&x, SM_BF16, SM_PRODUCTS_PLAIN, 64);
    x.tensors[1].offset_bytes = 16;
    assert_true(attends(&x));
    x.tensors[1].offset_bytes = 8;
    assert_false(attends(&x));
}

static void expect_possible(opencl_score_sizes s) {
    assert_true(s.warps * s.fragments > 0 && s.step % 16 == 0 && s.tile % s.step == 0);
}

// Every head size has sizes that fit, on cards with less local memory too, and that the kernels can have; by wgmma four
// warps work together.
TEST(test_sizes) {
    const opencl_facts *const cards[] = {&hopper, &ada};
    for (int part = 0; part < OPENCL_ATTENTION_PARTS; part++) {
        for (int i = 0; i < 2; i++) {
            for (int64_t HS = 8; HS <= 128; HS += 8) {
                for (int elem_bytes = 2; elem_bytes <= 4; elem_bytes += 2) {
                    opencl_score_sizes s = {0};
                    assert_true(opencl_mma_score_sizes(cards[i], part, HS, elem_bytes, &s));
                    expect_possible(s);
                }
            }
        }
        for (int heads = 0; heads < OPENCL_HEADS_KINDS; heads++) {
            const opencl_score_sizes s = opencl_wgmma_score_sizes((opencl_heads)heads, part);
            expect_possible(s);
            assert_true(s.warps % 4 == 0 && s.stages > 1 && s.groups > 0);
        }
    }
}
