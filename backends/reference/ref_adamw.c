// ref_adamw.c: Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2).
#include "ref.h"

// g = clip g;  p *= 1 - lr wd;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
// p -= lr (m / bc1) / (sqrt(v / bc2) + eps)
// g, p, m, v (n): one group of parameters; clip (1). wd is 0 for groups without decay.
void REF(adamw)(int64_t n, bool decay, const real *g, const real *hyper, const real *clip, real *p, real *m, real *v) {
    double lr = (double)hyper[SM_HYPER_LR];
    double b1 = (double)hyper[SM_HYPER_BETA1];
    double b2 = (double)hyper[SM_HYPER_BETA2];
    double eps = (double)hyper[SM_HYPER_EPS];
    double wd = decay ? (double)hyper[SM_HYPER_WEIGHT_DECAY] : 0;
    double bc1 = (double)hyper[SM_HYPER_BIAS_CORRECTION1];
    double bc2 = (double)hyper[SM_HYPER_BIAS_CORRECTION2];
    for (int64_t i = 0; i < n; i++) {
        double gi = (double)*clip * (double)g[i];
        double mi = b1 * (double)m[i] + (1 - b1) * gi;
        double vi = b2 * (double)v[i] + (1 - b2) * gi * gi;
        p[i] = (real)((double)p[i] * (1 - lr * wd) - lr * (mi / bc1) / (sqrt(vi / bc2) + eps));
        m[i] = (real)mi;
        v[i] = (real)vi;
    }
}
