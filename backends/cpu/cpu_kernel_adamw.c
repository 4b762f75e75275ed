// cpu_kernel_adamw.c: one AdamW step in one pass over p, m, v and g, and w, the working copy of p, where there is one.
#include <math.h>

#include "cpu_kernel.h"

CPU_KERNEL(adamw) {
    enum { BLOCK_ELEMS = 1024 }; // copied while they are in the first-level cache
    const float *g = op->in[SM_IN(adamw, g)];
    const float *hyper = op->in[SM_IN(adamw, hyper)];
    const float clip = *(const float *)op->in[SM_IN(adamw, clip)];
    float *p = op->out[SM_OUT(adamw, p)];
    float *m = op->out[SM_OUT(adamw, m)];
    float *v = op->out[SM_OUT(adamw, v)];
    cpu_data *w = op->out[SM_OUT(adamw, w)];
    const float beta1 = hyper[SM_HYPER_BETA1];
    const float beta2 = hyper[SM_HYPER_BETA2];
    const float eps = hyper[SM_HYPER_EPS];
    const float lr = hyper[SM_HYPER_LR];
    const float keep = op->op->attr.decay ? 1.0f - lr * hyper[SM_HYPER_WEIGHT_DECAY] : 1.0f;
    const float step = lr / hyper[SM_HYPER_BIAS_CORRECTION1];
    const float root = 1.0f / sqrtf(hyper[SM_HYPER_BIAS_CORRECTION2]); // sqrt(v/bc2) = sqrt(v) root
    cpu_range mine = cpu_my_elems(team, sm_tensor_elems(op->in_tensor[SM_IN(adamw, g)]));
    for (int64_t first = mine.first; first < mine.end; first += BLOCK_ELEMS) {
        const int64_t end = first + BLOCK_ELEMS < mine.end ? first + BLOCK_ELEMS : mine.end;
#pragma omp simd
        for (int64_t i = first; i < end; i++) {
            float grad = clip * g[i];
            float m_new = beta1 * m[i] + (1.0f - beta1) * grad;
            float v_new = beta2 * v[i] + (1.0f - beta2) * grad * grad;
            m[i] = m_new;
            v[i] = v_new;
            p[i] = keep * p[i] - step * m_new / (sqrtf(v_new) * root + eps);
        }
        if (w != NULL) {
#pragma omp simd
            for (int64_t i = first; i < end; i++) {
                w[i] = cpu_round(p[i]);
            }
        }
    }
}
