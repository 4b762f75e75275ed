// pack_bf16.h: operands of bf16 products in the order in which they are used.
//
// Packed elements have 32 bits, cpu_packed: where there is bf16 arithmetic, a pair of neighbours along k
// (k even in the lower half), as its instructions take them; elsewhere a float. Both come to be by the same two
// ways, since k lies along a row of memory or across rows:
//
//     lines: each contiguous along k        rows: each contiguous across, one k after another
//     squares of cpu_packed are             pairs are woven of two rows, floats widened
//     transposed in registers
//
// A panel is `width` packed elements of each k, or pair of them. Elements beyond the operand are zero.
#pragma once

#include "backends/cpu/common/data.h"
#include "backends/cpu/common/transpose.h"

#if CPU_BF16_K > 1
typedef uint32_t cpu_packed;
enum { CPU_PACK_K = 2 }; // of k in one cpu_packed
#else
typedef float cpu_packed;
enum { CPU_PACK_K = 1 };
#endif

enum { CPU_PACK_MOST = 64 }; // width of the widest panel

typedef cpu_packed cpu_quad __attribute__((vector_size(16), aligned(4), may_alias));

// The packed element of k = 0 and, in pairs, 1.
static inline cpu_packed cpu_pack_one(cpu_data low, SM_UNUSED cpu_data high) {
#if CPU_BF16_K > 1
    return low | (uint32_t)high << 16;
#else
    return cpu_widen(low);
#endif
}

// Four packed elements of a line.
static inline cpu_quad cpu_pack_quad(const cpu_data *from) {
    cpu_quad quad;
#if CPU_BF16_K > 1
    memcpy(&quad, from, sizeof quad);
#else
    for (int i = 0; i < 4; i++) {
        quad[i] = cpu_widen(from[i]);
    }
#endif
    return quad;
}

// to[j * width + i] = line i, element j, of four lines ld apart and four packed elements.
static inline void cpu_pack_4x4(const cpu_data *from, int64_t ld, cpu_packed *to, int64_t width) {
    cpu_quad r0 = cpu_pack_quad(from);
    cpu_quad r1 = cpu_pack_quad(from + ld);
    cpu_quad r2 = cpu_pack_quad(from + 2 * ld);
    cpu_quad r3 = cpu_pack_quad(from + 3 * ld);
    cpu_quad low01 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
    cpu_quad high01 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
    cpu_quad low23 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
    cpu_quad high23 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
    *(cpu_quad *)to = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
    *(cpu_quad *)(to + width) = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
    *(cpu_quad *)(to + 2 * width) = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
    *(cpu_quad *)(to + 3 * width) = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

// Squares as large as vectors allow, of n_lines and n_packed elements of each, multiples of CPU_VECTOR.
static inline void cpu_pack_squares(const cpu_data *from, int64_t ld, int64_t n_lines, int64_t n_packed, cpu_packed *to,
                                    int64_t width) {
    for (int64_t j = 0; j < n_packed; j += CPU_VECTOR) {
        for (int64_t i = 0; i < n_lines; i += CPU_VECTOR) {
            const cpu_data *square = from + i * ld + j * CPU_PACK_K;
            cpu_transpose((const float *)square, ld / CPU_PACK_K, (float *)(to + j * width + i), width);
        }
    }
}

// n lines of length k, ld apart, as a panel of that width.
static inline void cpu_pack_lines(const cpu_data *from, int64_t ld, int64_t n, int64_t k, cpu_packed *to,
                                  int64_t width) {
    const int64_t whole = k / CPU_PACK_K;
    const bool by_squares = CPU_PACK_K * sizeof *from == sizeof *to && ld % CPU_PACK_K == 0; // words already
    const int64_t n_in_squares = by_squares ? n / CPU_VECTOR * CPU_VECTOR : 0;
    const int64_t whole_in_squares = whole / CPU_VECTOR * CPU_VECTOR;
    cpu_pack_squares(from, ld, n_in_squares, whole_in_squares, to, width);
    for (int64_t i = 0; i < width; i += 4) {
        int64_t j = i < n_in_squares ? whole_in_squares : 0;
        for (; i + 4 <= n && j + 4 <= whole; j += 4) {
            cpu_pack_4x4(from + i * ld + j * CPU_PACK_K, ld, to + j * width + i, width);
        }
        for (; j * CPU_PACK_K < k; j++) {
            for (int64_t r = i; r < width && r < i + 4; r++) {
                const cpu_data *at = from + r * ld + j * CPU_PACK_K;
                to[j * width + r] = r < n ? cpu_pack_one(at[0], j < whole ? at[CPU_PACK_K - 1] : 0) : 0;
            }
        }
    }
}

// One row of a panel: n elements of one k, or woven of two: ld apart, or 0 where there is no second.
static inline void cpu_pack_row(const cpu_data *from, int64_t ld, bool has_second, int64_t n, cpu_packed *to,
                                int64_t width) {
    static const cpu_data zeros[CPU_PACK_MOST];
    const cpu_data *second = has_second ? from + ld : zeros;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        to[i] = cpu_pack_one(from[i], second[i]);
    }
    for (int64_t i = n; i < width; i++) {
        to[i] = 0;
    }
}

// k rows of n elements, ld apart, as a panel of that width.
static inline void cpu_pack_rows(const cpu_data *from, int64_t ld, int64_t n, int64_t k, cpu_packed *to,
                                 int64_t width) {
    for (int64_t j = 0; j * CPU_PACK_K < k; j++) {
        const bool has_second = j * CPU_PACK_K + 1 < k;
        if (n == width) { // a length that the compiler knows, where the call is inlined
            cpu_pack_row(from + j * CPU_PACK_K * ld, ld, has_second, width, to + j * width, width);
        } else {
            cpu_pack_row(from + j * CPU_PACK_K * ld, ld, has_second, n, to + j * width, width);
        }
    }
}
