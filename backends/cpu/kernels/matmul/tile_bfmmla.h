// tile_bfmmla.h: packing and the tile of bf16 products by BFMMLA (Arm, "Arm Architecture Reference Manual for A-profile
// architecture"), which adds to 2x2 floats the product of 2 rows of 4 k by 4 k of 2 columns:
//
//     register of a       row 0: k 0 1 2 3    row 1: k 0 1 2 3        its sums      row 0: column 0, 1
//     register of b    column 0: k 0 1 2 3 column 1: k 0 1 2 3                      row 1: column 0, 1
//
// So both operands are packed alike: for each four of k, line by line, these four side by side. Missing elements
// are zero. A cpu_packed is a pair of a line's elements, of which a step has two.
#pragma once

#include "backends/cpu/common/ask.h"
#include "backends/cpu/common/tile_size.h"

typedef uint32_t cpu_packed;

enum {
    CPU_PACK_K = 2,
    CPU_PRODUCT_STEP_K = 4,        // k is padded to a multiple of this
    CPU_PRODUCT_SLICE_K = 3072,    // deepest slice of k
    CPU_PRODUCT_BLOCK_A = 1 << 30, // packed elements of a that tiles go over with one panel of b: as many as there are
    CPU_PRODUCT_OPERAND_COST = 16, // to fetch and pack a row or column takes as long as so many rows times columns
    CPU_STEP_PAIRS = CPU_PRODUCT_STEP_K / CPU_PACK_K,
};

typedef struct {
    const cpu_packed *data;
} cpu_product_a;

static inline cpu_product_a cpu_product_packed_a(const cpu_packed *panel) { return (cpu_product_a){panel}; }

// Rows of a are always packed.
static inline bool cpu_product_reads_rows(SM_UNUSED int64_t m, SM_UNUSED int64_t k) { return false; }
static inline cpu_product_a cpu_product_rows_a(SM_UNUSED const cpu_data *rows, SM_UNUSED int64_t ld) {
    return (cpu_product_a){NULL};
}

static inline void cpu_product_begin(void) {}
static inline void cpu_product_end(void) {}

// n lines of length k, ld apart and contiguous, as a panel of that width.
static inline void cpu_pack_lines(const cpu_data *from, int64_t ld, int64_t n, int64_t k, cpu_packed *to,
                                  int64_t width) {
    cpu_data *fours = (cpu_data *)to;
    const int64_t step = CPU_PRODUCT_STEP_K * width;
    for (int64_t i = 0; i < width; i += 2) {
        const cpu_data *line = from + i * ld;
        cpu_data *at = fours + i * CPU_PRODUCT_STEP_K;
        int64_t j = 0;
        for (; i + 2 <= n && j + 8 <= k; j += 8) {
            const uint64x2_t first = vreinterpretq_u64_u16(vld1q_u16(line + j));
            const uint64x2_t second = vreinterpretq_u64_u16(vld1q_u16(line + ld + j));
            vst1q_u16(at, vreinterpretq_u16_u64(vzip1q_u64(first, second)));
            vst1q_u16(at + step, vreinterpretq_u16_u64(vzip2q_u64(first, second)));
            at += 2 * step;
        }
        for (; j < k; j += CPU_PRODUCT_STEP_K) {
            for (int e = 0; e < 2 * CPU_PRODUCT_STEP_K; e++) {
                const int64_t l = e / CPU_PRODUCT_STEP_K;
                const int64_t r = j + e % CPU_PRODUCT_STEP_K;
                at[e] = i + l < n && r < k ? line[l * ld + r] : 0;
            }
            at += step;
        }
    }
}

// A step: n_k rows of n elements, ld apart, each contiguous across k.
static inline void cpu_pack_step(const cpu_data *from, int64_t ld, int64_t n_k, int64_t n, cpu_data *to,
                                 int64_t width) {
    static const cpu_data zeros[64];
    const cpu_data *row[CPU_PRODUCT_STEP_K];
    for (int j = 0; j < CPU_PRODUCT_STEP_K; j++) {
        row[j] = j < n_k ? from + j * ld : zeros;
    }
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const uint16x8x4_t four = {
            {vld1q_u16(row[0] + i), vld1q_u16(row[1] + i), vld1q_u16(row[2] + i), vld1q_u16(row[3] + i)}};
        vst4q_u16(to + i * CPU_PRODUCT_STEP_K, four);
    }
    for (; i + 4 <= n; i += 4) {
        const uint16x4x4_t four = {
            {vld1_u16(row[0] + i), vld1_u16(row[1] + i), vld1_u16(row[2] + i), vld1_u16(row[3] + i)}};
        vst4_u16(to + i * CPU_PRODUCT_STEP_K, four);
    }
    for (; i < width; i++) {
        for (int j = 0; j < CPU_PRODUCT_STEP_K; j++) {
            to[i * CPU_PRODUCT_STEP_K + j] = i < n ? row[j][i] : 0;
        }
    }
}

// k rows of n elements, ld apart, as a panel of that width.
static inline void cpu_pack_rows(const cpu_data *from, int64_t ld, int64_t n, int64_t k, cpu_packed *to,
                                 int64_t width) {
    for (int64_t j = 0; j < k; j += CPU_PRODUCT_STEP_K) {
        cpu_pack_step(from + j * ld, ld, k - j, n, (cpu_data *)to + j * width, width);
    }
}

static inline void cpu_pack_a_lines(const cpu_data *from, int64_t ld, int64_t n, int64_t k, cpu_packed *to) {
    cpu_pack_lines(from, ld, n, k, to, CPU_PRODUCT_ROWS);
}

// Panels of a whose rows are contiguous across k; the panels lie panel_elems apart. A step of k touches pages of its
// own, so all of them are packed at each.
static inline void cpu_pack_a_rows(const cpu_data *from, int64_t ld, int64_t n, int64_t k, cpu_packed *to,
                                   int64_t panel_elems) {
    for (int64_t j = 0; j < k; j += CPU_PRODUCT_STEP_K) {
        for (int64_t i = 0; i < n; i += CPU_PRODUCT_ROWS) {
            cpu_pack_step(from + j * ld + i, ld, k - j, cpu_min64(n - i, CPU_PRODUCT_ROWS),
                          (cpu_data *)(to + i / CPU_PRODUCT_ROWS * panel_elems) + j * CPU_PRODUCT_ROWS,
                          CPU_PRODUCT_ROWS);
        }
    }
}

// c = rows of a x b panel over `pairs` of k, an even number, or += with `add`. Rows of c lie ldc apart.
CPU_ALONE cpu_product_tile(int64_t pairs, cpu_product_a a, const cpu_packed *restrict b, float *restrict c, int64_t ldc,
                           bool add, cpu_asking *asking) {
    enum { ROW_PAIRS = CPU_PRODUCT_ROWS / 2, COL_PAIRS = CPU_PRODUCT_COLS / 2 };
    const cpu_data *rows = (const cpu_data *)a.data;
    const cpu_data *cols = (const cpu_data *)b;
    float32x4_t sum[ROW_PAIRS][COL_PAIRS];
#pragma GCC unroll 4
    for (int r = 0; r < ROW_PAIRS; r++) {
#pragma GCC unroll 6
        for (int n = 0; n < COL_PAIRS; n++) {
            sum[r][n] = vdupq_n_f32(0);
        }
    }
    for (int64_t done = 0; done < pairs; done += CPU_ASK_STEPS) {
        cpu_ask(asking);
        for (int64_t j = cpu_min64(pairs - done, CPU_ASK_STEPS); j > 0; j -= CPU_STEP_PAIRS) {
            uint16x8_t x[ROW_PAIRS];
#pragma GCC unroll 4
            for (int r = 0; r < ROW_PAIRS; r++) {
                x[r] = vld1q_u16(rows + 8 * r);
            }
#pragma GCC unroll 6
            for (int n = 0; n < COL_PAIRS; n++) {
                const uint16x8_t y = vld1q_u16(cols + 8 * n);
#pragma GCC unroll 4
                for (int r = 0; r < ROW_PAIRS; r++) { // in the registers where the sums are, as tile_size.h does
                    __asm__("bfmmla %0.4s, %1.8h, %2.8h" : "+w"(sum[r][n]) : "w"(x[r]), "w"(y));
                }
            }
            rows += CPU_PRODUCT_STEP_K * CPU_PRODUCT_ROWS;
            cols += CPU_PRODUCT_STEP_K * CPU_PRODUCT_COLS;
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < ROW_PAIRS; r++) {
#pragma GCC unroll 6
        for (int n = 0; n < COL_PAIRS; n += 2) {
            const float32x4_t left = sum[r][n];
            const float32x4_t right = sum[r][n + 1];
            float *upper = c + 2 * r * ldc + 2 * n;
            float *lower = upper + ldc;
            const float32x4_t none = vdupq_n_f32(0);
            vst1q_f32(upper,
                      vaddq_f32(vcombine_f32(vget_low_f32(left), vget_low_f32(right)), add ? vld1q_f32(upper) : none));
            vst1q_f32(lower, vaddq_f32(vcombine_f32(vget_high_f32(left), vget_high_f32(right)),
                                       add ? vld1q_f32(lower) : none));
        }
    }
}
