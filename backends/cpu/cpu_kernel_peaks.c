// cpu_kernel_peaks.c: what one thread can compute and move, for cpu_peaks.c.
#include "cpu_kernel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { VECTOR = 16, N_SUMS = 16 };
typedef float vector __attribute__((vector_size(64)));
#elif defined(__AVX__)
enum { VECTOR = 8, N_SUMS = 12 };
typedef float vector __attribute__((vector_size(32)));
#else
enum { VECTOR = 4, N_SUMS = 12 };
typedef float vector __attribute__((vector_size(16)));
#endif

// Enough independent sums to fill the pipelines of two units four or five cycles deep, few
// enough to stay in registers. The factor is just below 1, so that no sum grows or dies.
double ISA(cpu_peak_flops)(int64_t n_rounds) {
    volatile float seed = 0.999f; // not known to the compiler
    vector sum[N_SUMS];
    vector factor;
    vector term;
    for (int lane = 0; lane < VECTOR; lane++) {
        factor[lane] = seed;
        term[lane] = seed * 0.001f;
    }
    for (int i = 0; i < N_SUMS; i++) {
        sum[i] = term * (float)(i + 1);
    }
    for (int64_t round = 0; round < n_rounds; round++) {
        for (int i = 0; i < N_SUMS; i++) {
            sum[i] = sum[i] * factor + term;
        }
    }
    float total = 0;
    for (int i = 0; i < N_SUMS; i++) {
        total += sum[i][0] + sum[i][VECTOR - 1];
    }
    seed = total; // the sums are used, so they are computed
    return 2.0 * N_SUMS * VECTOR * (double)n_rounds;
}

// a = b + 3 c by stores that do not read a's cache lines first. Arrays 64-byte aligned.
static void triad_nontemporal(float *a, const float *b, const float *c, int64_t n_elems) {
#if defined(__AVX512F__)
    const __m512 three = _mm512_set1_ps(3.0f);
    for (int64_t i = 0; i + 16 <= n_elems; i += 16) {
        _mm512_stream_ps(a + i, _mm512_add_ps(_mm512_load_ps(b + i), _mm512_mul_ps(three, _mm512_load_ps(c + i))));
    }
    _mm_sfence();
#elif defined(__AVX__)
    const __m256 three = _mm256_set1_ps(3.0f);
    for (int64_t i = 0; i + 8 <= n_elems; i += 8) {
        _mm256_stream_ps(a + i, _mm256_add_ps(_mm256_load_ps(b + i), _mm256_mul_ps(three, _mm256_load_ps(c + i))));
    }
    _mm_sfence();
#elif defined(__x86_64__)
    const __m128 three = _mm_set1_ps(3.0f);
    for (int64_t i = 0; i + 4 <= n_elems; i += 4) {
        _mm_stream_ps(a + i, _mm_add_ps(_mm_load_ps(b + i), _mm_mul_ps(three, _mm_load_ps(c + i))));
    }
    _mm_sfence();
#else
    for (int64_t i = 0; i < n_elems; i++) {
        a[i] = b[i] + 3.0f * c[i];
    }
#endif
}

static void triad(float *a, const float *b, const float *c, int64_t n_elems) {
#pragma omp simd
    for (int64_t i = 0; i < n_elems; i++) {
        a[i] = b[i] + 3.0f * c[i];
    }
}

// Two arrays rewritten in place with the help of a third: the pattern of AdamW.
static void update(float *a, float *b, const float *c, int64_t n_elems) {
#pragma omp simd
    for (int64_t i = 0; i < n_elems; i++) {
        a[i] = 0.5f * a[i] + c[i];
        b[i] = 0.5f * b[i] + c[i];
    }
}

// Sums three arrays; the sum goes to a volatile, so that the reads happen.
static void read_all(const float *a, const float *b, const float *c, int64_t n_elems) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n_elems; i++) {
        sum += a[i] + b[i] + c[i];
    }
    volatile float sink = sum;
    (void)sink;
}

double ISA(cpu_peak_stream)(cpu_stream stream, float *a, float *b, const float *c, int64_t n_elems) {
    switch (stream) {
    case CPU_STREAM_TRIAD: triad(a, b, c, n_elems); return 12.0 * (double)n_elems;
    case CPU_STREAM_TRIAD_NONTEMPORAL: triad_nontemporal(a, b, c, n_elems); return 12.0 * (double)n_elems;
    case CPU_STREAM_UPDATE: update(a, b, c, n_elems); return 20.0 * (double)n_elems; // three reads, two writes
    case CPU_STREAM_READ: read_all(a, b, c, n_elems); return 12.0 * (double)n_elems;
    case CPU_STREAM_COUNT: break;
    }
    return 0;
}
