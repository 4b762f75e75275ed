// math.h: exp as straight-line code that compilers vectorise, and Philox a row at a time. (GELU and similar functions:
// common/gate.h.) NaN stays NaN everywhere: a wrong loss must show.
#pragma once

#include <math.h>

#include "philox.h"

// e^x, with a relative error below 2e-7. Below -86.9 the result is 0: it would be nearly denormal. Beyond ln(FLT_MAX)
// it overflows to infinity as it should. Write x = n ln2 + r, |r| <= ln2/2; then e^x = 2^n e^r, where 2^n is written
// into the exponent bits and e^r is a polynomial: of all with 1 + r + ... + r^6 the one with the smallest relative
// error there, 3e-9. ln2 is subtracted in two pieces (Cody and Waite 1980), the first with few enough bits that n times
// it is exact.
static inline float cpu_exp(float x) {
    const float lowest = -86.9f;
    const float highest = 88.8f;
    const float round = 12582912.0f; // 1.5 * 2^23: adding it leaves round(n) in the low mantissa bits
    float clamped = x < lowest ? lowest : x;
    clamped = clamped > highest ? highest : clamped;
    float shifted = clamped * 1.44269504f + round;
    float n = shifted - round;
    float r = clamped - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 0.0013814539f;
    p = p * r + 0.0083687454f;
    p = p * r + 0.041668389f;
    p = p * r + 0.16666521f;
    p = p * r + 0.49999994f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits - 0x4B400000u + 126) << 23; // half of 2^n: 2^128 would overflow the exponent bits
    float power;
    memcpy(&power, &bits, sizeof power);
    return x < lowest ? 0.0f : p * power * 2.0f;
}

// 2^x for -127 <= x < 127.5 with a relative error below 1e-7, in fewer instructions than cpu_exp. Write x = n + r, |r|
// <= 1/2; 2^r = 1 + r q(r), where q interpolates at Chebyshev's nodes. The constant leaves n + 127 in the low mantissa
// bits, from where it is shifted into the exponent's place. From -126.5 down that and the result (denormal) are 0.
static inline float cpu_exp2_within(float x) {
    const float round = 12582912.0f + 127.0f; // 1.5 * 2^23 + the exponent's bias
    float shifted = x + round;
    float r = x - (shifted - round);
    float p = 1.54531634e-4f;
    p = p * r + 1.33908633e-3f;
    p = p * r + 9.61808302e-3f;
    p = p * r + 5.55035695e-2f;
    p = p * r + 2.40226507e-1f;
    p = p * r + 6.93147182e-1f;
    p = p * r + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits <<= 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

// The same for any x < 127.5, for a softmax whose scores contain the factor log2(e).
static inline float cpu_exp2(float x) { return cpu_exp2_within(x < -127.0f ? -127.0f : x); }

// Cosine and sine of a phase, in 2^-32 of a turn: Taylor series within an eighth of a turn of the nearest quarter.
static inline float cpu_cos_sin(uint32_t phase, float *sine) {
    const uint32_t quarter = (phase + 0x20000000u) >> 30;
    const float a = (float)(int32_t)(phase - (quarter << 30)) * (6.28318530718f * 0x1p-32f);
    const float a2 = a * a;
    const float s = a + a * a2 * (-1.0f / 6 + a2 * (1.0f / 120 + a2 * (-1.0f / 5040 + a2 / 362880)));
    const float c = 1.0f + a2 * (-0.5f + a2 * (1.0f / 24 + a2 * (-1.0f / 720 + a2 / 40320)));
    const float along = quarter & 1 ? s : c;
    const float across = quarter & 1 ? c : s;
    *sine = quarter & 2 ? -across : across;
    return (quarter + 1) & 2 ? -along : along;
}

// The largest of n values, ignoring NaN. Lanes are explicit, as compilers do not vectorise a maximum because of NaN.
static inline float cpu_largest(const float *x, int64_t n) {
    enum { LANES = 64 };
    float lane[LANES];
    for (int i = 0; i < LANES; i++) {
        lane[i] = -INFINITY;
    }
    int64_t done = 0;
    for (; done + LANES <= n; done += LANES) {
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            lane[i] = x[done + i] > lane[i] ? x[done + i] : lane[i];
        }
    }
    for (; done < n; done++) {
        lane[0] = x[done] > lane[0] ? x[done] : lane[0];
    }
    for (int width = LANES / 2; width > 0; width /= 2) {
#pragma omp simd
        for (int i = 0; i < width; i++) {
            lane[i] = lane[width + i] > lane[i] ? lane[width + i] : lane[i];
        }
    }
    return lane[0];
}

enum { CPU_PHILOX_LANES = 32 }; // blocks computed together

// Words 0..3 of the CPU_PHILOX_LANES Philox blocks (first_block + i, step), in order.
static inline void cpu_philox_words(uint64_t key, uint64_t step, uint64_t first_block,
                                    uint32_t words[4 * CPU_PHILOX_LANES]) {
    uint32_t c0[CPU_PHILOX_LANES], c1[CPU_PHILOX_LANES], c2[CPU_PHILOX_LANES], c3[CPU_PHILOX_LANES];
    uint32_t k0 = (uint32_t)key;
    uint32_t k1 = (uint32_t)(key >> 32);
    for (int i = 0; i < CPU_PHILOX_LANES; i++) {
        uint64_t block = first_block + (uint64_t)i;
        c0[i] = (uint32_t)block;
        c1[i] = (uint32_t)(block >> 32);
        c2[i] = (uint32_t)step;
        c3[i] = (uint32_t)(step >> 32);
    }
    for (int round = 0; round < 10; round++) {
#pragma omp simd
        for (int i = 0; i < CPU_PHILOX_LANES; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c0[i];
            uint64_t p1 = (uint64_t)0xCD9E8D57u * c2[i];
            c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c1[i] = (uint32_t)p1;
            c3[i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < CPU_PHILOX_LANES; i++) {
        words[4 * i] = c0[i];
        words[4 * i + 1] = c1[i];
        words[4 * i + 2] = c2[i];
        words[4 * i + 3] = c3[i];
    }
}

// Dropout for a tensor (the rule is in philox.h).
typedef struct {
    uint64_t key;
    uint64_t step;
    uint32_t threshold;
    float scale; // of kept elements: 1/(1 - p)
} cpu_dropout_rule;

static inline cpu_dropout_rule cpu_dropout_make(double p, uint64_t key, const uint32_t *rng_step) {
    cpu_dropout_rule rule = {.key = key, .threshold = sm_dropout_threshold(p), .scale = (float)(1.0 / (1.0 - p))};
    if (rng_step != NULL) {
        rule.step = rng_step[0] | (uint64_t)rng_step[1] << 32;
    }
    return rule;
}

// The factors of elements first .. first+n-1 of the tensor: 0 or scale.
static inline void cpu_dropout_factors(const cpu_dropout_rule *rule, uint64_t first, int64_t n, float *factors) {
    uint32_t words[4 * CPU_PHILOX_LANES];
    uint64_t block = first / 4;
    int64_t skip = (int64_t)(first % 4);
    for (int64_t done = 0; done < n;) {
        cpu_philox_words(rule->key, rule->step, block, words);
        int64_t count = 4 * CPU_PHILOX_LANES - skip;
        count = count < n - done ? count : n - done;
#pragma omp simd
        for (int64_t i = 0; i < count; i++) {
            factors[done + i] = words[skip + i] >= rule->threshold ? rule->scale : 0.0f;
        }
        done += count;
        block += CPU_PHILOX_LANES;
        skip = 0;
    }
}
