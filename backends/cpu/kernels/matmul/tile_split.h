// tile_split.h: the tile of float products in AMX's tile registers, of operands that are split: the
// sum of the six largest of nine products of parts. The three that are left out are below 2^-24 of the product.
//
// Four registers are sums, of two registers' rows by two registers' columns. In each step every product of parts
// shares a part with the one before it, so that seven pairs of registers are loaded for six products:
//
//     a     large   large   medium  medium  small   large
//     b     small   medium  medium  large   large   large
#pragma once

#include "backends/cpu/common/amx.h"
#include "backends/cpu/common/ask.h"
#include "backends/cpu/common/transpose.h"

// --- operands -------------------------------------------------------------------------------------
//
// Each number of an operand is split into three of bf16, as AMX's tile registers take them.
//
// x = large + medium + small: the bf16 nearest to x, the one nearest to what is left, and what is left then, which is a
// bf16 itself: 24 significant bits are three times eight (Henry, Tang and Heinecke 2019, "Leveraging the bfloat16
// artificial intelligence datatype for higher-precision computations"). Sizes beyond bf16's largest number are left
// to the medium part. A part below 2^-126 counts as zero.
//
// The parts of NaN make every sum NaN. An infinite number has the parts 1, 0 and infinity, with its sign: the small
// part is multiplied by the large part of the other operand alone, whose sign and zeros are that
// operand's, so that sums are infinite or NaN exactly where fp32's are. In another part infinity would also meet the
// medium and small parts of numbers, which may be zero or of the other sign: NaN.
//
// A register is 16 rows or columns by 32 k: its word j of a row of a, its row j of b, has k = j in the lower half and
// k = j + 16 in the upper. So both operands are packed alike, of two squares of 16 k:
//
//                 a                          b
//     along k     woven                      transposed, woven
//     across      transposed, woven          woven
//
// The packed data of a panel (rows or columns of two registers) lies step by step of 32 k, in each step part by part.

enum {
    CPU_SPLIT_PARTS = 3,
    CPU_SPLIT_LINES = 16,                                // rows or columns of a register
    CPU_SPLIT_K = 32,                                    // of a register: a step
    CPU_SPLIT_WORDS = 256,                               // of a register: pairs of k
    CPU_SPLIT_WIDTH = 2,                                 // registers of a panel
    CPU_SPLIT_PANEL = CPU_SPLIT_WIDTH * CPU_SPLIT_LINES, // its rows or columns
    CPU_SPLIT_PART = CPU_SPLIT_WIDTH * CPU_SPLIT_WORDS,  // words of a part of a step
    CPU_SPLIT_STEP = CPU_SPLIT_PARTS * CPU_SPLIT_PART,   // of a step
};

typedef uint32_t cpu_split_word;

// Packed as panels: rows of a, or columns of b.
typedef struct {
    const float *from;
    int64_t ld;
    bool across;     // its elements are contiguous across k
    bool transposed; // on the way: a across k, b along k
    int64_t n;       // rows of a, columns of b; what is lacking to whole panels is zero
    int64_t depth;   // of k, likewise
    int64_t n_steps;
    cpu_split_word *to;
    int64_t panel; // words from one to the next
} cpu_splitting;

// The bf16 nearest to each finite float of less than bf16's largest number.
static inline __m512 cpu_split_nearest(__m512 x) {
    const __m512i half = _mm512_set1_epi32(0x8000);
    const __m512i upper = _mm512_set1_epi32((int)0xFFFF0000);
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), half), upper));
}

// Upper halves of the words of two vectors: low's in the lower half.
static inline __m512i cpu_split_weave(__m512 low, __m512 high) {
    return _mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(low), 16), _mm512_castps_si512(high));
}

typedef struct {
    __m512 large, medium, small;
} cpu_split_parts;

enum { CPU_SPLIT_LEAST_MAGNITUDE = 2 }; // of the two operands of _mm512_range_ps; the first's sign

static inline cpu_split_parts cpu_split_parts_of(__m512 x) {
    const __m512 large = cpu_split_nearest(_mm512_range_ps(x, _mm512_set1_ps(0x1.FEp127f), CPU_SPLIT_LEAST_MAGNITUDE));
    const __m512 left = _mm512_sub_ps(x, large);
    const __m512 medium = cpu_split_nearest(left);
    return (cpu_split_parts){large, medium, _mm512_sub_ps(left, medium)};
}

// Mends the parts of the infinite numbers of x.
static inline void cpu_split_infinite(__m512 x, cpu_split_parts *of) {
    enum { INFINITE = 0x18 };
    const __mmask16 infinite = _mm512_fpclass_ps_mask(x, INFINITE);
    of->large = _mm512_mask_range_ps(of->large, infinite, x, _mm512_set1_ps(1), CPU_SPLIT_LEAST_MAGNITUDE);
    of->medium = _mm512_mask_mov_ps(of->medium, infinite, _mm512_setzero_ps());
    of->small = _mm512_mask_mov_ps(of->small, infinite, x);
}

// A row of a register, in each of the parts: its 16 lower k, its 16 upper.
static inline void cpu_split_row(__m512 low, __m512 high, cpu_split_word *to) {
    cpu_split_parts l = cpu_split_parts_of(low);
    cpu_split_parts h = cpu_split_parts_of(high);
    const __mmask16 not_finite = _mm512_cmp_ps_mask(l.small, h.small, _CMP_UNORD_Q);
    if (__builtin_expect(not_finite != 0, 0)) {
        cpu_split_infinite(low, &l);
        cpu_split_infinite(high, &h);
    }
    _mm512_storeu_si512(to, cpu_split_weave(l.large, h.large));
    _mm512_storeu_si512(to + CPU_SPLIT_PART, cpu_split_weave(l.medium, h.medium));
    _mm512_storeu_si512(to + 2 * CPU_SPLIT_PART, cpu_split_weave(l.small, h.small));
}

// One whole register, of lines ld apart; the upper 16 k are `upper` elements further on.
static inline void cpu_split_whole(const float *from, int64_t ld, int64_t upper, bool transposed, cpu_split_word *to) {
    float room[2 * CPU_SPLIT_LINES * CPU_SPLIT_LINES];
    if (transposed) {
        cpu_transpose(from, ld, room, CPU_SPLIT_LINES);
        cpu_transpose(from + upper, ld, room + CPU_SPLIT_WORDS, CPU_SPLIT_LINES);
        from = room;
        ld = CPU_SPLIT_LINES;
        upper = CPU_SPLIT_WORDS;
    }
#pragma GCC unroll 4
    for (int i = 0; i < CPU_SPLIT_LINES; i++) {
        cpu_split_row(_mm512_loadu_ps(from + i * ld), _mm512_loadu_ps(from + i * ld + upper), to + i * CPU_SPLIT_LINES);
    }
}

// Register `index` of all panels, in one step.
static inline void cpu_split_register(const cpu_splitting *s, int64_t index, int64_t step) {
    float room[CPU_SPLIT_LINES * CPU_SPLIT_K];
    const int64_t first = index * CPU_SPLIT_LINES;
    const int64_t n = s->n - first;
    const int64_t depth = s->depth - step * CPU_SPLIT_K;
    const float *from = s->from + (s->across ? step * CPU_SPLIT_K * s->ld + first : first * s->ld + step * CPU_SPLIT_K);
    int64_t ld = s->ld;
    if (n < CPU_SPLIT_LINES || depth < CPU_SPLIT_K) {
        const int64_t n_lines = cpu_min64(s->across ? depth : n, s->across ? CPU_SPLIT_K : CPU_SPLIT_LINES);
        const int64_t length = cpu_min64(s->across ? n : depth, s->across ? CPU_SPLIT_LINES : CPU_SPLIT_K);
        ld = s->across ? CPU_SPLIT_LINES : CPU_SPLIT_K;
        memset(room, 0, sizeof room);
        for (int64_t i = 0; i < n_lines && length > 0; i++) {
            memcpy(room + i * ld, from + i * s->ld, (size_t)length * sizeof *from);
        }
        from = room;
    }
    cpu_split_word *to =
        s->to + index / CPU_SPLIT_WIDTH * s->panel + step * CPU_SPLIT_STEP + index % CPU_SPLIT_WIDTH * CPU_SPLIT_WORDS;
    cpu_split_whole(from, ld, s->across ? CPU_SPLIT_LINES * ld : CPU_SPLIT_LINES, s->transposed, to);
}

// All panels, in the order in which what they are packed of lies in memory.
static inline void cpu_split_panels(const cpu_splitting *s) {
    const int64_t n_registers = cpu_divide_up(s->n, CPU_SPLIT_PANEL) * CPU_SPLIT_WIDTH;
    if (s->across) {
        for (int64_t step = 0; step < s->n_steps; step++) {
            for (int64_t i = 0; i < n_registers; i++) {
                cpu_split_register(s, i, step);
            }
        }
    } else {
        for (int64_t i = 0; i < n_registers; i++) {
            for (int64_t step = 0; step < s->n_steps; step++) {
                cpu_split_register(s, i, step);
            }
        }
    }
}

// --- the tile -------------------------------------------------------------------------------------

enum { CPU_SPLIT_LARGE, CPU_SPLIT_MEDIUM, CPU_SPLIT_SMALL };

// sums (CPU_SPLIT_PANEL x CPU_SPLIT_PANEL) = a panel x b panel over n_steps of CPU_SPLIT_K. In each step `meanwhile` is
// called, for what vector instructions can do meanwhile.
static inline __attribute__((always_inline)) void cpu_split_tile(int64_t n_steps, const cpu_split_word *a,
                                                                 const cpu_split_word *b, float *sums,
                                                                 void (*meanwhile)(void *), void *what) {
    enum { ROW_BYTES = 64, SUM_ROW_BYTES = CPU_SPLIT_PANEL * sizeof *sums };
    float *below = sums + CPU_SPLIT_LINES * CPU_SPLIT_PANEL;
#define LOAD_A0(part) _tile_stream_loadd(4, a + (part)*CPU_SPLIT_PART, ROW_BYTES)
#define LOAD_A1(part) _tile_stream_loadd(5, a + (part)*CPU_SPLIT_PART + CPU_SPLIT_WORDS, ROW_BYTES)
#define LOAD_B0(part) _tile_loadd(6, b + (part)*CPU_SPLIT_PART, ROW_BYTES)
#define LOAD_B1(part) _tile_loadd(7, b + (part)*CPU_SPLIT_PART + CPU_SPLIT_WORDS, ROW_BYTES)
#define NEXT_A(part)         \
    LOAD_A0(part);           \
    _tile_dpbf16ps(0, 4, 6); \
    _tile_dpbf16ps(1, 4, 7); \
    LOAD_A1(part);           \
    _tile_dpbf16ps(2, 5, 6); \
    _tile_dpbf16ps(3, 5, 7)
#define NEXT_B(part)         \
    LOAD_B0(part);           \
    _tile_dpbf16ps(0, 4, 6); \
    _tile_dpbf16ps(2, 5, 6); \
    LOAD_B1(part);           \
    _tile_dpbf16ps(1, 4, 7); \
    _tile_dpbf16ps(3, 5, 7)
    __asm__ volatile("" ::: "memory"); // what was packed is in memory: compilers do not see that tiles read it
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t j = 0; j < n_steps; j++) {
        LOAD_A0(CPU_SPLIT_LARGE);
        LOAD_A1(CPU_SPLIT_LARGE);
        NEXT_B(CPU_SPLIT_SMALL);
        NEXT_B(CPU_SPLIT_MEDIUM);
        NEXT_A(CPU_SPLIT_MEDIUM);
        meanwhile(what);
        NEXT_B(CPU_SPLIT_LARGE);
        NEXT_A(CPU_SPLIT_SMALL);
        NEXT_A(CPU_SPLIT_LARGE);
        a += CPU_SPLIT_STEP;
        b += CPU_SPLIT_STEP;
    }
    _tile_stored(0, sums, SUM_ROW_BYTES);
    _tile_stored(1, sums + CPU_SPLIT_LINES, SUM_ROW_BYTES);
    _tile_stored(2, below, SUM_ROW_BYTES);
    _tile_stored(3, below + CPU_SPLIT_LINES, SUM_ROW_BYTES);
    __asm__ volatile("" ::: "memory");
#undef LOAD_A0
#undef LOAD_A1
#undef LOAD_B0
#undef LOAD_B1
#undef NEXT_A
#undef NEXT_B
}
