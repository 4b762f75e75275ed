// peaks.c: what one thread can compute and move, for cpu/peaks.c.
#include "backends/cpu/common/kernel.h"

// may_alias: the streams below go over arrays of float.
enum { VECTOR = CPU_VECTOR_BYTES / 4 };
typedef float vector __attribute__((vector_size(CPU_VECTOR_BYTES), may_alias));

// --- arithmetic ---------------------------------------------------------------------------

// Enough independent sums to fill the pipelines, few enough to stay in registers: of x86 two units are four or five
// cycles deep; of Arm four units are four cycles deep, or two nine. By a factor just below 1 no sum grows or dies.
#if defined(__aarch64__)
enum { N_SUMS = 24 };
#define EACH_SUM _Pragma("GCC unroll 24") // by itself GCC takes 16
#else
#define EACH_SUM
enum { N_SUMS = CPU_REGISTERS == 32 ? 16 : 12 };
#endif

#if CPU_NEON // adds to a register: a sum that is multiplied would be copied each time
#define MULTIPLY_ADD(sum, factor, term) __asm__("fmla %0.4s, %1.4s, %2.4s" : "+w"(sum) : "w"(factor), "w"(term))
#else
#define MULTIPLY_ADD(sum, factor, term) ((sum) = (sum) * (factor) + (term))
#endif

double ISA(cpu_peak_flops)(int64_t n_rounds) {
    volatile float seed = 0.999f; // not known to the compiler
    vector sum[N_SUMS];
    vector factor;
    vector term;
    for (int lane = 0; lane < VECTOR; lane++) {
        factor[lane] = seed;
        term[lane] = seed * 0.001f;
    }
    EACH_SUM
    for (int i = 0; i < N_SUMS; i++) {
        sum[i] = term * (float)(i + 1);
    }
    for (int64_t round = 0; round < n_rounds; round++) {
        EACH_SUM
        for (int i = 0; i < N_SUMS; i++) {
            MULTIPLY_ADD(sum[i], factor, term);
        }
    }
    float total = 0;
    EACH_SUM
    for (int i = 0; i < N_SUMS; i++) {
        total += sum[i][0] + sum[i][VECTOR - 1];
    }
    seed = total; // the sums are used, so they are computed
    return 2.0 * N_SUMS * VECTOR * (double)n_rounds;
}

// --- streams ------------------------------------------------------------------------------

// Arrays are aligned to 64 bytes and hold a multiple of BLOCK elements. A block is several
// vectors, so that the loop's own instructions and the latency of additions do not count.
enum { UNROLLED = 8, BLOCK = UNROLLED * VECTOR };

#define AT(array, i, k)   (((vector *)((array) + (i)))[k])
#define SEEN(array, i, k) (((const vector *)((array) + (i)))[k])

static vector splat(float value) {
    vector all;
    for (int lane = 0; lane < VECTOR; lane++) {
        all[lane] = value;
    }
    return all;
}

// A store that goes past the caches, without reading the line first.
static inline void store_past_caches(float *to, vector value) {
#if defined(__AVX512F__)
    _mm512_stream_ps(to, (__m512)value);
#elif defined(__AVX__)
    _mm256_stream_ps(to, (__m256)value);
#elif defined(__x86_64__)
    _mm_stream_ps(to, (__m128)value);
#else
    *(vector *)to = value;
#endif
}

// Nothing that was stored may be left out, nor loads moved, across this.
static inline void end_pass(void) {
#if defined(__x86_64__)
    _mm_sfence();
#endif
    __asm__ volatile("" ::: "memory");
}

// Three arrays at once, because prefetchers follow each by itself. One loop for all passes: to end one, and to add its
// sums up, takes as long as a tenth of a pass over a first-level cache.
static void read_often(const float *a, const float *b, const float *c, int64_t n_elems, int64_t n_passes) {
    vector sum[UNROLLED];
    for (int k = 0; k < UNROLLED; k++) {
        sum[k] = splat(0);
    }
    int64_t i = 0;
    for (int64_t block = 0; block < n_passes * (n_elems / BLOCK); block++) {
        for (int k = 0; k < UNROLLED; k++) {
            sum[k] += SEEN(a, i, k);
            sum[k] += SEEN(b, i, k);
            sum[k] += SEEN(c, i, k);
        }
        i += BLOCK;
        i = i == n_elems ? 0 : i;
    }
    for (int k = 1; k < UNROLLED; k++) {
        sum[0] += sum[k];
    }
    volatile float sink = sum[0][0] + sum[0][VECTOR - 1]; // so that the reads happen
    (void)sink;
}

// The vector that a stream to `a` stores at (i, k).
static inline __attribute__((always_inline)) vector stored(cpu_stream stream, const float *b, const float *c, int64_t i,
                                                           int k) {
    switch (stream) {
    case CPU_STREAM_COPY:
    case CPU_STREAM_COPY_PAST_CACHES: return SEEN(c, i, k);
    case CPU_STREAM_TRIAD:
    case CPU_STREAM_TRIAD_PAST_CACHES: return SEEN(b, i, k) + splat(3.0f) * SEEN(c, i, k);
    default: return splat(0.7f);
    }
}

static inline __attribute__((always_inline)) void store_stream(cpu_stream stream, bool past_caches, float *a,
                                                               const float *b, const float *c, int64_t n_elems) {
    for (int64_t i = 0; i < n_elems; i += BLOCK) {
        for (int k = 0; k < UNROLLED; k++) {
            if (past_caches) {
                store_past_caches(a + i + k * VECTOR, stored(stream, b, c, i, k));
            } else {
                AT(a, i, k) = stored(stream, b, c, i, k);
            }
        }
        __asm__ volatile("" ::: "memory"); // or a compiler calls memcpy, which chooses stores of its own
    }
}

// Two arrays rewritten in place with the help of a third: the pattern of AdamW. All loads come before the stores,
// because a load that follows a store to the same place of another page may wait for it.
static void update_once(float *a, float *b, const float *c, int64_t n_elems) {
    const vector half = splat(0.5f);
    for (int64_t i = 0; i < n_elems; i += BLOCK) {
        for (int k = 0; k < UNROLLED; k++) {
            const vector new_a = half * AT(a, i, k) + SEEN(c, i, k);
            const vector new_b = half * AT(b, i, k) + SEEN(c, i, k);
            AT(a, i, k) = new_a;
            AT(b, i, k) = new_b;
        }
    }
}

double ISA(cpu_peak_stream)(cpu_stream stream, float *a, float *b, const float *c, int64_t n_elems, int64_t n_passes) {
    static const double bytes_per_elem[CPU_STREAM_COUNT] = {
        [CPU_STREAM_READ] = 12,
        [CPU_STREAM_WRITE] = 4,
        [CPU_STREAM_WRITE_PAST_CACHES] = 4,
        [CPU_STREAM_COPY] = 8,
        [CPU_STREAM_COPY_PAST_CACHES] = 8,
        [CPU_STREAM_TRIAD] = 12,
        [CPU_STREAM_TRIAD_PAST_CACHES] = 12,
        [CPU_STREAM_UPDATE] = 20, // three reads, two writes
    };
    if (stream == CPU_STREAM_READ) {
        read_often(a, b, c, n_elems, n_passes);
    }
    for (int64_t pass = 0; stream != CPU_STREAM_READ && pass < n_passes; pass++) {
        switch (stream) {
        case CPU_STREAM_WRITE: store_stream(CPU_STREAM_WRITE, false, a, b, c, n_elems); break;
        case CPU_STREAM_WRITE_PAST_CACHES: store_stream(CPU_STREAM_WRITE_PAST_CACHES, true, a, b, c, n_elems); break;
        case CPU_STREAM_COPY: store_stream(CPU_STREAM_COPY, false, a, b, c, n_elems); break;
        case CPU_STREAM_COPY_PAST_CACHES: store_stream(CPU_STREAM_COPY_PAST_CACHES, true, a, b, c, n_elems); break;
        case CPU_STREAM_TRIAD: store_stream(CPU_STREAM_TRIAD, false, a, b, c, n_elems); break;
        case CPU_STREAM_TRIAD_PAST_CACHES: store_stream(CPU_STREAM_TRIAD_PAST_CACHES, true, a, b, c, n_elems); break;
        case CPU_STREAM_UPDATE: update_once(a, b, c, n_elems); break;
        case CPU_STREAM_READ:
        case CPU_STREAM_COUNT: break;
        }
        end_pass();
    }
    return bytes_per_elem[stream] * (double)n_elems * (double)n_passes;
}
