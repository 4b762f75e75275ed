// transpose.h: transposes squares of CPU_VECTOR x CPU_VECTOR floats (or other words of 32 bits) in registers.
//
// A vector is one or more lanes of four words. First the 4x4 squares of words in each lane are transposed, in two
// rounds; then, where there are several lanes, the square of lanes:
//
//     a0 a1 a2 a3        a0 b0 a1 b1  a2 b2 a3 b3        a0 b0 c0 d0
//     b0 b1 b2 b3   ->   c0 d0 c1 d1  c2 d2 c3 d3   ->   a1 b1 c1 d1
//     c0 c1 c2 c3                                        a2 b2 c2 d2
//     d0 d1 d2 d3                                        a3 b3 c3 d3
#pragma once

#include "backends/cpu/common/vector.h"

// Word i of lane l, of a shuffle's first operand and of its second.
#define FIRST(l, i)    (4 * (l) + (i))
#define SECOND(l, i)   (CPU_VECTOR + 4 * (l) + (i))
#define LOW_WORDS(l)   FIRST(l, 0), SECOND(l, 0), FIRST(l, 1), SECOND(l, 1)
#define HIGH_WORDS(l)  FIRST(l, 2), SECOND(l, 2), FIRST(l, 3), SECOND(l, 3)
#define LOW_PAIRS(l)   FIRST(l, 0), FIRST(l, 1), SECOND(l, 0), SECOND(l, 1)
#define HIGH_PAIRS(l)  FIRST(l, 2), FIRST(l, 3), SECOND(l, 2), SECOND(l, 3)
#define FIRST_LANE(l)  FIRST(l, 0), FIRST(l, 1), FIRST(l, 2), FIRST(l, 3)
#define SECOND_LANE(l) SECOND(l, 0), SECOND(l, 1), SECOND(l, 2), SECOND(l, 3)
#if CPU_VECTOR_BYTES == 64
#define EACH_LANE(words) words(0), words(1), words(2), words(3)
#elif CPU_VECTOR_BYTES == 32
#define EACH_LANE(words) words(0), words(1)
#else
#define EACH_LANE(words) words(0)
#endif

// Transposes the 4x4 squares in each lane of four vectors: r[j] becomes, in each lane, word j of the four.
static inline void cpu_transpose_words(cpu_vector r[4]) {
    const cpu_vector low01 = __builtin_shufflevector(r[0], r[1], EACH_LANE(LOW_WORDS));
    const cpu_vector high01 = __builtin_shufflevector(r[0], r[1], EACH_LANE(HIGH_WORDS));
    const cpu_vector low23 = __builtin_shufflevector(r[2], r[3], EACH_LANE(LOW_WORDS));
    const cpu_vector high23 = __builtin_shufflevector(r[2], r[3], EACH_LANE(HIGH_WORDS));
    r[0] = __builtin_shufflevector(low01, low23, EACH_LANE(LOW_PAIRS));
    r[1] = __builtin_shufflevector(low01, low23, EACH_LANE(HIGH_PAIRS));
    r[2] = __builtin_shufflevector(high01, high23, EACH_LANE(LOW_PAIRS));
    r[3] = __builtin_shufflevector(high01, high23, EACH_LANE(HIGH_PAIRS));
}

// Transposes the square of lanes of the vectors r[0], r[4], ..., one a lane.
static inline void cpu_transpose_lanes(SM_UNUSED cpu_vector *r) {
#if CPU_VECTOR_BYTES == 64
    const cpu_vector low01 =
        __builtin_shufflevector(r[0], r[4], FIRST_LANE(0), FIRST_LANE(1), SECOND_LANE(0), SECOND_LANE(1));
    const cpu_vector high01 =
        __builtin_shufflevector(r[0], r[4], FIRST_LANE(2), FIRST_LANE(3), SECOND_LANE(2), SECOND_LANE(3));
    const cpu_vector low23 =
        __builtin_shufflevector(r[8], r[12], FIRST_LANE(0), FIRST_LANE(1), SECOND_LANE(0), SECOND_LANE(1));
    const cpu_vector high23 =
        __builtin_shufflevector(r[8], r[12], FIRST_LANE(2), FIRST_LANE(3), SECOND_LANE(2), SECOND_LANE(3));
    r[0] = __builtin_shufflevector(low01, low23, FIRST_LANE(0), FIRST_LANE(2), SECOND_LANE(0), SECOND_LANE(2));
    r[4] = __builtin_shufflevector(low01, low23, FIRST_LANE(1), FIRST_LANE(3), SECOND_LANE(1), SECOND_LANE(3));
    r[8] = __builtin_shufflevector(high01, high23, FIRST_LANE(0), FIRST_LANE(2), SECOND_LANE(0), SECOND_LANE(2));
    r[12] = __builtin_shufflevector(high01, high23, FIRST_LANE(1), FIRST_LANE(3), SECOND_LANE(1), SECOND_LANE(3));
#elif CPU_VECTOR_BYTES == 32
    const cpu_vector low = __builtin_shufflevector(r[0], r[4], FIRST_LANE(0), SECOND_LANE(0));
    const cpu_vector high = __builtin_shufflevector(r[0], r[4], FIRST_LANE(1), SECOND_LANE(1));
    r[0] = low;
    r[4] = high;
#else
#endif
}

// r[j] becomes word j of all.
static inline __attribute__((always_inline)) void cpu_transpose_square(cpu_vector r[CPU_VECTOR]) {
#pragma GCC unroll 4
    for (int i = 0; i < CPU_VECTOR; i += 4) {
        cpu_transpose_words(r + i);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        cpu_transpose_lanes(r + j);
    }
}

// to[j * to_ld + i] = from[i * ld + j], for i, j < CPU_VECTOR.
static inline void cpu_transpose(const float *from, int64_t ld, float *to, int64_t to_ld) {
    cpu_vector r[CPU_VECTOR];
#pragma GCC unroll 16
    for (int i = 0; i < CPU_VECTOR; i++) {
        r[i] = *(const cpu_vector *)(from + i * ld);
    }
    cpu_transpose_square(r);
#pragma GCC unroll 16
    for (int j = 0; j < CPU_VECTOR; j++) {
        *(cpu_vector *)(to + j * to_ld) = r[j];
    }
}

#undef FIRST
#undef SECOND
#undef LOW_WORDS
#undef HIGH_WORDS
#undef LOW_PAIRS
#undef HIGH_PAIRS
#undef FIRST_LANE
#undef SECOND_LANE
#undef EACH_LANE
