// adamw.cl: Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2).
//
//   g = clip g;  p *= 1 - lr wd;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   p -= lr (m / bc1) / (sqrt(v / bc2) + eps)
//
// g, p, m, v (n): one group of parameters; clip (1); hyper as enum sm_hyper of include/plan.h.
// wd is 0 for a group without decay. A work-item updates one vec of each.
//
//   g, p, m, v  |item 0|item 1|item 2| ... |last: a part|
enum { LR, BETA1, BETA2, EPS, WEIGHT_DECAY, BIAS_CORRECTION1, BIAS_CORRECTION2 };

kernel void adamw(ulong n, float decay, const global float *g, ulong g_at, const global float *hyper, ulong hyper_at,
                  const global float *clip, ulong clip_at, global float *p, ulong p_at, global float *m, ulong m_at,
                  global float *v, ulong v_at) {
    const ulong i = get_global_id(0) * (ulong)VECTOR;
    if (i >= n) {
        return;
    }
    const ulong n_here = n - i;
    const global float *h = hyper + hyper_at;
    const float b1 = h[BETA1];
    const float b2 = h[BETA2];
    const vec gradient = clip[clip_at] * load_part(g + g_at + i, n_here, 0.0f);
    const vec mean = b1 * load_part(m + m_at + i, n_here, 0.0f) + (1.0f - b1) * gradient;
    const vec square = b2 * load_part(v + v_at + i, n_here, 0.0f) + (1.0f - b2) * gradient * gradient;
    const vec root = sqrt(square / h[BIAS_CORRECTION2]) + h[EPS];
    const vec shrunk = load_part(p + p_at + i, n_here, 0.0f) * (1.0f - h[LR] * h[WEIGHT_DECAY] * decay);
    store_part(shrunk - h[LR] * (mean / h[BIAS_CORRECTION1]) / root, p + p_at + i, n_here);
    store_part(mean, m + m_at + i, n_here);
    store_part(square, v + v_at + i, n_here);
}
