// test_cpu_split.c: float matmuls by six bf16 matmuls (--precision bf16x6): as exact as fp32, for operands of any
// magnitude; infinite and NaN where fp32's result is; the same bits on any number of threads; training as in fp32. All
// but the refusal need a processor with AMX.
#define OWN_MAIN
#include <float.h>

#include "tests/support/cpu_kernel_run.h"
#include "tests/support/training_curve.h"
#include "tests/support/whole.h"
#include "backends/cpu/common/geometry.h"
#include "src/verify/op_cases.h"

static const sm_precision bf16x6 = {SM_F32, SM_PRODUCTS_BF16X6};
static const cpu_isa *isa; // NULL: this processor has no AMX

enum { MOST_THREADS = 3 };

// --- products -------------------------------------------------------------------------------------

// x (N,C), W (C,F) or, transposed, (F,C), y (N,F); of one of the three ops that a linear layer is.
typedef struct {
    sm_op_kind kind;
    int64_t N, C, F;
    bool transposed;
    bool epilogue; // bias and GELU; GELU's derivative; dW is added to
} product;

static float *make(int64_t n) { return sm_malloc((size_t)n * sizeof(float)); }

// Between -1 and 1, with all 24 bits.
static void fill(float *x, int64_t n, uint32_t seed) {
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * 0x1p-31f;
    }
}

// Operands and result of a product: two that are multiplied, what the epilogue reads, and what comes out.
typedef struct {
    product of;
    sm_op op;
    sm_tensor tensors[4];
    host_op bound;
    cpu_geometry g;
    float *a, *b, *c;
    float *beside, *act; // bias, or GELU's argument; GELU
} operands;

static void bind(operands *o) {
    const product *of = &o->of;
    const bool forward = of->kind == SM_OP_MATMUL_FORWARD;
    const bool of_weight = of->kind == SM_OP_MATMUL_BACKWARD_WEIGHT;
    sm_tensor *x = &o->tensors[0], *W = &o->tensors[1], *y = &o->tensors[2];
    *x = (sm_tensor){.dtype = SM_F32, .n_dims = 2, .dims = {of->N, of->C}};
    *W = (sm_tensor){
        .dtype = SM_F32, .n_dims = 2, .dims = {of->transposed ? of->F : of->C, of->transposed ? of->C : of->F}};
    *y = (sm_tensor){.dtype = SM_F32, .n_dims = 2, .dims = {of->N, of->F}};
    o->op = (sm_op){.kind = of->kind, .attr = {.w_transposed = of->transposed, .overwrites = !of->epilogue}};
    o->bound = (host_op){.op = &o->op,
                         .in_tensor = {forward || of_weight ? x : y, of_weight ? y : W},
                         .out_tensor = {forward     ? y
                                        : of_weight ? W
                                                    : x}};
    o->g = cpu_geometry_of(&o->bound);
}

static operands make_operands(product of) {
    operands o = {.of = of};
    bind(&o);
    const int64_t sizes[] = {o.g.m * o.g.k, o.g.k * o.g.n, o.g.m * o.g.n};
    o.a = make(sizes[0]);
    o.b = make(sizes[1]);
    o.c = make(sizes[2]);
    o.beside = make(sizes[2]);
    o.act = make(sizes[2]);
    fill(o.a, sizes[0], 1);
    fill(o.b, sizes[1], 2);
    fill(o.c, sizes[2], 3);
    fill(o.beside, sizes[2], 4);
    return o;
}

static void free_operands(operands *o) {
    float *const all[] = {o->a, o->b, o->c, o->beside, o->act};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
}

static void run(operands *o, const cpu_kernel_table *kernels, int n_threads) {
    const product *of = &o->of;
    bind(o); // whose addresses are this struct's
    o->bound.in[o->g.a_in] = o->a;
    o->bound.in[1 - o->g.a_in] = o->b;
    o->bound.out[0] = o->c;
    if (of->epilogue && of->kind != SM_OP_MATMUL_BACKWARD_WEIGHT) {
        o->bound.in[2] = o->beside;
        o->bound.out[1] = of->kind == SM_OP_MATMUL_FORWARD ? o->act : NULL;
    }
    cpu_kernel_run_op(kernels, &o->bound, n_threads);
}

// Element (i,j) of a b, and the sum of its summands' sizes, which errors are measured by.
static double sum_of(const operands *o, int64_t i, int64_t j, double *size) {
    double sum = 0;
    *size = 0;
    for (int64_t k = 0; k < o->g.k; k++) {
        const double x = (double)o->a[i * o->g.a_row + k * o->g.a_col] * (double)o->b[k * o->g.b_row + j * o->g.b_col];
        sum += x;
        *size += fabs(x);
    }
    return sum;
}

// The largest error of an element of the plain product, relative to the sizes of its summands.
static double largest_error(const operands *o, int64_t step) {
    double largest = 0;
    for (int64_t i = 0; i < o->g.m * o->g.n; i += step) {
        double size;
        const double sum = sum_of(o, i / o->g.n, i % o->g.n, &size);
        const double error = fabs((double)o->c[i] - sum) / size;
        largest = error <= largest ? largest : error; // NaN stays
    }
    return largest;
}

// --- right results --------------------------------------------------------------------------------

static void expect_close(const operands *o, const char *what, int n_threads, int64_t i, double got, double expected,
                         double tolerance) {
    FAIL_IF(!(fabs(got - expected) <= tolerance),
            "%s of %s, N %d C %d F %d%s, %d threads: element %d is %.9g, and not %.9g", what, sm_op_name(o->of.kind),
            (int)o->of.N, (int)o->of.C, (int)o->of.F, o->of.transposed ? ", transposed" : "", n_threads, (int)i, got,
            expected);
}

static void check_product(product of, int n_threads) {
    SM_AT_END(free_operands) operands o = make_operands(of);
    SM_FREED float *before = make(o.g.m * o.g.n);
    fill(before, o.g.m * o.g.n, 3);
    run(&o, isa->kernels_x6, n_threads);
    for (int64_t i = 0; i < o.g.m * o.g.n; i++) {
        double size;
        double expected = sum_of(&o, i / o.g.n, i % o.g.n, &size);
        const double tolerance = 5e-7 * (size + 1);
        if (of.epilogue && of.kind == SM_OP_MATMUL_FORWARD) {
            expected += (double)o.beside[i % o.g.n];
            expect_close(&o, "GELU", n_threads, i, (double)o.act[i], gelu_of(expected), 2 * tolerance);
        } else if (of.epilogue && of.kind == SM_OP_MATMUL_BACKWARD_INPUT) {
            expected *= gelu_slope_of((double)o.beside[i]);
        } else if (of.epilogue) {
            expected += (double)before[i];
        }
        expect_close(&o, "result", n_threads, i, (double)o.c[i], expected, 2 * tolerance);
    }
}

static const sm_op_kind kinds[] = {SM_OP_MATMUL_FORWARD, SM_OP_MATMUL_BACKWARD_INPUT, SM_OP_MATMUL_BACKWARD_WEIGHT};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

// Shapes that are no multiple of anything; deeper than a slice; more rows than a block.
TEST(test_products) {
    static const int64_t shapes[][3] = {{1, 1, 1},     {5, 3, 7},      {33, 65, 50},  {64, 128, 96}, {130, 97, 200},
                                        {9, 20, 2201}, {17, 2200, 21}, {2105, 35, 9}, {700, 70, 40}, {40, 1100, 70}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        for (int form = 0; form < 4; form++) {
            for (int k = 0; k < N_KINDS; k++) {
                check_product((product){kinds[k], shapes[s][0], shapes[s][1], shapes[s][2], form % 2 == 1, form >= 2},
                              1 + ((int)s + form + k) % MOST_THREADS);
            }
        }
    }
}

// Next to a correctly rounded result, six products are as near as fp32's own.
TEST(test_exactness) {
    for (int k = 0; k < N_KINDS; k++) {
        SM_AT_END(free_operands) operands o = make_operands((product){kinds[k], 256, 768, 320, false, false});
        run(&o, isa->kernels, 2);
        const double plain = largest_error(&o, 13);
        run(&o, isa->kernels_x6, 2);
        const double split = largest_error(&o, 13);
        print_message("%s: error %.2e in fp32, %.2e by six products\n", sm_op_name(kinds[k]), plain, split);
        assert_true(split <= 2 * plain);
        assert_true(split <= 1e-6);
    }
}

// Rows of a, and columns of b, of 1e-20 to 1e20.
TEST(test_ill_scaled) {
    for (int k = 0; k < N_KINDS; k++) {
        SM_AT_END(free_operands) operands o = make_operands((product){kinds[k], 96, 128, 80, false, false});
        for (int64_t i = 0; i < o.g.m; i++) {
            for (int64_t j = 0; j < o.g.k; j++) {
                o.a[i * o.g.a_row + j * o.g.a_col] *= (float)pow(10, (double)(i % 41 - 20));
            }
        }
        for (int64_t i = 0; i < o.g.n; i++) {
            for (int64_t j = 0; j < o.g.k; j++) {
                o.b[j * o.g.b_row + i * o.g.b_col] *= (float)pow(10, (double)((i * 7) % 21 - 10));
            }
        }
        run(&o, isa->kernels_x6, 1);
        assert_true(largest_error(&o, 1) <= 1e-6);
    }
}

// --- the ends of the range ------------------------------------------------------------------------

// c (32,32) of a whose every row is x 0 0 ..., and b that is 1 everywhere.
static float times_one(float x) {
    SM_AT_END(free_operands) operands o = make_operands((product){SM_OP_MATMUL_FORWARD, 32, 32, 32, false, false});
    for (int i = 0; i < 32 * 32; i++) {
        o.a[i] = i % 32 == 5 ? x : 0;
        o.b[i] = 1;
    }
    run(&o, isa->kernels_x6, 1);
    return o.c[77];
}

// A number comes back as it is: all of its 24 bits are in its three parts.
TEST(test_numbers) {
    static const float numbers[] = {
        1,
        -1,
        0x1.FFFFFEp0f,
        0x1.00FFFFp0f,
        0x1.010001p0f,
        0x1.FF7FFFp-3f,
        FLT_MAX,
        -FLT_MAX,
        0x1.FF0000p127f,
        0x1.FEFFFEp127f,
        0x1.FFp126f,
        0x1.23456p-100f,
        1e-20f,
        -1e20f,
        0.1f,
        0,
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const float got = times_one(numbers[i]);
        FAIL_IF(got != numbers[i], "%a times 1 is %a", (double)numbers[i], (double)got);
    }
}

// Infinite where fp32's result is, with its sign, and NaN where that is: next to numbers of all 24 bits and of few,
// large and small, zeros, and infinities in both operands.
TEST(test_not_finite) {
    static const uint32_t bits[] = {0x7F800000, 0xFF800000, 0x7FC00000, 0xFFFFFFFF, 0x7FFFFFFF, 0x7F800001, 0xFF800001};
    enum { N_BITS = sizeof bits / sizeof bits[0] };
    for (int k = 0; k < N_KINDS; k++) {
        SM_AT_END(free_operands) operands o = make_operands((product){kinds[k], 96, 96, 96, k == 1, false});
        for (int i = 0; i < 96 * 96; i++) {
            o.b[i] = i % 5 == 0 ? (float)(i % 3 - 1) : i % 7 == 0 ? o.b[i] * 1e20f : o.b[i];
            o.b[i] = i % 911 == 0 ? INFINITY : o.b[i];
        }
        for (int i = 0; i < 96; i += 2) { // up to two in a row of a, or in a column
            memcpy(&o.a[96 * i + (i * 7) % 96], &bits[i / 2 % N_BITS], sizeof *bits);
            memcpy(&o.a[96 * i + (i * 5 + 1) % 96], &bits[i / 2 % 2], sizeof *bits);
        }
        run(&o, isa->kernels, 1);
        SM_FREED float *plain = make(96 * 96);
        memcpy(plain, o.c, 96 * 96 * sizeof *plain);
        run(&o, isa->kernels_x6, 1);
        int n_infinite = 0;
        for (int i = 0; i < 96 * 96; i++) {
            n_infinite += isinf(plain[i]);
            FAIL_IF(isfinite(plain[i]) ? !isfinite(o.c[i])
                    : isnan(plain[i])  ? !isnan(o.c[i])
                                       : o.c[i] != plain[i],
                    "%s: element %d is %g, and not %g", sm_op_name(kinds[k]), i, (double)o.c[i], (double)plain[i]);
        }
        assert_int_not_equal(n_infinite, 0);
    }
}

// Close to the smallest number there is an absolute error, not a relative one: a part below it counts as zero.
TEST(test_small) {
    for (int exponent = -126; exponent <= -90; exponent++) {
        const float x = ldexpf(0x1.234566p0f, exponent);
        assert_true(fabsf(times_one(x) - x) <= 2 * FLT_MIN);
    }
    assert_true(times_one(0x1p-130f) == 0);
}

TEST(test_threads) {
    for (int k = 0; k < N_KINDS; k++) {
        SM_AT_END(free_operands) operands one = make_operands((product){kinds[k], 600, 1100, 170, k == 1, true});
        run(&one, isa->kernels_x6, 1);
        for (int n_threads = 2; n_threads <= MOST_THREADS; n_threads++) {
            SM_AT_END(free_operands) operands many = make_operands(one.of);
            run(&many, isa->kernels_x6, n_threads);
            assert_memory_equal(many.c, one.c, (size_t)(one.g.m * one.g.n) * sizeof *one.c);
        }
    }
}

// --- a plan ---------------------------------------------------------------------------------------

static sm_device *open_cpu(const char *name) {
    sm_device *device = NULL;
    ok(sm_backend_find("cpu")->open(0, &(sm_open_options){.n_threads = 2, .isa = name}, &device));
    return device;
}

// Within fp32's tolerances.
TEST(test_verify) {
    tally t = {0};
    SM_OWN(sm_device) *device = open_cpu(NULL);
    ok(sm_verify_ops(device, bf16x6, &(sm_verify_filter){.max_elems = 6000}, show_row, &t));
    ok(sm_verify_step(device, bf16x6, SM_MODE_FUSED, SM_RECOMPUTE_LIGHT, 0, show_row, &t));
    assert_true(t.n_rows > 100 && t.n_failed == 0 && t.n_skipped == 0);
}

TEST(test_training) {
    static double plain[N_STEPS], split[N_STEPS];
    SM_OWN(sm_device) *device = open_cpu(NULL);
    train(device, (sm_precision){.dtype = SM_F32}, SM_MODE_FUSED, plain);
    train(device, bf16x6, SM_MODE_FUSED, split);
    compare_curves("bf16x6", plain, split);
    for (int i = 0; i < N_STEPS; i++) {
        assert_true(fabs(split[i] - plain[i]) <= 1e-4 * plain[i]);
    }
}

TEST(test_refused) {
    SM_OWN(sm_plan) *plan = NULL;
    const cpu_isa *plain;
    SKIP_IF(isa != NULL && cpu_isa_find("baseline", &plain) != SM_OK); // a build for AMX alone
    SM_OWN(sm_device) *device = open_cpu(isa != NULL ? "baseline" : NULL);
    ok(sm_op_case_plan(SM_OP_MATMUL_FORWARD, 0, bf16x6, &plan));
    assert_int_equal(device->backend->supports(device, plan, &plan->ops[plan->n_ops - 1]), SM_ERR_UNSUPPORTED);
    assert_non_null(
        strstr(sm_error_message(), textf("they need AMX, and the kernels here are %s; use fp32", device->info.isa)));
}

int main(void) {
    if (cpu_isa_find("amx", &isa) != SM_OK) {
        isa = NULL;
        cmocka_set_test_filter("test_refused");
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
