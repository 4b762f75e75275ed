// cpu_kernel_adamw8bit.c: AdamW whose moments are kept in 8 bits, a block of 256 elements at a time (dynamic_map.h).
//
// Codes are read and found by arithmetic, as tables would be looked up one by one. The bins of a decade are equal, so a
// number is linear in its rank there; and as each decade has twice as many, a rank's exponent tells its decade.
#include <math.h>
#include <string.h>

#include "cpu_kernel.h"
#include "cpu_math.h"
#include "dynamic_map.h"

enum { BLOCK = SM_QUANT_BLOCK, DECADES = SM_QUANT_DECADES };

typedef struct {
    float first_bins;     // of decade 0
    float n_ranks;        // but for zero and one
    float begin[DECADES]; // from here on a number is nearest to one of this decade,
    float one;            // from here on to one
    float slope;          // ranks for a number's change by 1, in decade 0
} map;

static map make_map(bool is_signed) {
    const int first_bins = sm_quant_bins(is_signed);
    map made = {.first_bins = (float)first_bins, .slope = (float)(first_bins / (9 * sm_quant_decade(0)))};
    int rank = 0;
    for (int d = 0; d < DECADES; d++) {
        const double below = sm_quant_of_rank(is_signed, rank);
        made.begin[d] = (float)((below + sm_quant_of_rank(is_signed, rank + 1)) / 2);
        rank += first_bins << d;
    }
    made.one = (float)((sm_quant_of_rank(is_signed, rank) + 1) / 2);
    made.n_ranks = (float)rank;
    return made;
}

// The number of a rank. A decade begins at a power of two, so that the exponent of a bin's place tells its decade d,
// and 10^d is a product of three factors; without its exponent the place is the bin's in the decade, from 1 to 2.
static inline float of_rank(const map *of, float rank) {
    const float place = rank + (of->first_bins - 0.5f);
    uint32_t bits;
    float ratio;
    memcpy(&bits, &place, sizeof bits);
    const uint32_t d = (bits >> 23) - (of->first_bins == 1.0f ? 127u : 128u);
    bits = (bits & 0x7FFFFFu) | 0x3F800000u;
    memcpy(&ratio, &bits, sizeof ratio);
    float low = (d & 4) != 0 ? 1e-3f : 1e-7f;
    low = (d & 2) != 0 ? low * 100.0f : low;
    low = (d & 1) != 0 ? low * 10.0f : low;
    const float middle = low * (9.0f * ratio - 8.0f);
    return rank > of->n_ranks ? 1.0f : rank > 0.0f ? middle : 0.0f;
}

// Rank of the number in the map that is nearest to x, 0 <= x <= 1. The decade is found by halving; each has twice the
// bins of the one below and ten times the width.
static inline float nearest(const map *of, float x) {
    const bool d4 = x >= of->begin[4];
    const bool d2 = x >= (d4 ? of->begin[6] : of->begin[2]);
    const float low = d2 ? of->begin[3] : of->begin[1];
    const float high = d2 ? 2.0f : of->begin[5]; // there is no decade 7
    const bool d1 = x >= (d4 ? high : low);
    float slope = d4 ? of->slope * 0.0016f : of->slope;
    float bins = d4 ? of->first_bins * 16.0f : of->first_bins;
    slope = d2 ? slope * 0.04f : slope;
    bins = d2 ? bins * 4.0f : bins;
    slope = d1 ? slope * 0.2f : slope;
    bins = d1 ? bins * 2.0f : bins;
    const float last = 2.0f * bins - of->first_bins;
    float rank = slope * x + ((8.0f / 9.0f) * bins + (1.0f - of->first_bins));
    rank = rank > last ? last : rank;
    rank = x >= of->one ? of->n_ranks + 1.0f : rank;
    return x >= of->begin[0] ? rank : 0.0f;
}

static inline float inverse(float max) { return max > 0.0f ? 1.0f / max : 0.0f; }

static inline float read_signed(const map *of, float code) {
    const float rank = code - (float)SM_QUANT_ZERO;
    const float size = of_rank(of, fabsf(rank));
    return rank < 0.0f ? -size : size;
}

// Loops over floats and loops over bytes are apart: a vector of bytes would be four of floats, and too many to hold.
static void widen(const uint8_t *code, int64_t n, float *wide) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        wide[i] = code[i];
    }
}

static void narrow(const float *wide, int64_t n, uint8_t *code) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        code[i] = (uint8_t)(int)wide[i];
    }
}

// Codes of n numbers of either sign. There is no code for -1: the lowest is the middle of the last bin.
static void write_signed(const map *from, const float *x, float max, int64_t n, uint8_t *code) {
    const map of = *from; // which a code that is written cannot overwrite
    const float scale = inverse(max);
    const float zero = (float)SM_QUANT_ZERO;
    float wide[BLOCK];
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float ratio = x[i] * scale;
        const float rank = nearest(&of, fabsf(ratio));
        const float below = rank < zero ? rank : zero;
        wide[i] = zero + truncf(ratio < 0.0f ? -below : rank);
    }
    narrow(wide, n, code);
}

static void write_unsigned(const map *from, const float *x, float max, int64_t n, uint8_t *code) {
    const map of = *from;
    const float scale = inverse(max);
    float wide[BLOCK];
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        wide[i] = nearest(&of, x[i] * scale);
    }
    narrow(wide, n, code);
}

typedef struct {
    map m, v;
    float clip, beta1, beta2, eps, keep, step, root;
} settings;

static void update_block(const host_op *op, const settings *from, int64_t first, int64_t n) {
    const settings s = *from;
    const float *g = (const float *)op->in[SM_IN(adamw8bit, g)] + first;
    float *p = (float *)op->out[SM_OUT(adamw8bit, p)] + first;
    uint8_t *m = (uint8_t *)op->out[SM_OUT(adamw8bit, m)] + first;
    uint8_t *v = (uint8_t *)op->out[SM_OUT(adamw8bit, v)] + first;
    float *m_max = (float *)op->out[SM_OUT(adamw8bit, m_max)] + first / BLOCK;
    float *v_max = (float *)op->out[SM_OUT(adamw8bit, v_max)] + first / BLOCK;
    float m_new[BLOCK];
    float v_new[BLOCK];
    float m_size[BLOCK];
    const float m_scale = *m_max;
    const float v_scale = *v_max;
    widen(m, n, m_new);
    widen(v, n, v_new);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float grad = s.clip * g[i];
        m_new[i] = s.beta1 * (read_signed(&s.m, m_new[i]) * m_scale) + (1.0f - s.beta1) * grad;
        v_new[i] = s.beta2 * (of_rank(&s.v, v_new[i]) * v_scale) + (1.0f - s.beta2) * grad * grad;
        p[i] = s.keep * p[i] - s.step * m_new[i] / (sqrtf(v_new[i]) * s.root + s.eps);
        m_size[i] = fabsf(m_new[i]);
    }
    const float m_largest = *m_max = cpu_largest(m_size, n);
    const float v_largest = *v_max = cpu_largest(v_new, n);
    write_signed(&from->m, m_new, m_largest, n, m);
    write_unsigned(&from->v, v_new, v_largest, n, v);
}

CPU_KERNEL(adamw8bit) {
    const float *hyper = op->in[SM_IN(adamw8bit, hyper)];
    const float *p = op->out[SM_OUT(adamw8bit, p)];
    cpu_data *w = op->out[SM_OUT(adamw8bit, w)];
    const float lr = hyper[SM_HYPER_LR];
    const settings s = {
        .m = make_map(true),
        .v = make_map(false),
        .clip = *(const float *)op->in[SM_IN(adamw8bit, clip)],
        .beta1 = hyper[SM_HYPER_BETA1],
        .beta2 = hyper[SM_HYPER_BETA2],
        .eps = hyper[SM_HYPER_EPS],
        .keep = op->op->attr.decay ? 1.0f - lr * hyper[SM_HYPER_WEIGHT_DECAY] : 1.0f,
        .step = lr / hyper[SM_HYPER_BIAS_CORRECTION1],
        .root = 1.0f / sqrtf(hyper[SM_HYPER_BIAS_CORRECTION2]),
    };
    cpu_range mine =
        cpu_split(sm_tensor_elems(op->out_tensor[SM_OUT(adamw8bit, p)]), BLOCK, team->thread, team->n_threads);
    for (int64_t first = mine.first; first < mine.end; first += BLOCK) {
        const int64_t n = cpu_min64(BLOCK, mine.end - first);
        update_block(op, &s, first, n);
        if (w != NULL) {
#pragma omp simd
            for (int64_t i = first; i < first + n; i++) {
                w[i] = cpu_round(p[i]);
            }
        }
    }
}
