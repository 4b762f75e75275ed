// ref_grad_norm.c: the L2 norm of all gradients together, and the factor that keeps it below
// a limit (Pascanu et al. 2013, algorithm 1, with PyTorch's 1e-6).
#include "ref.h"

// sqnorm = sum_i g[i]^2
// g (n): one group of gradients; sqnorm (1)
void REF(grad_sqnorm)(int64_t n, const real *g, real *sqnorm) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)g[i] * (double)g[i];
    }
    *sqnorm = (real)sum;
}

// norm = sqrt(sum_k sqnorm[k]);  clip = min(1, limit / (norm + 1e-6)), or 1 when limit is 0
// sqnorm (G): one a group; norm, clip (1)
void REF(grad_clip)(int64_t G, const real *sqnorm, const real *hyper, real *norm, real *clip) {
    double limit = (double)hyper[SM_HYPER_GRAD_CLIP];
    double sum = 0;
    for (int64_t k = 0; k < G; k++) {
        sum += (double)sqnorm[k];
    }
    *norm = (real)sqrt(sum);
    *clip = limit == 0 ? 1 : (real)fmin(1, limit / (sqrt(sum) + 1e-6));
}
