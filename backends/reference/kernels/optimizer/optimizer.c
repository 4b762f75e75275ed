// optimizer.c: element-wise updates. g, p, m, v (n): one group of parameters; clip (1), the factor on the gradients
// that limits their norm. wd, the weight decay, is 0 for groups without.
#include "backends/reference/ref.h"

// Weight decay of this group.
static double decay_of(const real *hyper, bool decay) { return decay ? (double)hyper[SM_HYPER_WEIGHT_DECAY] : 0; }

// m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2.  Returns (m / bc1) / (sqrt(v / bc2) + eps)
static double adam_step(const real *hyper, double g, double *m, double *v) {
    double b1 = (double)hyper[SM_HYPER_BETA1];
    double b2 = (double)hyper[SM_HYPER_BETA2];
    *m = b1 * *m + (1 - b1) * g;
    *v = b2 * *v + (1 - b2) * g * g;
    double m_hat = *m / (double)hyper[SM_HYPER_BIAS_CORRECTION1];
    double v_hat = *v / (double)hyper[SM_HYPER_BIAS_CORRECTION2];
    return m_hat / (sqrt(v_hat) + (double)hyper[SM_HYPER_EPS]);
}

// Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2).
void REF(adamw)(int64_t n, bool decay, const real *g, const real *hyper, const real *clip, real *p, real *m, real *v) {
    double lr = (double)hyper[SM_HYPER_LR];
    double wd = decay_of(hyper, decay);
    for (int64_t i = 0; i < n; i++) {
        double mi = (double)m[i];
        double vi = (double)v[i];
        double step = adam_step(hyper, (double)*clip * (double)g[i], &mi, &vi);
        p[i] = (real)((double)p[i] * (1 - lr * wd) - lr * step);
        m[i] = (real)mi;
        v[i] = (real)vi;
    }
}

// Adam (Kingma and Ba 2015, algorithm 1), with decay added to the gradient.
void REF(adam)(int64_t n, bool decay, const real *g, const real *hyper, const real *clip, real *p, real *m, real *v) {
    double lr = (double)hyper[SM_HYPER_LR];
    double wd = decay_of(hyper, decay);
    for (int64_t i = 0; i < n; i++) {
        double mi = (double)m[i];
        double vi = (double)v[i];
        double step = adam_step(hyper, (double)*clip * (double)g[i] + wd * (double)p[i], &mi, &vi);
        p[i] = (real)((double)p[i] - lr * step);
        m[i] = (real)mi;
        v[i] = (real)vi;
    }
}

// Gradient descent with momentum (Sutskever et al. 2013, section 2, in PyTorch's form).
void REF(sgd)(int64_t n, bool decay, const real *g, const real *hyper, const real *clip, real *p, real *m) {
    double lr = (double)hyper[SM_HYPER_LR];
    double momentum = (double)hyper[SM_HYPER_MOMENTUM];
    bool nesterov = (double)hyper[SM_HYPER_NESTEROV] != 0;
    double wd = decay_of(hyper, decay);
    for (int64_t i = 0; i < n; i++) {
        double gi = (double)*clip * (double)g[i] + wd * (double)p[i];
        double mi = momentum * (double)m[i] + gi;
        m[i] = (real)mi;
        p[i] = (real)((double)p[i] - lr * (nesterov ? gi + momentum * mi : mi));
    }
}

// Lion (Chen et al. 2023, algorithm 2). A NaN has no sign and stays one.
void REF(lion)(int64_t n, bool decay, const real *g, const real *hyper, const real *clip, real *p, real *m) {
    double lr = (double)hyper[SM_HYPER_LR];
    double b1 = (double)hyper[SM_HYPER_BETA1];
    double b2 = (double)hyper[SM_HYPER_BETA2];
    double wd = decay_of(hyper, decay);
    for (int64_t i = 0; i < n; i++) {
        double gi = (double)*clip * (double)g[i];
        double c = b1 * (double)m[i] + (1 - b1) * gi;
        double sign = c > 0 ? 1 : c < 0 ? -1 : c;
        p[i] = (real)((double)p[i] * (1 - lr * wd) - lr * sign);
        m[i] = (real)(b2 * (double)m[i] + (1 - b2) * gi);
    }
}
