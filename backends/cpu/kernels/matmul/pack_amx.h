// pack_amx.h: operands of products in AMX's tile registers, packed a register at a time, so that packing what comes
// next can be spread over the time in which something else is multiplied.
//
// A register's worth of a is 16 rows of 32 k; of b 16 pairs of k, each of 16 columns. An operand's elements are
// contiguous along k or across it:
//
//                 a                          b
//     along       copied                     words (pairs of k) transposed
//     across      pairs woven, transposed    pairs of k woven
//
// Packed data lies step by step of 32 k, and in each step the registers of the panel lie next to each other.
#pragma once

#include <immintrin.h>

#include "backends/cpu/common/ask.h"
#include "backends/cpu/kernels/matmul/pack_bf16.h"

enum {
    CPU_AMX_ROWS = 16,                           // of a tile register
    CPU_AMX_PAIRS = 16,                          // of a row
    CPU_AMX_K = CPU_AMX_PAIRS * CPU_PACK_K,      // of a register: a step
    CPU_AMX_WORDS = CPU_AMX_ROWS * CPU_AMX_PAIRS // of a register
};

// A panel that is being packed.
typedef struct {
    const cpu_data *from;
    int64_t ld;
    bool across; // its elements are contiguous across k
    bool is_b;
    int64_t n;     // rows of a, columns of b; what is lacking to whole registers is zero
    int64_t depth; // of k, likewise
    int64_t width; // registers of a step
    cpu_packed *to;
    int64_t n_packed; // registers
    int64_t left;     // registers
    int64_t owed;     // of them, in parts of `turns`
    int64_t n_turns;  // in which all are packed
} cpu_packing;

// Start and size of the source that register `index` is packed from.
static inline const cpu_data *cpu_packing_at(const cpu_packing *p, int64_t index, int64_t *n, int64_t *depth) {
    const int64_t first = index % p->width * CPU_AMX_ROWS;
    const int64_t k = index / p->width * CPU_AMX_K;
    *n = p->n - first < CPU_AMX_ROWS ? p->n - first : CPU_AMX_ROWS;
    *depth = p->depth - k < CPU_AMX_K ? p->depth - k : CPU_AMX_K;
    return p->from + (p->across ? k * p->ld + first : first * p->ld + k);
}

// One whole register, of lines ld apart.
static inline void cpu_pack_whole(const cpu_data *from, int64_t ld, bool across, bool transposed, cpu_packed *to) {
    cpu_vector words[CPU_AMX_ROWS];
#pragma GCC unroll 16
    for (int i = 0; i < CPU_AMX_ROWS; i++) {
        if (across) {
            const cpu_data *pair = from + 2 * i * ld;
            const __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)pair);
            const __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(pair + ld));
            words[i] = (cpu_vector)_mm512_or_si512(_mm512_cvtepu16_epi32(low),
                                                   _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
        } else {
            words[i] = (cpu_vector)_mm512_loadu_si512(from + i * ld);
        }
    }
    if (transposed) {
        cpu_transpose_square(words);
    }
#pragma GCC unroll 16
    for (int i = 0; i < CPU_AMX_ROWS; i++) {
        _mm512_storeu_si512(to + i * CPU_AMX_PAIRS, (__m512i)words[i]);
    }
}

// The next register of a panel.
static inline void cpu_pack_register(cpu_packing *p) {
    cpu_data room[CPU_AMX_K * CPU_AMX_K];
    int64_t n;
    int64_t depth;
    const cpu_data *from = cpu_packing_at(p, p->n_packed, &n, &depth);
    cpu_packed *to = p->to + p->n_packed * CPU_AMX_WORDS;
    int64_t ld = p->ld;
    if (n < CPU_AMX_ROWS || depth < CPU_AMX_K) {
        memset(room, 0, sizeof room);
        for (int64_t i = 0; i < (p->across ? depth : n); i++) {
            memcpy(room + i * CPU_AMX_K, from + i * ld, n > 0 ? (size_t)(p->across ? n : depth) * sizeof *from : 0);
        }
        from = room;
        ld = CPU_AMX_K;
    }
    if (p->across) {
        if (p->is_b) {
            cpu_pack_whole(from, ld, true, false, to);
        } else {
            cpu_pack_whole(from, ld, true, true, to);
        }
    } else if (p->is_b) {
        cpu_pack_whole(from, ld, false, true, to);
    } else {
        cpu_pack_whole(from, ld, false, false, to);
    }
    p->n_packed++;
    p->left--;
}

// Packs a step of b with contiguous rows: CPU_AMX_K rows of two adjacent registers' columns, eight rows at a time, so
// that the hardware prefetcher follows each of them.
static inline void cpu_weave_rows(const cpu_data *from, int64_t ld, int64_t first_row, cpu_packed *to) {
    enum { ROWS_AT_ONCE = 8, AHEAD_ELEMS = 512 };
    for (int64_t row = first_row; row < first_row + ROWS_AT_ONCE; row += 2) {
        const cpu_data *pair = from + row * ld;
        const __m512i low = _mm512_loadu_si512(pair);
        const __m512i high = _mm512_loadu_si512(pair + ld);
        __builtin_prefetch(pair + AHEAD_ELEMS, 0, 2);
        __builtin_prefetch(pair + ld + AHEAD_ELEMS, 0, 2);
        cpu_packed *words = to + row / 2 * CPU_AMX_PAIRS;
        _mm512_storeu_si512(
            words, _mm512_or_si512(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(low)),
                                   _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(high)), 16)));
        _mm512_storeu_si512(
            words + CPU_AMX_WORDS,
            _mm512_or_si512(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(low, 1)),
                            _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(high, 1)), 16)));
    }
}

// The memory that n_steps of a panel are packed from, to be asked for in n_turns.
static inline cpu_lines cpu_packing_lines(const cpu_packing *p, int64_t n_steps, int64_t n_turns) {
    const int64_t depth = p->depth < n_steps * CPU_AMX_K ? p->depth : n_steps * CPU_AMX_K;
    return p->across ? cpu_lines_of(p->from, p->ld, depth, p->n, n_turns)
                     : cpu_lines_of(p->from, p->ld, p->n, depth, n_turns);
}

// Starts packing n_steps of a panel, spread over n_turns.
static inline void cpu_packing_begin(cpu_packing *p, int64_t n_steps, int64_t n_turns) {
    p->n_packed = 0;
    p->left = n_steps * p->width;
    p->owed = 0;
    p->n_turns = n_turns;
}

static inline void cpu_pack_turn(cpu_packing *p) {
    if (p->left == 0) {
        return;
    }
    p->owed += p->left + p->n_packed;
    while (p->owed >= p->n_turns && p->left > 0) {
        p->owed -= p->n_turns;
        cpu_pack_register(p);
    }
}

static inline void cpu_pack_rest(cpu_packing *p) {
    while (p->left > 0) {
        cpu_pack_register(p);
    }
}
