// optimizer.c: updates of each parameter by itself, in one pass over p, g and the state, and w, the working
// copy of p, where there is one.
#include <math.h>

#include "backends/cpu/common/kernel.h"

// Stores what n floats are rounded to, with `streams` past the caches: then nothing of `to` is read first.
static void store_copy(const float *from, int64_t n, SM_UNUSED bool streams, cpu_data *to) {
    int64_t i = 0;
#if defined(CPU_DATA_NARROW) && defined(__AVX512F__)
    enum { LINE_ELEMS = 64 / sizeof *to };
    for (; streams && (uintptr_t)to % 64 == 0 && i + LINE_ELEMS <= n; i += LINE_ELEMS) {
        cpu_data line[LINE_ELEMS] __attribute__((aligned(64)));
        cpu_store_gathered(from + i, LINE_ELEMS, line);
        _mm512_stream_si512((void *)(to + i), _mm512_load_si512((const void *)line));
    }
#endif
#pragma omp simd
    for (int64_t k = i; k < n; k++) {
        to[k] = cpu_round(from[k]);
    }
}

// The arrays of an update, and its factors.
typedef struct {
    const float *g;
    float *p;
    float *m;
    float *v; // NULL: none
    float clip, beta1, beta2, eps, lr, decay, momentum, nesterov;
    float keep; // of p
    float step; // lr without m's bias
    float root; // sqrt(v / bias correction) = sqrt(v) root
} rule;

// All kinds have adamw's operands, but for v.
static rule rule_of(const host_op *op, float *v) {
    const float *hyper = op->in[SM_IN(adamw, hyper)];
    const float decay = op->op->attr.decay ? hyper[SM_HYPER_WEIGHT_DECAY] : 0.0f;
    return (rule){.g = op->in[SM_IN(adamw, g)],
                  .p = op->out[SM_OUT(adamw, p)],
                  .m = op->out[SM_OUT(adamw, m)],
                  .v = v,
                  .clip = *(const float *)op->in[SM_IN(adamw, clip)],
                  .beta1 = hyper[SM_HYPER_BETA1],
                  .beta2 = hyper[SM_HYPER_BETA2],
                  .eps = hyper[SM_HYPER_EPS],
                  .lr = hyper[SM_HYPER_LR],
                  .decay = decay,
                  .momentum = hyper[SM_HYPER_MOMENTUM],
                  .nesterov = hyper[SM_HYPER_NESTEROV],
                  .keep = 1.0f - hyper[SM_HYPER_LR] * decay,
                  .step = hyper[SM_HYPER_LR] / hyper[SM_HYPER_BIAS_CORRECTION1],
                  .root = 1.0f / sqrtf(hyper[SM_HYPER_BIAS_CORRECTION2])};
}

#define ALIKE(kind)                                                                                      \
    _Static_assert(SM_IN(kind, g) == SM_IN(adamw, g) && SM_IN(kind, hyper) == SM_IN(adamw, hyper) &&     \
                       SM_IN(kind, clip) == SM_IN(adamw, clip) && SM_OUT(kind, p) == SM_OUT(adamw, p) && \
                       SM_OUT(kind, m) == SM_OUT(adamw, m),                                              \
                   "operands that rule_of reads")
ALIKE(adam);
ALIKE(sgd);
ALIKE(lion);

// Updates n elements, from `first` on.
typedef void update(const rule *r, int64_t first, int64_t n);
#define UPDATE(name) static inline __attribute__((always_inline)) void name(const rule *r, int64_t first, int64_t n)

// A line of each stream at a time, and asks for the line a page further on: the processor's own look-ahead ends with a
// page, and lets so many streams wait at each.
static inline __attribute__((always_inline)) void update_lines(const rule *r, int64_t first, int64_t end,
                                                               update *updates) {
    enum { LINE_ELEMS = 64 / sizeof(float), AHEAD_ELEMS = 4096 / sizeof(float) };
    int64_t i = first;
    for (; i + LINE_ELEMS <= end; i += LINE_ELEMS) {
        __builtin_prefetch(r->g + i + AHEAD_ELEMS, 0, 2);
        __builtin_prefetch(r->p + i + AHEAD_ELEMS, 0, 2);
        __builtin_prefetch(r->m + i + AHEAD_ELEMS, 0, 2);
        if (r->v != NULL) {
            __builtin_prefetch(r->v + i + AHEAD_ELEMS, 0, 2);
        }
        updates(r, i, LINE_ELEMS);
    }
    updates(r, i, end - i);
}

// This thread's part, block by block: w is made of a block of p while that is in the first-level cache.
static inline __attribute__((always_inline)) void update_blocks(const host_op *op, const cpu_team *team,
                                                                update *updates, float *v, cpu_data *w) {
    enum { BLOCK_ELEMS = 1024 };
    const rule r = rule_of(op, v);
    const int64_t n_elems = sm_tensor_elems(op->out_tensor[SM_OUT(adamw, p)]);
    const size_t caches_bytes = (size_t)team->n_threads * cpu_topology_level2_bytes();
    const bool streams = (size_t)n_elems * sizeof *w > caches_bytes; // read again by the next step, from memory
    enum { LINE_ELEMS = 64 / sizeof *w };
    const cpu_range mine = cpu_split(n_elems, LINE_ELEMS, team->thread, team->n_threads);
    for (int64_t first = mine.first; first < mine.end; first += BLOCK_ELEMS) {
        const int64_t end = cpu_min64(first + BLOCK_ELEMS, mine.end);
        update_lines(&r, first, end, updates);
        if (w != NULL) {
            store_copy(r.p + first, end - first, streams, w + first);
        }
    }
#if defined(__AVX512F__)
    _mm_sfence(); // what was stored past the caches is seen by who passes the next barrier
#endif
}

UPDATE(adamw) {
#pragma omp simd
    for (int64_t i = first; i < first + n; i++) {
        float grad = r->clip * r->g[i];
        float m_new = r->beta1 * r->m[i] + (1.0f - r->beta1) * grad;
        float v_new = r->beta2 * r->v[i] + (1.0f - r->beta2) * grad * grad;
        r->m[i] = m_new;
        r->v[i] = v_new;
        r->p[i] = r->keep * r->p[i] - r->step * m_new / (sqrtf(v_new) * r->root + r->eps);
    }
}

UPDATE(adam) {
#pragma omp simd
    for (int64_t i = first; i < first + n; i++) {
        float grad = r->clip * r->g[i] + r->decay * r->p[i];
        float m_new = r->beta1 * r->m[i] + (1.0f - r->beta1) * grad;
        float v_new = r->beta2 * r->v[i] + (1.0f - r->beta2) * grad * grad;
        r->m[i] = m_new;
        r->v[i] = v_new;
        r->p[i] -= r->step * m_new / (sqrtf(v_new) * r->root + r->eps);
    }
}

UPDATE(sgd) {
#pragma omp simd
    for (int64_t i = first; i < first + n; i++) {
        float grad = r->clip * r->g[i] + r->decay * r->p[i];
        float m_new = r->momentum * r->m[i] + grad;
        r->m[i] = m_new;
        r->p[i] -= r->lr * (r->nesterov != 0.0f ? grad + r->momentum * m_new : m_new);
    }
}

UPDATE(lion) {
#pragma omp simd
    for (int64_t i = first; i < first + n; i++) {
        float grad = r->clip * r->g[i];
        float c = r->beta1 * r->m[i] + (1.0f - r->beta1) * grad;
        float step = c > 0.0f ? r->lr : c < 0.0f ? -r->lr : c; // a NaN has no sign and stays one
        r->p[i] = r->keep * r->p[i] - step;
        r->m[i] = r->beta2 * r->m[i] + (1.0f - r->beta2) * grad;
    }
}

CPU_KERNEL(adamw) { update_blocks(op, team, adamw, op->out[SM_OUT(adamw, v)], op->out[SM_OUT(adamw, w)]); }

CPU_KERNEL(adam) { update_blocks(op, team, adam, op->out[SM_OUT(adam, v)], op->out[SM_OUT(adam, w)]); }

CPU_KERNEL(sgd) { update_blocks(op, team, sgd, NULL, op->out[SM_OUT(sgd, w)]); }

CPU_KERNEL(lion) { update_blocks(op, team, lion, NULL, op->out[SM_OUT(lion, w)]); }
