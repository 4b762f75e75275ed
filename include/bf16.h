// bf16.h: the upper half of an f32: its sign, its 8 exponent bits and 7 of its fraction's.
// Range of f32, precision of 2^-8 (Kalamkar et al. 2019, "A study of BFLOAT16 for deep learning training").
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

// To nearest, ties to even. Adding just under half of the last place that is kept, and that place's own bit,
// carries exactly when it should, into the exponent too. A NaN stays one, by its quiet bit.
static inline uint16_t sm_bf16_round(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
        return (uint16_t)(bits >> 16 | 0x40u);
    }
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

#endif
