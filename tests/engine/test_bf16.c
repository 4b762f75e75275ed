// test_bf16.c: plans with data type bf16: what is narrow, what stays f32, and who may run them.
#include "f16.h"
#include "tests/support/plans.h"

static float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

TEST(test_rounding) {
    const struct {
        uint32_t f32;
        uint16_t bf16;
    } cases[] = {
        {0x3F800000, 0x3F80}, // 1
        {0x3F807FFF, 0x3F80}, // just below half of a place
        {0x3F808000, 0x3F80}, // half: to even, down
        {0x3F818000, 0x3F82}, // half: to even, up
        {0x3F808001, 0x3F81}, // just above
        {0xBF808001, 0xBF81}, // the sign does not matter
        {0x3FFFFFFF, 0x4000}, // carries into the exponent
        {0x7F7FFFFF, 0x7F80}, // beyond the largest: infinity
        {0x7F800000, 0x7F80}, {0xFF800000, 0xFF80}, {0x80000000, 0x8000},
        {0x00000001, 0x0000}, {0x00018000, 0x0002}, // denormals
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(sm_bf16_round(from_bits(cases[i].f32)), cases[i].bf16);
    }
    assert_true(isnan(sm_bf16_widen(sm_bf16_round(from_bits(0x7F800001))))); // its only bit lies below the cut
    assert_true(isnan(sm_bf16_widen(sm_bf16_round(from_bits(0xFFFFFFFF)))));
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float wide = sm_bf16_widen((uint16_t)bits);
        assert_true(isnan(wide) || sm_bf16_round(wide) == bits);
    }
}

static sm_plan *build(const char *size, sm_dtype dtype, sm_mode mode, bool optimizer) {
    const sm_plan_options forward = {.B = 4, .T = 64, .dtype = dtype, .dropout_p = 0.1};
    const sm_plan_options options = {TRAINING(4, 64, dtype), .dropout_p = 0.1};
    return place_plan(gpt2_of(size), optimizer ? &options : &forward, mode, 0);
}

// The working copy of a matrix, laid out as the matrix; of a vector there is none.
static void assert_working_copies(const sm_plan *plan) {
    for (const sm_tensor *t = plan->tensors; t < plan->tensors + plan->n_tensors; t++) {
        if (t->role != SM_ROLE_PARAMETER || t->dtype == plan->dtype) {
            continue;
        }
        const bool is_matrix = t->n_dims == 2 || strstr(t->name, "matrices") != NULL;
        assert_int_equal(t->working_copy != SM_NO_TENSOR, is_matrix);
        if (!is_matrix) {
            continue;
        }
        const sm_tensor *copy = &plan->tensors[t->working_copy];
        char name[SM_NAME_SIZE + 8];
        snprintf(name, sizeof name, "bf16.%s", strncmp(t->name, "params.", 7) == 0 ? t->name + 7 : t->name);
        assert_string_equal(copy->name, name);
        assert_int_equal(copy->dtype, SM_BF16);
        assert_int_equal(copy->role, SM_ROLE_PARAMETER);
        assert_int_equal(copy->view_offset_elems, t->view_offset_elems);
        assert_int_equal(sm_tensor_elems(copy), sm_tensor_elems(t));
        assert_false(sm_plan_is_param(plan, t->working_copy));
    }
}

static void assert_ops_use_copies(const sm_plan *plan) {
    for (const sm_op *op = plan->ops; op < plan->ops + plan->n_ops; op++) {
        assert_int_equal(sm_op_check(plan, op), SM_OK);
        if (op->kind == SM_OP_MATMUL_FORWARD || op->kind == SM_OP_MATMUL_BACKWARD_INPUT) {
            assert_memory_equal(plan->tensors[op->in[SM_IN(matmul_forward, W)]].name, "bf16.", 5);
        }
        if (op->kind == SM_OP_ADAMW) {
            assert_int_equal(op->out[SM_OUT(adamw, w)], plan->tensors[op->out[SM_OUT(adamw, p)]].working_copy);
            assert_int_equal(op->out[SM_OUT(adamw, w)] != SM_NO_TENSOR, op->attr.decay);
        }
    }
}

TEST(test_plan) {
    for (sm_mode mode = SM_MODE_NAIVE; mode <= SM_MODE_FUSED; mode++) {
        for (int optimizer = 0; optimizer < 2; optimizer++) {
            SM_OWN(sm_plan) *plan = build("tiny", SM_BF16, mode, optimizer);
            assert_int_equal(plan->dtype, SM_BF16);
            assert_int_equal(plan->real, SM_F32);
            assert_working_copies(plan);
            assert_ops_use_copies(plan);
        }
    }
    SM_OWN(sm_plan) *plan = build("tiny", SM_F32, SM_MODE_FUSED, true);
    for (int i = 0; i < plan->n_tensors; i++) {
        assert_int_equal(plan->tensors[i].working_copy, SM_NO_TENSOR);
        assert_true(plan->tensors[i].dtype != SM_BF16);
    }
}

// f32 parameters, gradients and AdamW state as ever, two bytes an element of each matrix more; activations of
// half the size, but for statistics.
TEST(test_memory) {
    SM_OWN(sm_plan) *in_f32 = build("small", SM_F32, SM_MODE_FUSED, true);
    SM_OWN(sm_plan) *in_bf16 = build("small", SM_BF16, SM_MODE_FUSED, true);
    size_t wide[SM_ROLE_COUNT], narrow[SM_ROLE_COUNT];
    sm_plan_memory(in_f32, wide);
    sm_plan_memory(in_bf16, narrow);
    int matrices = sm_plan_find_tensor(in_bf16, "bf16.matrices.0");
    assert_true(matrices != SM_NO_TENSOR);
    assert_int_equal(narrow[SM_ROLE_PARAMETER], wide[SM_ROLE_PARAMETER] + sm_tensor_bytes(&in_bf16->tensors[matrices]));
    assert_int_equal(narrow[SM_ROLE_GRADIENT], wide[SM_ROLE_GRADIENT]);
    assert_int_equal(narrow[SM_ROLE_OPTIMIZER], wide[SM_ROLE_OPTIMIZER]);
    assert_true(narrow[SM_ROLE_ACTIVATION] >= wide[SM_ROLE_ACTIVATION] / 2);
    assert_true((double)narrow[SM_ROLE_ACTIVATION] < 0.52 * (double)wide[SM_ROLE_ACTIVATION]);
    assert_int_equal(narrow[SM_ROLE_SCRATCH], wide[SM_ROLE_SCRATCH] / 2); // logits
}

// The same FLOPs; AdamW moves two bytes an element more, a matmul's bytes follow its operands.
TEST(test_work) {
    SM_OWN(sm_plan) *wide = build("tiny", SM_F32, SM_MODE_NAIVE, true);
    SM_OWN(sm_plan) *narrow = build("tiny", SM_BF16, SM_MODE_NAIVE, true);
    assert_int_equal(wide->n_ops, narrow->n_ops);
    for (int i = 0; i < wide->n_ops; i++) {
        const sm_op *op = &wide->ops[i];
        const double bytes = sm_op_bytes(narrow, &narrow->ops[i]);
        assert_true(sm_op_flops(wide, op) == sm_op_flops(narrow, &narrow->ops[i]));
        if (op->kind == SM_OP_ADAMW && op->attr.decay) {
            assert_true(bytes == sm_op_bytes(wide, op) +
                                     2.0 * (double)sm_tensor_elems(&wide->tensors[op->out[SM_OUT(adamw, p)]]));
        } else if (op->kind == SM_OP_MATMUL_FORWARD || op->kind == SM_OP_GELU_FORWARD || op->kind == SM_OP_RESIDUAL) {
            assert_true(bytes == sm_op_bytes(wide, op) / 2);
        }
    }
}
