// test_cpu_product.c: the cpu backend's bf16 matmuls, kernel by kernel, against sums in double: the three matmuls of a
// linear layer, with W as (C,F) and as (F,C), their epilogues, odd shapes, k deeper than a slice, and one to four
// threads, on every instruction set of this processor.
#include "tests/support/cpu_kernel_run.h"

typedef struct {
    int64_t N, C, F; // rows, input channels, output channels
} shape;

static const shape shapes[] = {
    {1, 1, 1},     {5, 3, 7},       {33, 65, 50},   {64, 128, 96},  {130, 97, 200}, {9, 20, 6201},  {17, 6200, 21},
    {3105, 35, 9}, {1500, 20, 160}, {40, 1100, 70}, {64, 96, 2112}, {96, 1056, 64}, {40, 3300, 70}, {3300, 40, 70},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0], MOST_THREADS = 4 };

// --- bf16 and random values -----------------------------------------------------------------------

static double widened(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return (double)wide;
}

static uint16_t random_bf16(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    float x = (float)(*state >> 8) * (2.0f / (1 << 24)) - 1.0f;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

// A tensor of test data, and its memory.
typedef struct {
    sm_tensor tensor;
    void *data;
} operand;

static void free_operand(operand *o) { free(o->data); }

static operand make_operand(sm_dtype dtype, int64_t rows, int64_t cols, uint32_t seed) {
    operand o = {.tensor = {.dtype = dtype, .n_dims = 2, .dims = {rows, cols}}};
    o.data = calloc((size_t)(rows * cols), sm_dtype_size(dtype));
    assert_non_null(o.data);
    for (int64_t i = 0; i < rows * cols; i++) {
        uint16_t value = random_bf16(&seed);
        if (dtype == SM_BF16) {
            ((uint16_t *)o.data)[i] = value;
        } else {
            ((float *)o.data)[i] = (float)widened(value);
        }
    }
    return o;
}

static double at(const operand *o, int64_t i) {
    return o->tensor.dtype == SM_BF16 ? widened(((const uint16_t *)o->data)[i]) : (double)((const float *)o->data)[i];
}

// --- comparing ------------------------------------------------------------------------------------

// A sum of products, and the sum of their magnitudes, which scales its rounding errors.
typedef struct {
    double value, size;
} sum;

// of a[a_first + i a_step] b[b_first + i b_step], i < k
static sum sum_of(const operand *a, int64_t a_first, int64_t a_step, const operand *b, int64_t b_first, int64_t b_step,
                  int64_t k) {
    sum s = {0, 0};
    for (int64_t i = 0; i < k; i++) {
        double product = at(a, a_first + i * a_step) * at(b, b_first + i * b_step);
        s.value += product;
        s.size += fabs(product);
    }
    return s;
}

static void check(const char *what, const cpu_isa *isa, shape of, int n_threads, int64_t i, double value,
                  double expected, double tolerance) {
    FAIL_IF(!(fabs(value - expected) <= tolerance), "%s, %s, N %d C %d F %d, %d threads: element %d is %g, and not %g",
            what, isa->name, (int)of.N, (int)of.C, (int)of.F, n_threads, (int)i, value, expected);
}

// Half of bf16's last place, and what sums in float may lose.
static double rounded_tolerance(double expected, double size) { return fabs(expected) / 256 + 1e-6 * size + 1e-6; }

// Stride between checked elements: 1 except in large results.
static int64_t check_step = 1;

static void check_forward(const cpu_isa *isa, shape of, bool transposed, bool epilogue, int n_threads) {
    SM_AT_END(free_operand) operand x = make_operand(SM_BF16, of.N, of.C, 1);
    SM_AT_END(free_operand) operand W = make_operand(SM_BF16, transposed ? of.F : of.C, transposed ? of.C : of.F, 2);
    SM_AT_END(free_operand) operand b = make_operand(SM_F32, 1, of.F, 3);
    SM_AT_END(free_operand) operand y = make_operand(SM_BF16, of.N, of.F, 4);
    SM_AT_END(free_operand) operand act = make_operand(SM_BF16, of.N, of.F, 5);
    const sm_op op = {.kind = SM_OP_MATMUL_FORWARD, .attr = {.w_transposed = transposed}};
    host_op bound = {.op = &op,
                     .in_tensor = {&x.tensor, &W.tensor, epilogue ? &b.tensor : NULL},
                     .out_tensor = {&y.tensor, epilogue ? &act.tensor : NULL},
                     .in = {x.data, W.data, epilogue ? b.data : NULL},
                     .out = {y.data, epilogue ? act.data : NULL}};
    cpu_kernel_run_op(isa->kernels_bf16, &bound, n_threads);
    for (int64_t i = 0; i < of.N * of.F; i += check_step) {
        int64_t f = i % of.F;
        sum s = sum_of(&x, i / of.F * of.C, 1, &W, transposed ? f * of.C : f, transposed ? 1 : of.F, of.C);
        double expected = s.value + (epilogue ? at(&b, f) : 0);
        check("y", isa, of, n_threads, i, at(&y, i), expected, rounded_tolerance(expected, s.size));
        if (epilogue) {
            check("act", isa, of, n_threads, i, at(&act, i), gelu_of(expected),
                  rounded_tolerance(gelu_of(expected), 2 * s.size));
        }
    }
}

static void check_backward_input(const cpu_isa *isa, shape of, bool transposed, bool epilogue, int n_threads) {
    SM_AT_END(free_operand) operand dy = make_operand(SM_BF16, of.N, of.F, 1);
    SM_AT_END(free_operand) operand W = make_operand(SM_BF16, transposed ? of.F : of.C, transposed ? of.C : of.F, 2);
    SM_AT_END(free_operand) operand pre = make_operand(SM_BF16, of.N, of.C, 3);
    SM_AT_END(free_operand) operand dx = make_operand(SM_BF16, of.N, of.C, 4);
    const sm_op op = {.kind = SM_OP_MATMUL_BACKWARD_INPUT, .attr = {.w_transposed = transposed}};
    host_op bound = {.op = &op,
                     .in_tensor = {&dy.tensor, &W.tensor, epilogue ? &pre.tensor : NULL},
                     .out_tensor = {&dx.tensor},
                     .in = {dy.data, W.data, epilogue ? pre.data : NULL},
                     .out = {dx.data}};
    cpu_kernel_run_op(isa->kernels_bf16, &bound, n_threads);
    for (int64_t i = 0; i < of.N * of.C; i += check_step) {
        int64_t c = i % of.C;
        sum s = sum_of(&dy, i / of.C * of.F, 1, &W, transposed ? c : c * of.F, transposed ? of.C : 1, of.F);
        double expected = s.value * (epilogue ? gelu_slope_of(at(&pre, i)) : 1);
        check("dx", isa, of, n_threads, i, at(&dx, i), expected, rounded_tolerance(expected, 2 * s.size));
    }
}

static void check_backward_weight(const cpu_isa *isa, shape of, bool transposed, bool overwrites, int n_threads) {
    SM_AT_END(free_operand) operand x = make_operand(SM_BF16, of.N, of.C, 1);
    SM_AT_END(free_operand) operand dy = make_operand(SM_BF16, of.N, of.F, 2);
    int64_t cols = transposed ? of.C : of.F;
    SM_AT_END(free_operand) operand before = make_operand(SM_F32, of.C * of.F / cols, cols, 3);
    SM_AT_END(free_operand) operand dW = make_operand(SM_F32, of.C * of.F / cols, cols, 3);
    const sm_op op = {.kind = SM_OP_MATMUL_BACKWARD_WEIGHT,
                      .attr = {.w_transposed = transposed, .overwrites = overwrites}};
    host_op bound = {.op = &op,
                     .in_tensor = {&x.tensor, &dy.tensor},
                     .out_tensor = {&dW.tensor},
                     .in = {x.data, dy.data},
                     .out = {dW.data}};
    cpu_kernel_run_op(isa->kernels_bf16, &bound, n_threads);
    for (int64_t i = 0; i < of.C * of.F; i += check_step) {
        int64_t c = transposed ? i % cols : i / cols, f = transposed ? i / cols : i % cols;
        sum s = sum_of(&x, c, of.C, &dy, f, of.F, of.N);
        double expected = (overwrites ? 0 : at(&before, i)) + s.value;
        check("dW", isa, of, n_threads, i, at(&dW, i), expected, 1e-6 * (s.size + 1));
    }
}

TEST(test_products) {
    for (size_t i = 0; i < SM_COUNT(cpu_isa_names); i++) {
        const cpu_isa *isa = NULL;
        const bool has_isa = cpu_isa_find(cpu_isa_names[i], &isa) == SM_OK;
        for (int s = 0; s < N_SHAPES && has_isa; s++) {
            for (int form = 0; form < 4; form++) {
                int n_threads = 1 + (s + form) % MOST_THREADS;
                check_forward(isa, shapes[s], form % 2 == 1, form >= 2, n_threads);
                check_backward_input(isa, shapes[s], form % 2 == 1, form >= 2, n_threads);
                check_backward_weight(isa, shapes[s], form % 2 == 1, form >= 2, n_threads);
            }
        }
    }
}

static const cpu_isa *best_isa(void) {
    const cpu_isa *isa = NULL;
    assert_int_equal(cpu_isa_best(&isa), SM_OK);
    return isa;
}

// The best is always the same one, and says why it is not the one with instructions for bf16.
TEST(test_best) {
    const cpu_isa *with_dots = NULL;
    char reason[SM_TEXT_SIZE];
    cpu_isa_reason(reason);
    assert_ptr_equal(best_isa(), best_isa());
    const bool is_left = cpu_isa_find("avx512_bf16", &with_dots) == SM_OK && strcmp(best_isa()->name, "avx512") == 0;
    if (strncmp(best_isa()->name, "neon", 4) != 0) {
        assert_int_equal(is_left, strncmp(reason, "avx512_bf16 ", 12) == 0);
    }
    if (is_left) {
        assert_ptr_equal(with_dots->kernels, best_isa()->kernels);
        assert_null(best_isa()->kernels_bf16->peak_flops);
    }
}

// Operands that do not fit in caches are divided into blocks of rows, columns and k.
static void check_blocks(const cpu_isa *isa) {
    const shape large = {1700, 1700, 700};
    check_step = 1009;
    for (int transposed = 0; transposed < 2; transposed++) {
        check_forward(isa, large, transposed, true, 2);
        check_backward_input(isa, large, transposed, true, 2);
        check_backward_weight(isa, large, transposed, false, 2);
    }
    check_step = 1;
}

TEST(test_blocks) {
    const cpu_isa *with_dots = NULL;
    check_blocks(best_isa());
    if (cpu_isa_find("avx512_bf16", &with_dots) == SM_OK && with_dots != best_isa()) {
        check_blocks(with_dots);
    }
}
