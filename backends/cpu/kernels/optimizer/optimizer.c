// optimizer.c: updates of each parameter by itself, in one pass over p, g and the state, and w, the working
// copy of p, where there is one.
#include <math.h>

#include "backends/cpu/common/kernel.h"
#include "backends/cpu/threads/topology.h"

// Stores what n floats are rounded to, with `streams` past the caches: then nothing of `to` is read first.
static void store_copy(const float *from, int64_t n, bool streams, cpu_data *to) {
    int64_t i = 0;
#if defined(CPU_DATA_NARROW) && defined(__AVX512F__)
    enum { LINE_ELEMS = 64 / sizeof *to };
    for (; streams && (uintptr_t)to % 64 == 0 && i + LINE_ELEMS <= n; i += LINE_ELEMS) {
        cpu_data line[LINE_ELEMS] __attribute__((aligned(64)));
        cpu_store_gathered(from + i, LINE_ELEMS, line);
        _mm512_stream_si512((void *)(to + i), _mm512_load_si512((const void *)line));
    }
#endif
    (void)streams;
#pragma omp simd
    for (int64_t k = i; k < n; k++) {
        to[k] = cpu_round(from[k]);
    }
}

// Updates elements [first, end).
typedef void (*update)(const host_op *op, int64_t first, int64_t end);

// This thread's part, block by block: w is made of a block of p while that is in the first-level cache.
static void update_blocks(const host_op *op, const cpu_team *team, update updates, int p_out, int w_out) {
    enum { BLOCK_ELEMS = 1024 };
    const float *p = op->out[p_out];
    cpu_data *w = op->out[w_out];
    const int64_t n_elems = sm_tensor_elems(op->out_tensor[p_out]);
    const size_t caches_bytes = (size_t)team->n_threads * cpu_topology_level2_bytes();
    const bool streams = (size_t)n_elems * sizeof *w > caches_bytes; // read again by the next step, from memory
    enum { LINE_ELEMS = 64 / sizeof *w };
    const cpu_range mine = cpu_split(n_elems, LINE_ELEMS, team->thread, team->n_threads);
    for (int64_t first = mine.first; first < mine.end; first += BLOCK_ELEMS) {
        const int64_t end = cpu_min64(first + BLOCK_ELEMS, mine.end);
        updates(op, first, end);
        if (w != NULL) {
            store_copy(p + first, end - first, streams, w + first);
        }
    }
#if defined(__AVX512F__)
    _mm_sfence(); // what was stored past the caches is seen by who passes the next barrier
#endif
}

static void adamw(const host_op *op, int64_t first, int64_t end) {
    const float *g = op->in[SM_IN(adamw, g)];
    const float *hyper = op->in[SM_IN(adamw, hyper)];
    const float clip = *(const float *)op->in[SM_IN(adamw, clip)];
    float *p = op->out[SM_OUT(adamw, p)];
    float *m = op->out[SM_OUT(adamw, m)];
    float *v = op->out[SM_OUT(adamw, v)];
    const float beta1 = hyper[SM_HYPER_BETA1];
    const float beta2 = hyper[SM_HYPER_BETA2];
    const float eps = hyper[SM_HYPER_EPS];
    const float lr = hyper[SM_HYPER_LR];
    const float keep = op->op->attr.decay ? 1.0f - lr * hyper[SM_HYPER_WEIGHT_DECAY] : 1.0f;
    const float step = lr / hyper[SM_HYPER_BIAS_CORRECTION1];
    const float root = 1.0f / sqrtf(hyper[SM_HYPER_BIAS_CORRECTION2]); // sqrt(v/bc2) = sqrt(v) root
#pragma omp simd
    for (int64_t i = first; i < end; i++) {
        float grad = clip * g[i];
        float m_new = beta1 * m[i] + (1.0f - beta1) * grad;
        float v_new = beta2 * v[i] + (1.0f - beta2) * grad * grad;
        m[i] = m_new;
        v[i] = v_new;
        p[i] = keep * p[i] - step * m_new / (sqrtf(v_new) * root + eps);
    }
}

static void adam(const host_op *op, int64_t first, int64_t end) {
    const float *g = op->in[SM_IN(adam, g)];
    const float *hyper = op->in[SM_IN(adam, hyper)];
    const float clip = *(const float *)op->in[SM_IN(adam, clip)];
    float *p = op->out[SM_OUT(adam, p)];
    float *m = op->out[SM_OUT(adam, m)];
    float *v = op->out[SM_OUT(adam, v)];
    const float beta1 = hyper[SM_HYPER_BETA1];
    const float beta2 = hyper[SM_HYPER_BETA2];
    const float eps = hyper[SM_HYPER_EPS];
    const float decay = op->op->attr.decay ? hyper[SM_HYPER_WEIGHT_DECAY] : 0.0f;
    const float step = hyper[SM_HYPER_LR] / hyper[SM_HYPER_BIAS_CORRECTION1];
    const float root = 1.0f / sqrtf(hyper[SM_HYPER_BIAS_CORRECTION2]);
#pragma omp simd
    for (int64_t i = first; i < end; i++) {
        float grad = clip * g[i] + decay * p[i];
        float m_new = beta1 * m[i] + (1.0f - beta1) * grad;
        float v_new = beta2 * v[i] + (1.0f - beta2) * grad * grad;
        m[i] = m_new;
        v[i] = v_new;
        p[i] -= step * m_new / (sqrtf(v_new) * root + eps);
    }
}

static void sgd(const host_op *op, int64_t first, int64_t end) {
    const float *g = op->in[SM_IN(sgd, g)];
    const float *hyper = op->in[SM_IN(sgd, hyper)];
    const float clip = *(const float *)op->in[SM_IN(sgd, clip)];
    float *p = op->out[SM_OUT(sgd, p)];
    float *m = op->out[SM_OUT(sgd, m)];
    const float lr = hyper[SM_HYPER_LR];
    const float decay = op->op->attr.decay ? hyper[SM_HYPER_WEIGHT_DECAY] : 0.0f;
    const float momentum = hyper[SM_HYPER_MOMENTUM];
    const float nesterov = hyper[SM_HYPER_NESTEROV];
#pragma omp simd
    for (int64_t i = first; i < end; i++) {
        float grad = clip * g[i] + decay * p[i];
        float m_new = momentum * m[i] + grad;
        m[i] = m_new;
        p[i] -= lr * (nesterov != 0.0f ? grad + momentum * m_new : m_new);
    }
}

static void lion(const host_op *op, int64_t first, int64_t end) {
    const float *g = op->in[SM_IN(lion, g)];
    const float *hyper = op->in[SM_IN(lion, hyper)];
    const float clip = *(const float *)op->in[SM_IN(lion, clip)];
    float *p = op->out[SM_OUT(lion, p)];
    float *m = op->out[SM_OUT(lion, m)];
    const float beta1 = hyper[SM_HYPER_BETA1];
    const float beta2 = hyper[SM_HYPER_BETA2];
    const float lr = hyper[SM_HYPER_LR];
    const float keep = op->op->attr.decay ? 1.0f - lr * hyper[SM_HYPER_WEIGHT_DECAY] : 1.0f;
#pragma omp simd
    for (int64_t i = first; i < end; i++) {
        float grad = clip * g[i];
        float c = beta1 * m[i] + (1.0f - beta1) * grad;
        float step = c > 0.0f ? lr : c < 0.0f ? -lr : c; // a NaN has no sign and stays one
        p[i] = keep * p[i] - step;
        m[i] = beta2 * m[i] + (1.0f - beta2) * grad;
    }
}

CPU_KERNEL(adamw) { update_blocks(op, team, adamw, SM_OUT(adamw, p), SM_OUT(adamw, w)); }

CPU_KERNEL(adam) { update_blocks(op, team, adam, SM_OUT(adam, p), SM_OUT(adam, w)); }

CPU_KERNEL(sgd) { update_blocks(op, team, sgd, SM_OUT(sgd, p), SM_OUT(sgd, w)); }

CPU_KERNEL(lion) { update_blocks(op, team, lion, SM_OUT(lion, p), SM_OUT(lion, w)); }
