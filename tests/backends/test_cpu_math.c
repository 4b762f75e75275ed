// test_cpu_math.c: the cpu backend's exp, 2^x, GELU and sigmoid against the C library's in double.
#include "tests/support/test.h"
#include "backends/cpu/common/gate.h"
#include "backends/cpu/common/math.h"

static void expect_near(const char *what, float x, float got, double wanted, double tol) {
    FAIL_IF(!(fabs(got - wanted) <= tol), "%s(%.9g) = %.9g, expected %.9g", what, x, got, wanted);
}

TEST(exp_is_right) {
    for (double x = -86.9; x <= 88.7; x += 1.0 / 512) {
        const double wanted = exp((double)(float)x);
        expect_near("exp", (float)x, cpu_exp((float)x), wanted, 2e-7 * wanted);
    }
    assert_true(cpu_exp(-88.0f) == 0.0f);
    assert_true(cpu_exp(-INFINITY) == 0.0f);
    assert_true(isinf(cpu_exp(89.0f)));
    assert_true(isinf(cpu_exp(INFINITY)));
    assert_true(isnan(cpu_exp(NAN)));
}

TEST(exp2_is_right) {
    for (double x = -126; x < 127.5; x += 1.0 / 512) {
        const double wanted = exp2((double)(float)x);
        expect_near("exp2", (float)x, cpu_exp2((float)x), wanted, 1.5e-7 * wanted);
    }
    assert_true(cpu_exp2(-127.0f) == 0.0f);
    assert_true(cpu_exp2(-INFINITY) == 0.0f);
    assert_true(cpu_exp2(0.0f) == 1.0f);
    assert_true(isnan(cpu_exp2(NAN)));
}

static double gelu(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x))); }

static double gelu_derivative(double x) {
    const double inner = sqrt(2 / acos(-1.0));
    const double t = tanh(inner * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner * (1 + 3 * 0.044715 * x * x);
}

static float gelu_of(float x) { return cpu_gelu(cpu_all(x))[0]; }
static float gelu_derivative_of(float x) { return cpu_gelu_derivative(cpu_all(x))[CPU_VECTOR - 1]; }
static float sigmoid_of(float x) { return cpu_sigmoid(cpu_all(x))[0]; }

TEST(gelu_is_right) {
    for (double x = -30; x <= 30; x += 1.0 / 1024) {
        expect_near("gelu", (float)x, gelu_of((float)x), gelu(x), 5e-7 * fmax(1, fabs(x)));
        expect_near("gelu'", (float)x, gelu_derivative_of((float)x), gelu_derivative(x), 2e-6);
    }
    const float far[] = {1e3f, 1e10f, 1e30f, 3e38f};
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        assert_true(gelu_of(far[i]) == far[i]);
        assert_true(gelu_derivative_of(far[i]) == 1.0f);
        expect_near("gelu", -far[i], gelu_of(-far[i]), 0, 2e-37 * far[i]);
        expect_near("gelu'", -far[i], gelu_derivative_of(-far[i]), 0, 1e-30);
    }
    assert_true(isinf(gelu_of(-INFINITY)));
    assert_true(isnan(gelu_of(NAN)));
    assert_true(isnan(gelu_derivative_of(NAN)));
}

TEST(sigmoid_is_right) {
    for (double x = -80; x <= 80; x += 1.0 / 512) {
        const double wanted = 1 / (1 + exp(-x));
        expect_near("sigmoid", (float)x, sigmoid_of((float)x), wanted, (4e-7 + 1e-7 * fabs(x)) * wanted);
    }
    assert_true(sigmoid_of(INFINITY) == 1.0f);
    expect_near("sigmoid", -INFINITY, sigmoid_of(-INFINITY), 0, 1e-37);
    assert_true(isnan(sigmoid_of(NAN)));
}

// A value has the same bits at any place in a row, and nothing after the row is changed.
TEST(rows_are_right) {
    enum { MOST = 3 * CPU_VECTOR + 1 };
    for (int n = 0; n < MOST; n++) {
        float x[MOST], y[MOST], d[MOST];
        for (int i = 0; i < MOST; i++) {
            x[i] = (float)(i - n) * 0.37f;
            y[i] = d[i] = 1.0f;
        }
        cpu_gelu_row(x, n, y);
        cpu_gelu_derivative_row(x, n, d);
        for (int i = 0; i < MOST; i++) {
            assert_true(y[i] == (i < n ? gelu_of(x[i]) : 1.0f));
            assert_true(d[i] == (i < n ? gelu_derivative_of(x[i]) : 1.0f));
        }
    }
}
