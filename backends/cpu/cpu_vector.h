// cpu_vector.h: the compiler's vector type of the instruction set's width. It may lie at any float.
#ifndef STEPMARK_CPU_VECTOR_H
#define STEPMARK_CPU_VECTOR_H

#if defined(__AVX512F__)
enum { CPU_VECTOR = 16 }; // floats
typedef float cpu_vector __attribute__((vector_size(64), aligned(4), may_alias));
#elif defined(__AVX__)
enum { CPU_VECTOR = 8 };
typedef float cpu_vector __attribute__((vector_size(32), aligned(4), may_alias));
#else
enum { CPU_VECTOR = 4 };
typedef float cpu_vector __attribute__((vector_size(16), aligned(4), may_alias));
#endif

#endif
