// peaks_dot.c: how many products of bf16 one thread can add up to floats, operands in registers: by
// vdpbf16ps, by AMX's tiles, and by Arm's BFMMLA; and by SME also of floats.
#include "backends/cpu/common/kernel.h"

#if defined(CPU_AMX)
#include "backends/cpu/kernels/matmul/tile_amx.h"

// Four sums, as in the kernel: a product of tiles takes 16 cycles, and the next may begin before it ends.
double ISA(cpu_peak_flops)(int64_t n_rounds) {
    enum { N_SUMS = 4, TILE_FLOPS = 2 * 16 * 16 * 32 };
    uint16_t ones[CPU_AMX_ROWS * CPU_AMX_PAIRS * CPU_PACK_K];
    float result[CPU_AMX_ROWS * CPU_AMX_PAIRS];
    for (int i = 0; i < CPU_AMX_ROWS * CPU_AMX_PAIRS * CPU_PACK_K; i++) {
        ones[i] = 0x3c7f; // about 0.0156: sums of its squares stay small
    }
    cpu_product_begin();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    __asm__ volatile("" ::: "memory");
    _tile_loadd(4, ones, CPU_AMX_PAIRS * sizeof(cpu_packed));
    _tile_loadd(5, ones, CPU_AMX_PAIRS * sizeof(cpu_packed));
    _tile_loadd(6, ones, CPU_AMX_PAIRS * sizeof(cpu_packed));
    _tile_loadd(7, ones, CPU_AMX_PAIRS * sizeof(cpu_packed));
    for (int64_t round = 0; round < n_rounds; round++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, result, CPU_AMX_PAIRS * sizeof *result); // so that the tiles' sums are used
    cpu_product_end();
    return (double)TILE_FLOPS * N_SUMS * (double)n_rounds;
}
#elif CPU_SME
#include "backends/cpu/common/sme.h"

// Four squares of ZA are sums, as in the kernel; all of a vector's floats are used.
double ISA(cpu_peak_flops)(int64_t n_rounds) {
    enum { N_SUMS = 4, FLOPS = 2 * CPU_BF16_K };
    const int64_t value =
        0x3c7f; // of bf16 about 0.0156, and of float with these bits twice: sums of its squares stay small
    int64_t left = n_rounds;
    int64_t n_lanes;
    __asm__ volatile(CPU_SME_BEGIN "   ptrue   p0.h\n"
                                   "   cntw    %[n_lanes]\n"
                                   "   dup     z0.h, %w[value]\n"
                                   "   zero    {za}\n"
                                   "   cbz     %[left], 2f\n"
                                   "1: subs    %[left], %[left], #1\n"
                                   "   " CPU_SME_MULTIPLY(0, 0, 0) CPU_SME_MULTIPLY(1, 0, 0) CPU_SME_MULTIPLY(2, 0, 0)
                                       CPU_SME_MULTIPLY(3, 0, 0) "   b.ne    1b\n"
                                                                 "2:" CPU_SME_END
                     : [n_lanes] "=&r"(n_lanes), [left] "+&r"(left)
                     : [value] "r"(value)
                     : CPU_SME_CLOBBERS);
    return (double)FLOPS * (double)(n_lanes * n_lanes) * N_SUMS * (double)n_rounds;
}
#elif CPU_BF16_K == 4
// Each instruction adds 2 x 2 sums of four products.
double ISA(cpu_peak_flops)(int64_t n_rounds) {
    enum { N_SUMS = 24, FLOPS = 2 * 2 * 2 * 4 };
    volatile uint16_t seed = 0x3c7f; // about 0.0156: sums of its squares stay small; not known to the compiler
    const uint16x8_t fours = vdupq_n_u16(seed);
    float32x4_t sum[N_SUMS];
#pragma GCC unroll 24
    for (int i = 0; i < N_SUMS; i++) {
        sum[i] = vdupq_n_f32((float)i);
    }
    for (int64_t round = 0; round < n_rounds; round++) {
#pragma GCC unroll 24
        for (int i = 0; i < N_SUMS; i++) {
            __asm__("bfmmla %0.4s, %1.8h, %1.8h" : "+w"(sum[i]) : "w"(fours));
        }
    }
    float total = 0;
#pragma GCC unroll 24
    for (int i = 0; i < N_SUMS; i++) {
        total += vaddvq_f32(sum[i]);
    }
    seed = (uint16_t)total;
    return (double)FLOPS * N_SUMS * (double)n_rounds;
}
#else
enum { N_SUMS = 16 };

// Each of 16 floats gains the products of two pairs.
double ISA(cpu_peak_flops)(int64_t n_rounds) {
    volatile short seed = 0x3c7f; // about 0.0156: sums of its squares stay small; not known to the compiler
    const __m512bh pairs = (__m512bh)_mm512_set1_epi16(seed);
    __m512 sum[N_SUMS];
    for (int i = 0; i < N_SUMS; i++) {
        sum[i] = _mm512_set1_ps((float)i);
    }
    for (int64_t round = 0; round < n_rounds; round++) {
        for (int i = 0; i < N_SUMS; i++) {
            sum[i] = _mm512_dpbf16_ps(sum[i], pairs, pairs);
        }
    }
    float total = 0;
    for (int i = 0; i < N_SUMS; i++) {
        total += _mm512_reduce_add_ps(sum[i]);
    }
    seed = (short)total;
    return 2.0 * 32 * N_SUMS * (double)n_rounds;
}
#endif
