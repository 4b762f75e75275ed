// gate.h: GELU, the sigmoid and powers of 2, a vector at a time. NaN stays NaN everywhere: a wrong loss must show.
//
// They are written with vectors. From loops, compilers make two instructions or more for a bound that lets NaN pass,
// and do not use the processor's approximate inverse.
#pragma once

#include "op.h"

#include "backends/cpu/common/vector.h"

static inline cpu_vector cpu_all(float value) { return (cpu_vector){0} + value; }

// x, where the bound bounds it, by lane. Of a NaN x86's maximum and minimum return the second operand, Arm's NaN.
static inline cpu_vector cpu_at_least(cpu_vector x, float bound) {
#if defined(__AVX512F__)
    return (cpu_vector)_mm512_max_ps(_mm512_set1_ps(bound), (__m512)x);
#elif defined(__AVX__)
    return (cpu_vector)_mm256_max_ps(_mm256_set1_ps(bound), (__m256)x);
#elif CPU_NEON
    return (cpu_vector)vmaxq_f32(vdupq_n_f32(bound), (float32x4_t)x);
#else
    return cpu_select((cpu_int_vector)(x < cpu_all(bound)), cpu_all(bound), x);
#endif
}
static inline cpu_vector cpu_at_most(cpu_vector x, float bound) {
#if defined(__AVX512F__)
    return (cpu_vector)_mm512_min_ps(_mm512_set1_ps(bound), (__m512)x);
#elif defined(__AVX__)
    return (cpu_vector)_mm256_min_ps(_mm256_set1_ps(bound), (__m256)x);
#elif CPU_NEON
    return (cpu_vector)vminq_f32(vdupq_n_f32(bound), (float32x4_t)x);
#else
    return cpu_select((cpu_int_vector)(x > cpu_all(bound)), cpu_all(bound), x);
#endif
}

// The larger in each lane; b if a is NaN.
static inline cpu_vector cpu_larger(cpu_vector a, cpu_vector b) {
#if defined(__AVX512F__)
    return (cpu_vector)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
    return (cpu_vector)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return cpu_select((cpu_int_vector)(a > b), a, b);
#endif
}

// 2^x for -127 <= x < 127.5, as cpu_exp2_within (common/math.h): with a relative error below 1e-7; for narrow data,
// whose unit roundoff is at least 5e-4, below 7e-6, by a shorter polynomial.
static inline cpu_vector cpu_exp2_lanes(cpu_vector x) {
    const float round = 12582912.0f + 127.0f; // 1.5 * 2^23 + the exponent's bias
    const cpu_vector shifted = x + round;
    const cpu_vector r = x - (shifted - round);
#if defined(CPU_DATA_NARROW)
    cpu_vector p = cpu_all(9.65671029e-3f);
    p = p * r + 5.58382829e-2f;
    p = p * r + 2.40225301e-1f;
    p = p * r + 6.93136734e-1f;
#else
    cpu_vector p = cpu_all(1.54531634e-4f);
    p = p * r + 1.33908633e-3f;
    p = p * r + 9.61808302e-3f;
    p = p * r + 5.55035695e-2f;
    p = p * r + 2.40226507e-1f;
    p = p * r + 6.93147182e-1f;
#endif
    p = p * r + 1.0f;
    return p * (cpu_vector)((cpu_int_vector)shifted << 23);
}

// 1/x for positive normal x whose inverse is normal, with a relative error below 2e-7, in less time than divisions of
// wide vectors take. From a guess y, with d = 1 - x y, 1/x = y / (1 - d) = y (1 + d + d^2 + ...). AVX-512 guesses to
// within 2^-14, where one term is enough; Arm to within 2^-8, and one term is taken twice. Elsewhere the difference of
// exponents, and so of all bits, is a guess within an eighth; three terms are taken, twice: d becomes d^3.
static inline cpu_vector cpu_inverse(cpu_vector x) {
#if defined(__AVX512F__)
    const cpu_vector y = (cpu_vector)_mm512_rcp14_ps((__m512)x);
    return y + y * (1.0f - x * y);
#elif CPU_NEON
    float32x4_t y = vrecpeq_f32((float32x4_t)x);
    y = vmulq_f32(y, vrecpsq_f32((float32x4_t)x, y));
    return (cpu_vector)vmulq_f32(y, vrecpsq_f32((float32x4_t)x, y));
#else
    cpu_vector y = (cpu_vector)(0x7EF311C7 - (cpu_int_vector)x);
    cpu_vector d = 1.0f - x * y;
    y = y + y * (d + d * d);
    d = 1.0f - x * y;
    return y + y * (d + d * d);
#endif
}

// 1/(1 + e^(-x)), to within 1e-37.
static inline cpu_vector cpu_sigmoid(cpu_vector x) {
    const cpu_vector within = cpu_at_most(cpu_at_least(x, -87.0f), 87.0f);
    return cpu_inverse(1.0f + cpu_exp2_lanes(within * -1.44269504f));
}

// Beyond it GELU is 0 or x to the last digit, and its derivative 0 or 1; within it e^(-2u) is finite.
static const float cpu_gelu_edge = 9.9f;

// e^(-2u), u = sqrt(2/pi) (x + 0.044715 x^3), for |x| up to the edge: a power of 2 by log2(e).
static inline cpu_vector cpu_gelu_exp(cpu_vector x) {
    return cpu_exp2_lanes(x * (-2.30220819f - 0.102943240f * (x * x)));
}

// GELU in its tanh form. (1 + tanh(u))/2 = 1/(1 + e^(-2u)). x itself is not bounded, so that -infinity shows.
static inline cpu_vector cpu_gelu(cpu_vector x) {
    const cpu_vector within = cpu_at_most(cpu_at_least(x, -cpu_gelu_edge), cpu_gelu_edge);
    return x * cpu_inverse(1.0f + cpu_gelu_exp(within));
}

// Its derivative: s + x s (1 - s) 2u', with s = 1/(1 + e), 1 - s = e s, e = e^(-2u).
static inline cpu_vector cpu_gelu_derivative(cpu_vector wide_x) {
    const cpu_vector x = cpu_at_most(cpu_at_least(wide_x, -cpu_gelu_edge), cpu_gelu_edge);
    const cpu_vector e = cpu_gelu_exp(x);
    const cpu_vector s = cpu_inverse(1.0f + e);
    const cpu_vector slope = 1.5957691216057308f * (1.0f + 3.0f * 0.044715f * (x * x)); // 2u'
    return s + x * slope * (e * s) * s;
}

// Load the n < CPU_VECTOR values at x, followed by zeros; and store them.
static inline cpu_vector cpu_load_some(const float *x, int64_t n) {
    cpu_vector some = {0};
    memcpy(&some, x, (size_t)n * sizeof *x);
    return some;
}
static inline void cpu_store_some(cpu_vector some, int64_t n, float *to) { memcpy(to, &some, (size_t)n * sizeof *to); }

// The others, by their expressions.
#define X(CODE, name, f, slope)                                    \
    static inline cpu_vector cpu_##name(cpu_vector x) {            \
        const cpu_vector p = cpu_at_least(x, 0);                   \
        return f;                                                  \
    }                                                              \
    static inline cpu_vector cpu_##name##_derivative(cpu_vector x) { \
        const cpu_vector p = cpu_at_least(x, 0);                   \
        return slope;                                              \
    }
SM_ACTIVATION_PAIRS(X)
#undef X

#define CPU_ALWAYS_INLINE static inline __attribute__((always_inline))

// y = gelu(x), n values; y may be x: cpu_gelu_row. And d = d gelu'(x): cpu_gelu_derivative_row.
#define X(CODE, name, f, slope)                                                                          \
    CPU_ALWAYS_INLINE void cpu_##name##_row(const float *x, int64_t n, float *y) {                       \
        const int64_t whole = n / CPU_VECTOR * CPU_VECTOR;                                               \
        for (int64_t i = 0; i < whole; i += CPU_VECTOR) {                                                \
            *(cpu_vector *)(y + i) = cpu_##name(*(const cpu_vector *)(x + i));                           \
        }                                                                                                \
        if (whole < n) {                                                                                 \
            cpu_store_some(cpu_##name(cpu_load_some(x + whole, n - whole)), n - whole, y + whole);       \
        }                                                                                                \
    }                                                                                                    \
    CPU_ALWAYS_INLINE void cpu_##name##_derivative_row(const float *x, int64_t n, float *d) {            \
        const int64_t whole = n / CPU_VECTOR * CPU_VECTOR;                                               \
        for (int64_t i = 0; i < whole; i += CPU_VECTOR) {                                                \
            *(cpu_vector *)(d + i) *= cpu_##name##_derivative(*(const cpu_vector *)(x + i));             \
        }                                                                                                \
        if (whole < n) {                                                                                 \
            const cpu_vector derivative = cpu_##name##_derivative(cpu_load_some(x + whole, n - whole));  \
            cpu_store_some(cpu_load_some(d + whole, n - whole) * derivative, n - whole, d + whole);      \
        }                                                                                                \
    }
SM_ACTIVATION_LIST(X)
#undef X

// The same by the activation's number.
CPU_ALWAYS_INLINE void cpu_activate_row(sm_activation activation, const float *x, int64_t n, float *y) {
    switch (activation) {
#define X(CODE, name, f, slope) \
    case SM_ACTIVATION_##CODE: cpu_##name##_row(x, n, y); break;
        SM_ACTIVATION_LIST(X)
#undef X
    default: memmove(y, x, (size_t)n * sizeof *y); // none
    }
}

CPU_ALWAYS_INLINE void cpu_activation_slope_row(sm_activation activation, const float *x, int64_t n, float *d) {
    switch (activation) {
#define X(CODE, name, f, slope) \
    case SM_ACTIVATION_##CODE: cpu_##name##_derivative_row(x, n, d); break;
        SM_ACTIVATION_LIST(X)
#undef X
    default: break;
    }
}
