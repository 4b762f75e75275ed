// vector.h: a vector of as many floats as the processor computes with at once.
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64 };
#elif defined(__AVX__)
enum { VECTOR_BYTES = 32 };
#else
enum { VECTOR_BYTES = 16 };
#endif

typedef float vec __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef int ivec __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef float unaligned_vec __attribute__((vector_size(VECTOR_BYTES), may_alias, aligned(4))); // at any address
