// loss.c: the loss: cross-entropy of the softmax over the vocabulary (Bridle 1990), its
// mean over the tokens that count (target -1: ignored), and its derivative.
//
// Rows of logits are Vp long; columns V..Vp-1 are padding and take no part.
#include "backends/reference/ref.h"

static int64_t count_targets(int64_t N, const int32_t *target) {
    int64_t n_targets = 0;
    for (int64_t n = 0; n < N; n++) {
        n_targets += target[n] != -1;
    }
    return n_targets > 0 ? n_targets : 1; // all ignored: a sum of nothing, divided by 1
}

// scale = hyper.loss_scale / (number of targets that are not -1), times that of the scaler, if there is one
// targets (N), scale (1)
void REF(loss_scale)(int64_t N, const int32_t *targets, const real *hyper, const real *scaler, real *scale) {
    const double scaled = scaler == NULL ? 1 : (double)scaler[SM_SCALER_SCALE];
    *scale = (real)(scaled * (double)hyper[SM_HYPER_LOSS_SCALE] / (double)count_targets(N, targets));
}

// loss = sum_n losses[n] / (number of targets that are not -1)
// losses, target (N); loss (1)
void REF(loss_mean)(int64_t N, const real *losses, const int32_t *target, real *loss) {
    double sum = 0;
    for (int64_t n = 0; n < N; n++) {
        sum += (double)losses[n];
    }
    *loss = (real)(sum / (double)count_targets(N, target));
}

// lse = log sum_v exp(logits[n,v]);  losses[n] = lse - logits[n,target[n]], or 0 where ignored
// logits (N,Vp); target, losses, lse (N)
void REF(crossentropy_forward)(int64_t N, int64_t Vp, int64_t V, const real *logits, const int32_t *target,
                               real *losses, real *lse) {
    for (int64_t n = 0; n < N; n++) {
        const real *row = logits + n * Vp;
        double largest = -(double)INFINITY; // subtracted so that exp does not overflow
        for (int64_t v = 0; v < V; v++) {
            largest = (double)row[v] > largest ? (double)row[v] : largest;
        }
        double sum = 0;
        for (int64_t v = 0; v < V; v++) {
            sum += exp((double)row[v] - largest);
        }
        double log_sum = largest + log(sum);
        lse[n] = (real)log_sum;
        losses[n] = target[n] == -1 ? 0 : (real)(log_sum - (double)row[target[n]]);
    }
}

// dlogits[n,v] = scale (exp(logits[n,v] - lse[n]) - [v = target[n]]), or 0 where ignored or v >= V
// logits, dlogits (N,Vp); target, lse (N); scale (1)
void REF(crossentropy_backward)(int64_t N, int64_t Vp, int64_t V, const real *logits, const int32_t *target,
                                const real *lse, const real *scale, real *dlogits) {
    for (int64_t n = 0; n < N; n++) {
        for (int64_t v = 0; v < Vp; v++) {
            double d = 0;
            if (target[n] != -1 && v < V) {
                d = (double)*scale * (exp((double)logits[n * Vp + v] - (double)lse[n]) - (v == target[n]));
            }
            dlogits[n * Vp + v] = (real)d;
        }
    }
}

// crossentropy_forward, then crossentropy_backward, row by row
// logits, dlogits (N,Vp); target, losses (N); scale (1)
void REF(crossentropy_with_gradient)(int64_t N, int64_t Vp, int64_t V, const real *logits, const int32_t *target,
                                     const real *scale, real *dlogits, real *losses) {
    for (int64_t n = 0; n < N; n++) {
        real lse = 0;
        REF(crossentropy_forward)(1, Vp, V, logits + n * Vp, target + n, losses + n, &lse);
        REF(crossentropy_backward)(1, Vp, V, logits + n * Vp, target + n, &lse, scale, dlogits + n * Vp);
    }
}
