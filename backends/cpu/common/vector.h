// vector.h: the compiler's vector types with the instruction set's width, at any float address.
#pragma once

#include <stdint.h>

#include "backends/cpu/common/features.h"

enum { CPU_VECTOR = CPU_VECTOR_BYTES / 4 }; // floats
// In two steps: gcc 14 for 64-bit Arm fails where a function takes a vector that was given both attributes at once.
typedef float cpu_whole_vector __attribute__((vector_size(CPU_VECTOR_BYTES), may_alias));
typedef int32_t cpu_whole_int_vector __attribute__((vector_size(CPU_VECTOR_BYTES), may_alias));
typedef cpu_whole_vector cpu_vector __attribute__((aligned(4)));
typedef cpu_whole_int_vector cpu_int_vector __attribute__((aligned(4)));

// The sum of all lanes.
static inline float cpu_add_lanes(cpu_vector v) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)v);
#elif CPU_NEON
    return vaddvq_f32((float32x4_t)v);
#else
    float sum = 0;
    for (int lane = 0; lane < CPU_VECTOR; lane++) {
        sum += v[lane];
    }
    return sum;
#endif
}

#if CPU_NEON
#define CPU_ADDS_IN_PLACE 1
// *sum += factor * row, in the register where *sum is: GCC 12 else copies between registers.
static inline __attribute__((always_inline)) void cpu_add_in_place(cpu_vector *sum, float factor, cpu_vector row) {
    __asm__("fmla %0.4s, %1.4s, %2.s[0]" : "+w"(*sum) : "w"(row), "w"(factor));
}
#else
#define CPU_ADDS_IN_PLACE 0
#endif

// Lanes of a where the comparison `where` is true, otherwise of b.
static inline cpu_vector cpu_select(cpu_int_vector where, cpu_vector a, cpu_vector b) {
    return (cpu_vector)((where & (cpu_int_vector)a) | (~where & (cpu_int_vector)b));
}

// table[i] for each lane's i, of which the lowest four bits count.
static inline cpu_vector cpu_look_up(const float table[16], cpu_int_vector i) {
#if defined(__AVX512F__)
    return (cpu_vector)_mm512_permutexvar_ps((__m512i)i, _mm512_loadu_ps(table));
#elif defined(__AVX2__)
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), (__m256i)i);
    const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), (__m256i)i);
    return (cpu_vector)_mm256_blendv_ps(low, high, (__m256)(i << 28));
#elif CPU_NEON
    const uint8x16x4_t bytes = vld1q_u8_x4((const uint8_t *)table);
    const uint32x4_t first = vmulq_n_u32(vandq_u32((uint32x4_t)i, vdupq_n_u32(15)), 0x04040404);
    return (cpu_vector)vqtbl4q_u8(bytes, (uint8x16_t)vaddq_u32(first, vdupq_n_u32(0x03020100)));
#else
    cpu_vector found;
    for (int lane = 0; lane < CPU_VECTOR; lane++) {
        found[lane] = table[i[lane] & 15];
    }
    return found;
#endif
}
