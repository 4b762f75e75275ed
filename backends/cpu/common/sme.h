// sme.h: the tile of products by SME's outer products (Arm, "Arm Architecture Reference Manual for A-profile
// architecture", "The Scalable Matrix Extension"): for floats FMOPA, which adds to a square of ZA a column of a times a
// row of b; for bf16 data BFMOPA, which adds two of each at once.
//
// A square has as many rows and columns as a vector of streaming mode has floats. Four squares are sums at a time:
//
//                  b0   b1
//            a0    za0  za1        with vectors of 512 bits 32 x 32, all of the tile; of shorter ones a part of it at a
//            a1    za2  za3        time; of longer ones 16 floats are used
//
// Streaming mode is entered and left here, and by inline assembly as a whole: in it a processor need not have the
// instructions that a compiler could place between these. Any GCC whose assembler knows SME compiles them.
#pragma once

#include <stdbool.h>

#include "backends/cpu/common/data.h"

// Entering and leaving streaming mode sets all vector registers to zero.
#define CPU_SME_BEGIN ".arch_extension sve\n.arch_extension sme\n   smstart\n"
#define CPU_SME_END   "   smstop\n"
#define CPU_SME_CLOBBERS                                                                                           \
    "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", \
        "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29",   \
        "v30", "v31"

// Square `za` += vector `rows` x vector `columns`, with all of predicate p0.
#if defined(CPU_DATA_NARROW)
#define CPU_SME_MULTIPLY(za, rows, columns) "bfmopa za" #za ".s, p0/m, p0/m, z" #rows ".h, z" #columns ".h\n"
#else
#define CPU_SME_MULTIPLY(za, rows, columns) "fmopa za" #za ".s, p0/m, p0/m, z" #rows ".s, z" #columns ".s\n"
#endif

// c (32 x 32), rows ldc apart, = a panel x b panel over `steps` packed steps of k, each of 32 words of either; += with
// `add`.
static inline void cpu_sme_tile(int64_t steps, const void *a, const void *b, float *c, int64_t ldc, bool add) {
    const int64_t ld_bytes = ldc * (int64_t)sizeof *c;
    const int64_t n_added = add ? 32 : 0; // halves of vectors
    __asm__ volatile(
        CPU_SME_BEGIN "   mov     x9, #32\n"
                      "   whilelt p0.h, xzr, x9\n" // 16 floats, or 32 of bf16, or all there are
                      "   whilelt p1.h, xzr, %[n_added]\n"
                      "   cntp    x10, p0, p0.s\n" // rows and columns of a square
                      "   lsl     x11, x10, #3\n"  // bytes of two
                      "   madd    x17, x10, %[ld_bytes], xzr\n"
                      "   mov     x13, #0\n" // bytes of rows done, in a packed column
                      "1: mov     x14, #0\n" // and of columns
                      "2: zero    {za}\n"
                      "   add     x15, %[a], x13\n"
                      "   add     x16, %[b], x14\n"
                      "   mov     x9, %[steps]\n"
                      "   cbz     x9, 4f\n"
                      "3: ld1w    {z0.s}, p0/z, [x15]\n"
                      "   ld1w    {z1.s}, p0/z, [x15, x10, lsl #2]\n"
                      "   ld1w    {z2.s}, p0/z, [x16]\n"
                      "   ld1w    {z3.s}, p0/z, [x16, x10, lsl #2]\n"
                      "   add     x15, x15, #128\n"
                      "   add     x16, x16, #128\n"
                      "   subs    x9, x9, #1\n"
                      "   " CPU_SME_MULTIPLY(0, 0, 2) CPU_SME_MULTIPLY(1, 0, 3) CPU_SME_MULTIPLY(2, 1, 2)
                          CPU_SME_MULTIPLY(3, 1, 3) "   b.ne    3b\n"
                                                    // Rows of the upper squares and of the lower ones.
                                                    "4: lsr     x9, x13, #2\n"
                                                    "   madd    x15, x9, %[ld_bytes], %[c]\n"
                                                    "   add     x15, x15, x14\n"
                                                    "   mov     x12, #0\n"
                                                    "5: add     x16, x15, x17\n"
                                                    "   ld1w    {z4.s}, p1/z, [x15]\n"
                                                    "   ld1w    {z5.s}, p1/z, [x15, x10, lsl #2]\n"
                                                    "   ld1w    {z6.s}, p1/z, [x16]\n"
                                                    "   ld1w    {z7.s}, p1/z, [x16, x10, lsl #2]\n"
                                                    "   mova    z0.s, p0/m, za0h.s[w12, 0]\n"
                                                    "   mova    z1.s, p0/m, za1h.s[w12, 0]\n"
                                                    "   mova    z2.s, p0/m, za2h.s[w12, 0]\n"
                                                    "   mova    z3.s, p0/m, za3h.s[w12, 0]\n"
                                                    "   fadd    z0.s, z0.s, z4.s\n"
                                                    "   fadd    z1.s, z1.s, z5.s\n"
                                                    "   fadd    z2.s, z2.s, z6.s\n"
                                                    "   fadd    z3.s, z3.s, z7.s\n"
                                                    "   st1w    {z0.s}, p0, [x15]\n"
                                                    "   st1w    {z1.s}, p0, [x15, x10, lsl #2]\n"
                                                    "   st1w    {z2.s}, p0, [x16]\n"
                                                    "   st1w    {z3.s}, p0, [x16, x10, lsl #2]\n"
                                                    "   add     x15, x15, %[ld_bytes]\n"
                                                    "   add     x12, x12, #1\n"
                                                    "   cmp     x12, x10\n"
                                                    "   b.lt    5b\n"
                                                    "   add     x14, x14, x11\n"
                                                    "   cmp     x14, #128\n"
                                                    "   b.lt    2b\n"
                                                    "   add     x13, x13, x11\n"
                                                    "   cmp     x13, #128\n"
                                                    "   b.lt    1b\n" CPU_SME_END
        :
        : [steps] "r"(steps), [a] "r"(a), [b] "r"(b), [c] "r"(c), [ld_bytes] "r"(ld_bytes), [n_added] "r"(n_added)
        : CPU_SME_CLOBBERS, "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17");
}
