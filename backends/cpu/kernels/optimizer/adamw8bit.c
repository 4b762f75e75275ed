// adamw8bit.c: AdamW whose moments are kept in 8 bits, a block of 256 elements at a time (dynamic_map.h).
//
// Codes are read and found by arithmetic, as a table of 256 would be looked up one by one. The bins of a decade are
// equal, so a number is linear in its rank there; what each decade has of its own is looked up in tables of sixteen,
// which stay in registers.
#include "dynamic_map.h"
#include "backends/cpu/common/kernel.h"
#include "backends/cpu/common/math.h"
#include "backends/cpu/common/vector.h"

enum { BLOCK = SM_QUANT_BLOCK, DECADES = SM_QUANT_DECADES };

// The ranks of a map are zero, those of its decades, and one: groups 0, 1..7 and 8.
typedef struct {
    float first_bins; // of the first decade
    float begin[16];  // rank -> number: where the group begins
    float upper[16];  // number -> rank: from here on it belongs to the next group;
    float slope[16];  // rank = slope x + offset,
    float offset[16];
    float last[16]; // and no further
} map;

static map make_map(bool is_signed) {
    const int first_bins = sm_quant_bins(is_signed);
    map made = {.first_bins = (float)first_bins};
    int rank = 0; // the last of the group before
    for (int d = 0; d <= DECADES; d++) {
        const int bins = d < DECADES ? first_bins << d : 1;
        const double slope = d < DECADES ? bins / (9 * sm_quant_decade(d)) : 0;
        made.upper[d] = (float)((sm_quant_of_rank(is_signed, rank) + sm_quant_of_rank(is_signed, rank + 1)) / 2);
        made.slope[d + 1] = (float)slope;
        made.offset[d + 1] = (float)(rank + 1 - slope * sm_quant_decade(d));
        made.begin[d + 1] = (float)sm_quant_decade(d);
        rank += bins;
        made.last[d + 1] = (float)rank;
    }
    made.upper[DECADES + 1] = INFINITY;
    made.begin[DECADES + 1] = (float)(1 / (1 + 4.5 / (first_bins << DECADES))); // of_rank continues as in a decade
    return made;
}

static inline cpu_vector to_float(cpu_int_vector x) { return __builtin_convertvector(x, cpu_vector); }
static inline cpu_int_vector to_int(cpu_vector x) { return __builtin_convertvector(x, cpu_int_vector); }

// The number of a rank. A decade begins at a power of two, so that the exponent of a bin's middle tells its group;
// without its exponent it is the place in the decade, from 1 to 2.
static inline cpu_vector of_rank(const map *of, cpu_int_vector rank) {
    const cpu_int_vector middle = (cpu_int_vector)(to_float(rank) + (of->first_bins - 0.5f));
    const cpu_int_vector group = (middle >> 23) - (of->first_bins == 1.0f ? 126 : 127);
    const cpu_vector place = (cpu_vector)((middle & 0x7FFFFF) | 0x3F800000);
    return cpu_look_up(of->begin, group) * (9.0f * place - 8.0f);
}

// Rank of the number in the map that is nearest to x, 0 <= x <= 1. The bits of x, read as an integer, are its logarithm
// to within 0.03 of a decade. Less 0.6 of a decade it tells a group that is right or one too low, as groups end
// up to 0.28 of a decade above a power of ten. Adding 2e-8 keeps x = 0 in group 0.
static inline cpu_int_vector rank_of(const map *of, cpu_vector x) {
    const float log10_2 = 0.30103f;
    const cpu_vector decade = to_float((cpu_int_vector)(x + 2e-8f)) * (log10_2 / 0x1p23f) + (7.4f - 127 * log10_2);
    cpu_int_vector group = to_int(decade);
    group -= x >= cpu_look_up(of->upper, group);
    const cpu_vector rank = cpu_look_up(of->slope, group) * x + cpu_look_up(of->offset, group);
    const cpu_vector last = cpu_look_up(of->last, group);
    return to_int(cpu_select(rank < last, rank, last));
}

// Numbers of a block's n codes; of 0 beyond.
static inline void read_codes(const map *of, bool is_signed, const uint8_t *code, int64_t n, float scale,
                              float x[BLOCK]) {
    const int zero = is_signed ? SM_QUANT_ZERO : 0;
    const int sign = is_signed ? -1 : 0;
    int32_t wide[BLOCK];
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        wide[i] = code[i];
    }
    for (int64_t i = n; i < BLOCK; i++) {
        wide[i] = zero;
    }
    for (int64_t i = 0; i < BLOCK; i += CPU_VECTOR) {
        const cpu_int_vector rank = *(const cpu_int_vector *)(wide + i) - zero;
        const cpu_int_vector below = (rank >> 31) & sign; // -1 for negative numbers
        const cpu_int_vector size = (cpu_int_vector)(of_rank(of, (rank ^ below) - below) * scale);
        *(cpu_int_vector *)(x + i) = size | (below & INT32_MIN);
    }
}

// Codes of a block's n numbers, the largest of which is max. None is for -1: the lowest is the middle of the last bin.
static inline void write_codes(const map *of, bool is_signed, const float x[BLOCK], int64_t n, float max,
                               uint8_t *code) {
    const int zero = is_signed ? SM_QUANT_ZERO : 0;
    const int sign = is_signed ? -1 : 0;
    const float scale = max > 0.0f ? 1.0f / max : 0.0f;
    int32_t wide[BLOCK];
    for (int64_t i = 0; i < BLOCK; i += CPU_VECTOR) {
        const cpu_int_vector ratio = (cpu_int_vector)(*(const cpu_vector *)(x + i) * scale);
        const cpu_int_vector below = (ratio >> 31) & sign;
        const cpu_int_vector rank = rank_of(of, (cpu_vector)(ratio & ~(below & INT32_MIN)));
        *(cpu_int_vector *)(wide + i) = ((rank ^ below) - below) + zero;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        code[i] = (uint8_t)(wide[i] > 0 ? wide[i] : 0);
    }
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
    read_codes(&from->m, true, m, n, *m_max, m_new);
    read_codes(&from->v, false, v, n, *v_max, v_new);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float grad = s.clip * g[i];
        m_new[i] = s.beta1 * m_new[i] + (1.0f - s.beta1) * grad;
        v_new[i] = s.beta2 * v_new[i] + (1.0f - s.beta2) * grad * grad;
        p[i] = s.keep * p[i] - s.step * m_new[i] / (sqrtf(v_new[i]) * s.root + s.eps);
        m_size[i] = fabsf(m_new[i]);
    }
    *m_max = cpu_largest(m_size, n);
    *v_max = cpu_largest(v_new, n);
    write_codes(&from->m, true, m_new, n, *m_max, m);
    write_codes(&from->v, false, v_new, n, *v_max, v);
}

// Asks for what a block reads, before its turn: the arithmetic of a block is long enough that the processor does not
// see the next one coming.
static void ask_for(const void *from, int64_t size_bytes) {
    for (int64_t at = 0; at < size_bytes; at += 64) {
        __builtin_prefetch((const char *)from + at, 1);
    }
}

static void ask_for_block(const host_op *op, int64_t first, int64_t n) {
    ask_for((const float *)op->in[SM_IN(adamw8bit, g)] + first, n * (int64_t)sizeof(float));
    ask_for((const float *)op->out[SM_OUT(adamw8bit, p)] + first, n * (int64_t)sizeof(float));
    ask_for((const uint8_t *)op->out[SM_OUT(adamw8bit, m)] + first, n);
    ask_for((const uint8_t *)op->out[SM_OUT(adamw8bit, v)] + first, n);
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
        ask_for_block(op, first + n, cpu_min64(BLOCK, mine.end - first - n));
        update_block(op, &s, first, n);
        if (w != NULL) {
#pragma omp simd
            for (int64_t i = first; i < first + n; i++) {
                w[i] = cpu_round(p[i]);
            }
        }
    }
}
