// features.h: what the instruction set has that a kernel file is compiled for, in words that the other headers ask.
// A family of kernels is one block here, besides the functions that have instructions of its own.
//
//     CPU_VECTOR_BYTES  of a vector: cpu_vector (common/vector.h)
//     CPU_REGISTERS     of vectors
//     CPU_NEON          vectors are those of NEON
//     CPU_BY_LANE       a multiply-add takes its factor from any element of a register
//     CPU_BF16_K        neighbours along k whose products, of bf16, an instruction adds to one float; 1: there is none
//     CPU_SME           products are sums of outer products in SME's ZA (common/sme.h)
//     CPU_SCALAR        there are no vectors: tiles of products are cut for registers of one float
//     CPU_OWN_PRODUCTS  our own products of floats are the default, else BLAS's
#pragma once

#if !defined(CPU_SME)
#define CPU_SME 0
#endif

#if defined(__AVX512F__)
#define CPU_VECTOR_BYTES 64
#define CPU_REGISTERS    32
#if defined(__AVX512BF16__)
#define CPU_BF16_K 2
#endif
#define CPU_OWN_PRODUCTS 1
#elif defined(__AVX__)
#define CPU_VECTOR_BYTES 32
#define CPU_REGISTERS    16
#define CPU_OWN_PRODUCTS 1
#elif defined(__aarch64__)
#define CPU_VECTOR_BYTES 16
#define CPU_REGISTERS    32
#define CPU_NEON         1
#define CPU_BY_LANE      1
#if CPU_SME
#if defined(CPU_DATA_BF16)
#define CPU_BF16_K 2
#endif
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define CPU_BF16_K 4
#endif
#define CPU_OWN_PRODUCTS 1
#elif defined(__riscv_v_min_vlen)
#define CPU_VECTOR_BYTES (__riscv_v_min_vlen / 8)
#define CPU_REGISTERS    32
#define CPU_OWN_PRODUCTS 1
#elif defined(__riscv)
#define CPU_VECTOR_BYTES 16 // of the compiler's making
#define CPU_REGISTERS    32 // of one float
#define CPU_SCALAR       1
#define CPU_OWN_PRODUCTS 1
#else
#define CPU_VECTOR_BYTES 16
#define CPU_REGISTERS    16
#endif

#if !defined(CPU_NEON)
#define CPU_NEON 0
#endif
#if !defined(CPU_BY_LANE)
#define CPU_BY_LANE 0
#endif
#if !defined(CPU_BF16_K)
#define CPU_BF16_K 1
#endif
#if !defined(CPU_SCALAR)
#define CPU_SCALAR 0
#endif
#if !defined(CPU_OWN_PRODUCTS)
#define CPU_OWN_PRODUCTS 0
#endif

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__x86_64__)
#include <emmintrin.h> // compiled in a tenth of the time
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
