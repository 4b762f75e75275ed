// data.h: the type of a plan's data (activations, their gradients, the matrices' working copies) as the kernels
// see it. A kernel file is compiled for float and, with -DCPU_DATA_BF16 and -DCPU_DATA_F16, for those two.
//
// Arithmetic is always float: reading an element widens it, storing rounds to nearest even; for float both do nothing.
// Parameters, their gradients, statistics and losses are always float.
#pragma once

#include "f16.h"

#if defined(CPU_DATA_BF16) || defined(CPU_DATA_F16)
#define CPU_DATA_NARROW
#endif

#include "backends/cpu/common/features.h"

#if defined(CPU_DATA_NARROW)

typedef uint16_t cpu_data;

#if defined(CPU_DATA_BF16)
static inline float cpu_widen(cpu_data x) { return sm_bf16_widen(x); }
static inline cpu_data cpu_round(float x) { return sm_bf16_round(x); }
#else
static inline float cpu_widen(cpu_data x) { return sm_f16_widen(x); }
static inline cpu_data cpu_round(float x) { return sm_f16_round(x); }
#endif

// Elements that the two functions below process at a time with special instructions; the compiler's loops process the
// rest, which is empty for suitable constant n.
#if defined(__AVX512F__)
enum { CPU_WIDENED_AT_ONCE = 16, CPU_ROUNDED_AT_ONCE = 16 };
#else
enum { CPU_WIDENED_AT_ONCE = 8, CPU_ROUNDED_AT_ONCE = 8 };
#endif

// n elements as floats: in `room`, or in place.
static inline const float *cpu_widened(const cpu_data *x, int64_t n, float *room) {
    int64_t whole = 0;
#if defined(CPU_DATA_BF16) && defined(__AVX512F__)
    whole = n / CPU_WIDENED_AT_ONCE * CPU_WIDENED_AT_ONCE;
    for (int64_t i = 0; i < whole; i += CPU_WIDENED_AT_ONCE) {
        const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(x + i)));
        _mm512_storeu_si512((void *)(room + i), _mm512_slli_epi32(wide, 16));
    }
#elif defined(CPU_DATA_F16) && defined(__AVX512F__)
    whole = n / CPU_WIDENED_AT_ONCE * CPU_WIDENED_AT_ONCE;
    for (int64_t i = 0; i < whole; i += CPU_WIDENED_AT_ONCE) {
        _mm512_storeu_ps(room + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(x + i))));
    }
#elif defined(CPU_DATA_F16) && defined(__F16C__)
    whole = n / CPU_WIDENED_AT_ONCE * CPU_WIDENED_AT_ONCE;
    for (int64_t i = 0; i < whole; i += CPU_WIDENED_AT_ONCE) {
        _mm256_storeu_ps(room + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + i))));
    }
#elif defined(CPU_DATA_F16) && defined(__aarch64__)
    whole = n / CPU_WIDENED_AT_ONCE * CPU_WIDENED_AT_ONCE;
    for (int64_t i = 0; i < whole; i += CPU_WIDENED_AT_ONCE) {
        const float16x8_t narrow = vreinterpretq_f16_u16(vld1q_u16(x + i));
        vst1q_f32(room + i, vcvt_f32_f16(vget_low_f16(narrow)));
        vst1q_f32(room + i + 4, vcvt_high_f32_f16(narrow));
    }
#endif
#pragma omp simd
    for (int64_t i = whole; i < n; i++) {
        room[i] = cpu_widen(x[i]);
    }
    return room;
}

// Stores n floats.
static inline void cpu_round_row(const float *from, int64_t n, cpu_data *to) {
    int64_t whole = 0;
#if defined(CPU_DATA_BF16) && defined(__AVX512BF16__)
    whole = n / CPU_ROUNDED_AT_ONCE * CPU_ROUNDED_AT_ONCE;
    for (int64_t i = 0; i < whole; i += CPU_ROUNDED_AT_ONCE) {
        const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_loadu_ps(from + i));
        memcpy(to + i, &rounded, sizeof rounded);
    }
#elif defined(CPU_DATA_F16) && defined(__AVX512F__)
    whole = n / CPU_ROUNDED_AT_ONCE * CPU_ROUNDED_AT_ONCE;
    for (int64_t i = 0; i < whole; i += CPU_ROUNDED_AT_ONCE) {
        const __m256i rounded = _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
        _mm256_storeu_si256((__m256i *)(void *)(to + i), rounded);
    }
#elif defined(CPU_DATA_F16) && defined(__F16C__)
    whole = n / CPU_ROUNDED_AT_ONCE * CPU_ROUNDED_AT_ONCE;
    for (int64_t i = 0; i < whole; i += CPU_ROUNDED_AT_ONCE) {
        const __m128i rounded = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(to + i), rounded);
    }
#elif defined(CPU_DATA_F16) && defined(__aarch64__)
    whole = n / CPU_ROUNDED_AT_ONCE * CPU_ROUNDED_AT_ONCE;
    for (int64_t i = 0; i < whole; i += CPU_ROUNDED_AT_ONCE) {
        const float16x4_t low = vcvt_f16_f32(vld1q_f32(from + i));
        vst1q_u16(to + i, vreinterpretq_u16_f16(vcvt_high_f16_f32(low, vld1q_f32(from + i + 4))));
    }
#elif defined(CPU_DATA_BF16) && defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
    whole = n / CPU_ROUNDED_AT_ONCE * CPU_ROUNDED_AT_ONCE;
    for (int64_t i = 0; i < whole; i += CPU_ROUNDED_AT_ONCE) {
        const bfloat16x8_t low = vcvtq_low_bf16_f32(vld1q_f32(from + i));
        vst1q_u16(to + i, vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(low, vld1q_f32(from + i + 4))));
    }
#endif
#pragma omp simd
    for (int64_t i = whole; i < n; i++) {
        to[i] = cpu_round(from[i]);
    }
}

// The place to gather n results as floats before cpu_store_gathered stores them: `room`, or their destination.
static inline float *cpu_gathered(SM_UNUSED cpu_data *to, float *room) { return room; }
static inline void cpu_store_gathered(const float *from, int64_t n, cpu_data *to) { cpu_round_row(from, n, to); }

#else

typedef float cpu_data;

static inline float cpu_widen(cpu_data x) { return x; }
static inline cpu_data cpu_round(float x) { return x; }
static inline const float *cpu_widened(const cpu_data *x, SM_UNUSED int64_t n, SM_UNUSED float *room) { return x; }
static inline void cpu_round_row(const float *from, int64_t n, cpu_data *to) {
    memcpy(to, from, (size_t)n * sizeof *to);
}
static inline float *cpu_gathered(cpu_data *to, SM_UNUSED float *room) { return to; }
static inline void cpu_store_gathered(SM_UNUSED const float *from, SM_UNUSED int64_t n, SM_UNUSED cpu_data *to) {}

#endif

// Copies n elements, bypassing the caches for whole lines: for results gathered, a row or block at a time, in memory
// that stays in the L1 cache.
static inline void cpu_store_past_caches(const cpu_data *from, int64_t n, cpu_data *to) {
    int64_t i = 0;
#if defined(__x86_64__)
    enum { LINE_ELEMS = 64 / sizeof *to };
    for (; (uintptr_t)to % 64 == 0 && i + LINE_ELEMS <= n; i += LINE_ELEMS) {
#if defined(__AVX512F__)
        _mm512_stream_si512((void *)(to + i), _mm512_loadu_si512((const void *)(from + i)));
#else
        for (int part = 0; part < 4; part++) {
            const __m128i quarter = _mm_loadu_si128((const __m128i *)(const void *)(from + i) + part);
            _mm_stream_si128((__m128i *)(void *)(to + i) + part, quarter);
        }
#endif
    }
#endif
    memcpy(to + i, from + i, (size_t)(n - i) * sizeof *to);
}

// Makes stores that bypassed the caches visible to threads that pass the next barrier.
static inline void cpu_end_streams(void) {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

// Loops with much arithmetic for each element work block by block, and prefetch one block at a time: the processor's
// own look-ahead covers few cache lines there, and many prefetches at once stall.
enum { CPU_BLOCK_ELEMS = 64, CPU_AHEAD_ELEMS = 4096 / sizeof(cpu_data) };
static inline void cpu_ask_for_block(const cpu_data *block) {
    enum { LINE_ELEMS = 64 / sizeof *block };
    for (int i = 0; i < CPU_BLOCK_ELEMS; i += LINE_ELEMS) {
        __builtin_prefetch(block + i, 0, 3);
    }
}
