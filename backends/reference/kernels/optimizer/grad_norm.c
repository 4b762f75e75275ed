// grad_norm.c: the L2 norm of all gradients together, and the factor that keeps it below
// a limit (Pascanu et al. 2013, algorithm 1, with PyTorch's 1e-6).
#include "backends/reference/ref.h"

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
// With a scaler, the gradients are too large by its scale, and clip is negative where one of them is not finite.
// sqnorm (G): one a group; norm, clip (1)
void REF(grad_clip)(int64_t G, const real *sqnorm, const real *hyper, const real *scaler, real *norm, real *clip) {
    double scale = scaler == NULL ? 1 : (double)scaler[SM_SCALER_SCALE];
    double limit = (double)hyper[SM_HYPER_GRAD_CLIP];
    double sum = 0;
    for (int64_t k = 0; k < G; k++) {
        sum += (double)sqnorm[k];
    }
    double length = sqrt(sum) / scale;
    *norm = (real)length;
    *clip = (real)((limit == 0 ? 1 : fmin(1, limit / (length + 1e-6))) / scale);
    if (scaler != NULL && !isfinite(length)) {
        *clip = -1;
    }
}
