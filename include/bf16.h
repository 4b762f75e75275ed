// bf16.h: the upper half of an f32: the sign, the 8 exponent bits and 7 bits of the fraction. It has the range of f32
// and a precision of 2^-8 (Kalamkar et al. 2019, "A study of BFLOAT16 for deep learning training").
#ifndef STEPMARK_BF16_H
#define STEPMARK_BF16_H

#include <stdint.h>
#include <string.h>

// Exact.
static inline float sm_bf16_widen(uint16_t value) {
    uint32_t bits = (uint32_t)value << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

// To nearest, ties to even. The sum adds just under half of the last kept place, plus that place's bit, so it carries
// exactly when it should, also into the exponent. A NaN stays a NaN: its quiet bit is set.
static inline uint16_t sm_bf16_round(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
        return (uint16_t)(bits >> 16 | 0x40u);
    }
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

#endif
