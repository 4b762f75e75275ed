// f16.h: IEEE binary16: a sign, 5 exponent bits (bias 15) and 10 of the fraction. Precision of 2^-11, numbers of
// 2^-24 to 65504: gradients need scaling to stay within (Micikevicius et al. 2018, "Mixed precision training").
#ifndef STEPMARK_F16_H
#define STEPMARK_F16_H

#include <stdint.h>
#include <string.h>

// Exact.
static inline float sm_f16_widen(uint16_t value) {
    const uint32_t sign = (uint32_t)(value & 0x8000u) << 16;
    const uint32_t magnitude = value & 0x7FFFu;
    uint32_t bits = (magnitude << 13) + ((127u - 15u) << 23);
    float wide;
    if (magnitude >= 0x7C00u) {
        bits = magnitude << 13 | 0x7F800000u; // infinity and NaN keep the largest exponent
    }
    if (magnitude < 0x0400u) {
        wide = (float)magnitude * 0x1p-24f; // zero and subnormals
        memcpy(&bits, &wide, sizeof bits);
    }
    bits |= sign;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

// To nearest, ties to even; infinity from 65520 on. A NaN stays one, by its quiet bit.
static inline uint16_t sm_f16_round(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    bits &= 0x7FFFFFFFu;
    if (bits > 0x7F800000u) {
        return (uint16_t)(sign | 0x7E00u | (bits >> 13 & 0x3FFu));
    }
    if (bits >= 0x47800000u) { // 65536
        return sign | 0x7C00u;
    }
    if (bits < 0x38800000u) { // 2^-14: adding 0.5 leaves a multiple of 2^-24 in the fraction's last bits
        float shifted;
        memcpy(&shifted, &bits, sizeof shifted);
        shifted += 0.5f;
        memcpy(&bits, &shifted, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3F000000u));
    }
    // As sm_bf16_round; from 65520 on it carries into infinity.
    return (uint16_t)(sign | ((bits - ((127u - 15u) << 23) + 0xFFFu + (bits >> 13 & 1u)) >> 13));
}

#endif
