// block_amx.h: products of blocks of 32 x 32 in AMX's tile registers, of panels that lie in the caches, and what
// flash attention does to such a block in vectors.
//
// Panels are those of matmul/pack_amx.h, two registers wide: of a 32 rows, of b 32 columns, and in each step 32 of k. A
// block of floats lies row by row.
#ifndef STEPMARK_BACKENDS_CPU_KERNELS_MATMUL_BLOCK_AMX_H
#define STEPMARK_BACKENDS_CPU_KERNELS_MATMUL_BLOCK_AMX_H

#include "backends/cpu/kernels/matmul/tile.h"
#include "backends/cpu/kernels/matmul/tile_amx.h"

enum {
    CPU_BLOCK = 32,                         // rows and columns
    CPU_BLOCK_SUMS = CPU_BLOCK * CPU_BLOCK, // floats
    CPU_BLOCK_STEP = 2 * CPU_AMX_WORDS,     // packed, of a panel and step
};

// The sums in registers += a panel x b panel over n_steps. a's steps lie a_step apart. In each step some of what is
// needed later is fetched.
static inline __attribute__((always_inline)) void cpu_sum_block(int64_t n_steps, const cpu_packed *a, int64_t a_step,
                                                                const cpu_packed *b, cpu_fetching *f) {
    enum { ROW_BYTES = CPU_AMX_PAIRS * sizeof *a };
    __asm__ volatile("" ::: "memory"); // what was packed is in memory: compilers do not see that tiles read it
    for (int64_t j = 0; j < n_steps; j++) {
        _tile_loadd(4, a, ROW_BYTES);
        _tile_loadd(6, b, ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b + CPU_AMX_WORDS, ROW_BYTES);
        _tile_dpbf16ps(1, 4, 7);
        cpu_fetch(f);
        _tile_loadd(5, a + CPU_AMX_WORDS, ROW_BYTES);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        a += a_step;
        b += CPU_BLOCK_STEP;
    }
}

// A block (32 x 32) = a panel x b panel over n_steps, or += with `add`.
static inline __attribute__((always_inline)) void cpu_multiply_block(int64_t n_steps, const cpu_packed *a,
                                                                     int64_t a_step, const cpu_packed *b, bool add,
                                                                     float *block, cpu_fetching *f) {
    if (add) {
        cpu_load_sums(block);
    } else {
        cpu_clear_sums();
    }
    cpu_sum_block(n_steps, a, a_step, b, f);
    cpu_store_sums(block);
}

// Packs a panel whole: n_steps of it. `to` gets them one after another.
static inline void cpu_pack_panel(cpu_packing p, int64_t n_steps, cpu_packed *to) {
    p.to = to;
    p.width = CPU_BLOCK / CPU_AMX_ROWS;
    cpu_packing_begin(&p, n_steps, 1);
    cpu_pack_rest(&p);
}

// 2^x with a relative error below 3e-6, and none of whole x, for what is rounded to bf16: 2^floor(x) times a polynomial
// of what x has beyond it. 2^-infinity is 0, and NaN stays.
static inline __m512 cpu_exp2_amx(__m512 x) {
    enum { FLOOR = 0x09 }; // no digits after the point, and no exception
    const __m512 r = _mm512_reduce_ps(x, FLOOR);
    __m512 p = _mm512_set1_ps(0.0134266969f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.0522424541f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.241280213f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.693044841f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, x);
}

// Two vectors rounded: the elements of the first, then those of the second.
static inline __m512i cpu_round_beside(__m512 first, __m512 second) {
    return (__m512i)_mm512_cvtne2ps_pbh(second, first);
}

// The same as pairs: element by element one of each.
static inline __m512i cpu_round_pairs(__m512 low, __m512 high) {
    static const int16_t in_turn[CPU_AMX_K] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                               8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return _mm512_permutexvar_epi16(_mm512_loadu_si512(in_turn), cpu_round_beside(low, high));
}

#endif
