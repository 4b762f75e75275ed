// f16.h: the two formats of 16 bits, and the two of 8.
//
// f16: IEEE binary16: a sign, 5 exponent bits (bias 15) and 10 bits of the fraction. Precision 2^-11, magnitudes from
// 2^-24 to 65504: gradients are scaled to stay in this range (Micikevicius et al. 2018, "Mixed precision training").
// bf16: the upper half of an f32: the sign, the 8 exponent bits and 7 bits of the fraction. It has the range of f32 and
// a precision of 2^-8 (Kalamkar et al. 2019, "A study of BFLOAT16 for deep learning training").
// e4m3, e5m2: 4 and 3, or 5 and 2, bits of exponent and fraction (Micikevicius et al. 2022, "FP8 formats for deep
// learning"). e5m2 is the upper half of an f16; e4m3 has no infinity, and its largest number is 448. Magnitudes from
// 2^-9 and 2^-16. Larger numbers than the largest become that: 448 and 57344.
#pragma once

#include <stdint.h>
#include <string.h>

static inline float sm_f16_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t sm_f16_bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// Exact.
static inline float sm_bf16_widen(uint16_t value) { return sm_f16_of_bits((uint32_t)value << 16); }

// Rounds to nearest, ties to even. The sum adds just under half of the last kept place, plus that place's bit, so it carries
// exactly when it should, also into the exponent. A NaN stays a NaN: its quiet bit is set.
static inline uint16_t sm_bf16_round(float value) {
    const uint32_t bits = sm_f16_bits_of(value);
    return (bits & 0x7FFFFFFFu) > 0x7F800000u ? (uint16_t)(bits >> 16 | 0x40u)
                                              : (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

// Exact. (It computes all cases and selects one, so that loops over elements vectorise.)
static inline float sm_f16_widen(uint16_t value) {
    const uint32_t magnitude = value & 0x7FFFu;
    const uint32_t sign = (uint32_t)(value & 0x8000u) << 16;
    const uint32_t subnormal = sm_f16_bits_of((float)(int32_t)magnitude * 0x1p-24f); // zero included
    const uint32_t normal = (magnitude << 13) + ((127u - 15u) << 23);
    const uint32_t infinite = magnitude << 13 | 0x7F800000u; // NaN included
    return sm_f16_of_bits(sign | (magnitude < 0x0400u ? subnormal : magnitude < 0x7C00u ? normal : infinite));
}

// Rounds to nearest, ties to even; 65520 and above become infinity. A NaN stays a NaN: its quiet bit is set.
static inline uint16_t sm_f16_round(float value) {
    const uint32_t bits = sm_f16_bits_of(value);
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    const uint32_t sign = bits >> 16 & 0x8000u;
    // Below 2^-14, adding 0.5 puts a multiple of 2^-24 into the last bits of the fraction.
    const uint32_t subnormal = sm_f16_bits_of(sm_f16_of_bits(magnitude) + 0.5f) - 0x3F000000u;
    // As sm_bf16_round; 65520 and above carry into infinity.
    const uint32_t normal = (magnitude - ((127u - 15u) << 23) + 0xFFFu + (magnitude >> 13 & 1u)) >> 13;
    const uint32_t not_a_number = 0x7E00u | (magnitude >> 13 & 0x3FFu);
    const uint32_t large = magnitude > 0x7F800000u ? not_a_number : 0x7C00u;
    return (uint16_t)(sign | (magnitude < 0x38800000u ? subnormal : magnitude < 0x47800000u ? normal : large));
}

// Exact. 0x7F is not a number.
static inline float sm_e4m3_widen(uint8_t value) {
    const uint32_t magnitude = value & 0x7Fu;
    const float wide = magnitude < 0x7F ? sm_f16_of_bits((magnitude + (120u << 3)) << 20) : sm_f16_of_bits(0x7FC00000u);
    const float subnormal = (float)(int32_t)magnitude * 0x1p-9f; // zero included
    return sm_f16_of_bits(sm_f16_bits_of(magnitude < 8 ? subnormal : wide) | (uint32_t)(value & 0x80u) << 24);
}

static inline float sm_e5m2_widen(uint8_t value) { return sm_f16_widen((uint16_t)(value << 8)); }

// Rounds to nearest, ties to even, to a format with `digits` bits of the fraction, whose least normal number is 2^least
// and whose largest number has the bits `largest` in f32.
static inline uint8_t sm_fp8_round(float value, int digits, int least, uint32_t largest) {
    const uint32_t bits = sm_f16_bits_of(value) & 0x7FFFFFFFu;
    const uint32_t magnitude = bits < largest ? bits : largest;
    const uint32_t start = (uint32_t)(127 + least) << 23; // of the normal numbers
    // Adding this puts a multiple of the least number into the last bits of the fraction.
    const uint32_t shift = (uint32_t)(127 + least - digits + 23) << 23;
    const uint32_t subnormal = sm_f16_bits_of(sm_f16_of_bits(magnitude) + sm_f16_of_bits(shift)) - shift;
    const uint32_t last = magnitude >> (23 - digits) & 1u;
    const uint32_t normal = (magnitude - start + (1u << 23) + (1u << (22 - digits)) - 1 + last) >> (23 - digits);
    const uint32_t rounded = bits > 0x7F800000u ? 0x7Fu : magnitude < start ? subnormal : normal;
    return (uint8_t)(rounded | (sm_f16_bits_of(value) >> 24 & 0x80u));
}

static inline uint8_t sm_e4m3_round(float value) { return sm_fp8_round(value, 3, -6, 0x43E00000u); }
static inline uint8_t sm_e5m2_round(float value) { return sm_fp8_round(value, 2, -14, 0x47600000u); }
