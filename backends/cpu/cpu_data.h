// cpu_data.h: the type of a plan's data (activations, their gradients, the matrices' working copies) as the kernels
// see it. A kernel file is compiled for float and, with -DCPU_DATA_BF16, for bf16: the upper half of a float's bits.
//
// Arithmetic is float in both: an element is widened when it is read, and rounded to nearest even when it is
// stored. Of float both are nothing at all. Parameters, their gradients, statistics and losses are float always.
#ifndef STEPMARK_CPU_DATA_H
#define STEPMARK_CPU_DATA_H

#include <stdint.h>
#include <string.h>

#include "bf16.h"

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#if defined(CPU_DATA_BF16)

typedef uint16_t cpu_data;

static inline float cpu_widen(cpu_data x) { return sm_bf16_widen(x); }
static inline cpu_data cpu_round(float x) { return sm_bf16_round(x); }

// n elements as floats: in `room`, or where they are.
static inline const float *cpu_widened(const cpu_data *x, int64_t n, float *room) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        room[i] = cpu_widen(x[i]);
    }
    return room;
}

// Stores n floats.
static inline void cpu_round_row(const float *from, int64_t n, cpu_data *to) {
    int64_t i = 0;
#if defined(__AVX512BF16__)
    for (; i + 16 <= n; i += 16) {
        const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_loadu_ps(from + i));
        memcpy(to + i, &rounded, sizeof rounded);
    }
#endif
#pragma omp simd
    for (int64_t k = i; k < n; k++) {
        to[k] = cpu_round(from[k]);
    }
}

#else

typedef float cpu_data;

static inline float cpu_widen(cpu_data x) { return x; }
static inline cpu_data cpu_round(float x) { return x; }
static inline const float *cpu_widened(const cpu_data *x, int64_t n, float *room) {
    (void)n;
    (void)room;
    return x;
}

#endif

#endif
