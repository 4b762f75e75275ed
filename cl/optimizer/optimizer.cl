// optimizer.cl: updates of each parameter by itself.
//
//   g = clip g
//   adamw   p *= 1 - lr wd;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//           p -= lr (m / bc1) / (sqrt(v / bc2) + eps)       Loshchilov and Hutter 2019, algorithm 2
//   adam    g += wd p, then as adamw without its decay      Kingma and Ba 2015, algorithm 1
//   sgd     g += wd p;  m = momentum m + g;  p -= lr m, or lr (g + momentum m)
//   lion    p *= 1 - lr wd;  p -= lr sign(b1 m + (1 - b1) g);  m = b2 m + (1 - b2) g
//                                                           Chen et al. 2023, algorithm 2
//
// g, p, m, v (n): one group of parameters; clip (1); hyper as enum sm_hyper of include/plan.h. With `copied`, w (n)
// is what products read of p.
// wd is 0 for a group without decay. A step whose clip is negative is skipped. A work-item updates one vec of each.
//
//   g, p, m, v  |item 0|item 1|item 2| ... |last: a part|
enum { LR, BETA1, BETA2, EPS, WEIGHT_DECAY, BIAS_CORRECTION1, BIAS_CORRECTION2, MOMENTUM = 9, NESTEROV };

static inline void store_parameter(vec x, global float *p, uint copied, global data *w, ulong n_here) {
    store_part(x, p, n_here);
    if (copied) {
        store_data_part(x, w, n_here);
    }
}

// Loads a vec of a stream, and asks for the next page's: a processor's own look-ahead ends with a page, and so many
// streams wait at each.
static inline vec load_stream(const global float *p, ulong n_here) {
    ask(p + 4096 / sizeof(float));
    return load_part(p, n_here, 0.0f);
}

// Updates both moments and returns lr (m / bc1) / (sqrt(v / bc2) + eps).
static inline vec adam_step(const global float *h, vec gradient, global float *m, global float *v, ulong n_here) {
    const vec mean = h[BETA1] * load_stream(m, n_here) + (1.0f - h[BETA1]) * gradient;
    const vec square = h[BETA2] * load_stream(v, n_here) + (1.0f - h[BETA2]) * gradient * gradient;
    const float step = h[LR] / h[BIAS_CORRECTION1];
    const float root = 1.0f / sqrt(h[BIAS_CORRECTION2]);
    store_part(mean, m, n_here);
    store_part(square, v, n_here);
    return step * mean / (sqrt(square) * root + h[EPS]);
}

// This item's vec: i, and n_here from there on.
#define BEGIN_UPDATE                                  \
    const ulong i = get_global_id(0) * (ulong)VECTOR; \
    if (i >= n || clip[clip_at] < 0) {                \
        return;                                       \
    }                                                 \
    const ulong n_here = n - i;                       \
    const global float *h = hyper + hyper_at

kernel void adamw(ulong n, uint decays, IN(float, g), IN(float, hyper), IN(float, clip), OUT(float, p), OUT(float, m),
                  OUT(float, v), uint copied, OUT(data, w)) {
    BEGIN_UPDATE;
    const vec gradient = clip[clip_at] * load_stream(g + g_at + i, n_here);
    const vec shrunk = load_stream(p + p_at + i, n_here) * (1.0f - h[LR] * h[WEIGHT_DECAY] * decays);
    const vec moved = shrunk - adam_step(h, gradient, m + m_at + i, v + v_at + i, n_here);
    store_parameter(moved, p + p_at + i, copied, w + w_at + i, n_here);
}

kernel void adam(ulong n, uint decays, IN(float, g), IN(float, hyper), IN(float, clip), OUT(float, p), OUT(float, m),
                 OUT(float, v), uint copied, OUT(data, w)) {
    BEGIN_UPDATE;
    const vec value = load_stream(p + p_at + i, n_here);
    const vec gradient = clip[clip_at] * load_stream(g + g_at + i, n_here) + h[WEIGHT_DECAY] * decays * value;
    const vec moved = value - adam_step(h, gradient, m + m_at + i, v + v_at + i, n_here);
    store_parameter(moved, p + p_at + i, copied, w + w_at + i, n_here);
}

kernel void sgd(ulong n, uint decays, IN(float, g), IN(float, hyper), IN(float, clip), OUT(float, p), OUT(float, m),
                uint copied, OUT(data, w)) {
    BEGIN_UPDATE;
    const vec value = load_stream(p + p_at + i, n_here);
    const vec gradient = clip[clip_at] * load_stream(g + g_at + i, n_here) + h[WEIGHT_DECAY] * decays * value;
    const vec mean = h[MOMENTUM] * load_stream(m + m_at + i, n_here) + gradient;
    store_part(mean, m + m_at + i, n_here);
    const vec moved = value - h[LR] * (h[NESTEROV] != 0 ? gradient + h[MOMENTUM] * mean : mean);
    store_parameter(moved, p + p_at + i, copied, w + w_at + i, n_here);
}

kernel void lion(ulong n, uint decays, IN(float, g), IN(float, hyper), IN(float, clip), OUT(float, p), OUT(float, m),
                 uint copied, OUT(data, w)) {
    BEGIN_UPDATE;
    const vec gradient = clip[clip_at] * load_stream(g + g_at + i, n_here);
    const vec mean = load_stream(m + m_at + i, n_here);
    const vec shrunk = load_stream(p + p_at + i, n_here) * (1.0f - h[LR] * h[WEIGHT_DECAY] * decays);
    const vec c = h[BETA1] * mean + (1.0f - h[BETA1]) * gradient;
    // A NaN has no sign and stays one.
    const vec step = c > to_vec(0.0f) ? to_vec(h[LR]) : c < to_vec(0.0f) ? to_vec(-h[LR]) : c;
    store_parameter(shrunk - step, p + p_at + i, copied, w + w_at + i, n_here);
    store_part(h[BETA2] * mean + (1.0f - h[BETA2]) * gradient, m + m_at + i, n_here);
}
