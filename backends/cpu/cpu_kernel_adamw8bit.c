// cpu_kernel_adamw8bit.c: AdamW whose moments are kept in 8 bits, a block of 256 elements at a time (dynamic_map.h).
//
// A code is read by a table, and found by arithmetic: the decade's bins are equal, so the rank of x is linear in it.
// Where one decade's last middle and the next one's first are equally far a number changes from one to the other.
#include <math.h>

#include "cpu_kernel.h"
#include "dynamic_map.h"

enum { BLOCK = SM_QUANT_BLOCK, DECADES = SM_QUANT_DECADES };

typedef struct {
    float value[SM_QUANT_CODES];
    float begin[DECADES + 1]; // from here on a number belongs to this decade; from the last one on it is one
    float slope[DECADES];     // rank = slope x + offset, cut to a whole number
    float offset[DECADES];
    float last[DECADES]; // the decade's largest rank
} map;

static map make_map(bool is_signed) {
    map made;
    int rank = 1; // of the decade's first bin
    for (int code = 0; code < SM_QUANT_CODES; code++) {
        made.value[code] = (float)sm_quant_value(is_signed, code);
    }
    for (int d = 0; d < DECADES; d++) {
        const int bins = sm_quant_bins(is_signed) << d;
        const double slope = bins / (9 * sm_quant_decade(d));
        made.begin[d] = (float)((sm_quant_of_rank(is_signed, rank - 1) + sm_quant_of_rank(is_signed, rank)) / 2);
        made.slope[d] = (float)slope;
        made.offset[d] = (float)(rank - slope * sm_quant_decade(d));
        rank += bins;
        made.last[d] = (float)(rank - 1);
    }
    made.begin[DECADES] = (float)((sm_quant_of_rank(is_signed, rank - 1) + 1) / 2);
    return made;
}

// Rank of the number in the map that is nearest to x, 0 <= x <= 1.
static inline int nearest(const map *of, float x) {
    float slope = of->slope[0];
    float offset = of->offset[0];
    float last = of->last[0];
#pragma GCC unroll 8
    for (int d = 1; d < DECADES; d++) {
        const bool here = x >= of->begin[d];
        slope = here ? of->slope[d] : slope;
        offset = here ? of->offset[d] : offset;
        last = here ? of->last[d] : last;
    }
    float rank = slope * x + offset;
    rank = rank > last ? last : rank;
    rank = x >= of->begin[DECADES] ? of->last[DECADES - 1] + 1.0f : rank;
    return x >= of->begin[0] ? (int)rank : 0;
}

static inline float inverse(float max) { return max > 0.0f ? 1.0f / max : 0.0f; }

// Codes of n numbers of either sign. There is no code for -1: the lowest is the middle of the last bin.
static void write_signed(const map *of, const float *x, float max, int64_t n, uint8_t *code) {
    const float scale = inverse(max);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float ratio = x[i] * scale;
        const int rank = nearest(of, fabsf(ratio));
        const int below = rank < SM_QUANT_ZERO ? rank : SM_QUANT_ZERO;
        code[i] = (uint8_t)(SM_QUANT_ZERO + (ratio < 0.0f ? -below : rank));
    }
}

static void write_unsigned(const map *of, const float *x, float max, int64_t n, uint8_t *code) {
    const float scale = inverse(max);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        code[i] = (uint8_t)nearest(of, x[i] * scale);
    }
}

typedef struct {
    map m, v;
    float clip, beta1, beta2, eps, keep, step, root;
} settings;

static void update_block(const host_op *op, const settings *s, int64_t first, int64_t n) {
    const float *g = (const float *)op->in[SM_IN(adamw8bit, g)] + first;
    float *p = (float *)op->out[SM_OUT(adamw8bit, p)] + first;
    uint8_t *m = (uint8_t *)op->out[SM_OUT(adamw8bit, m)] + first;
    uint8_t *v = (uint8_t *)op->out[SM_OUT(adamw8bit, v)] + first;
    float *m_max = (float *)op->out[SM_OUT(adamw8bit, m_max)] + first / BLOCK;
    float *v_max = (float *)op->out[SM_OUT(adamw8bit, v_max)] + first / BLOCK;
    float m_new[BLOCK];
    float v_new[BLOCK];
    float m_largest = 0.0f;
    float v_largest = 0.0f;
    const float m_scale = *m_max;
    const float v_scale = *v_max;
#pragma omp simd reduction(max : m_largest, v_largest)
    for (int64_t i = 0; i < n; i++) {
        float grad = s->clip * g[i];
        m_new[i] = s->beta1 * (s->m.value[m[i]] * m_scale) + (1.0f - s->beta1) * grad;
        v_new[i] = s->beta2 * (s->v.value[v[i]] * v_scale) + (1.0f - s->beta2) * grad * grad;
        p[i] = s->keep * p[i] - s->step * m_new[i] / (sqrtf(v_new[i]) * s->root + s->eps);
        m_largest = fabsf(m_new[i]) > m_largest ? fabsf(m_new[i]) : m_largest;
        v_largest = v_new[i] > v_largest ? v_new[i] : v_largest;
    }
    *m_max = m_largest;
    *v_max = v_largest;
    write_signed(&s->m, m_new, m_largest, n, m);
    write_unsigned(&s->v, v_new, v_largest, n, v);
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
