// mistakes_loss.c: common mistakes in softmax, cross-entropy and the mean loss.
#include <math.h>

#include "learn/exercise/mistakes.h"

#define IN(name) const float *name = sm_mistaken_in(c, #name)

enum { F_PADDING = 1, F_IGNORED, F_NO_LARGEST, F_NO_LOG, F_NO_TARGET };

// log of the sum of the exponentials of n numbers.
static double log_sum_exp(const float *x, int64_t n, double *largest) {
    double sum = 0;
    *largest = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        *largest = fmax(*largest, x[i]);
    }
    for (int64_t i = 0; i < n; i++) {
        sum += exp(x[i] - *largest);
    }
    return *largest + log(sum);
}

static void crossentropy_forward(const sm_exercise_case *c, int mistake, float *const out[SM_MAX_OUT]) {
    const int64_t V = sm_mistaken_size(c, "V");
    const int64_t Vp = sm_mistaken_size(c, "Vp");
    const int32_t *target = sm_mistaken_in(c, "target");
    IN(logits);
    for (int64_t n = 0; n < sm_mistaken_size(c, "N"); n++) {
        const float *row = logits + n * Vp;
        double largest;
        double lse = log_sum_exp(row, mistake == F_PADDING ? Vp : V, &largest);
        lse = mistake == F_NO_LARGEST ? lse - largest : mistake == F_NO_LOG ? exp(lse) : lse;
        const double of_target = target[n] < 0 || mistake == F_NO_TARGET ? 0 : row[target[n]];
        out[0][n] = (float)(target[n] == -1 && mistake != F_IGNORED ? 0 : lse - of_target);
        out[1][n] = (float)lse;
    }
}

enum { B_NO_ONE = 1, B_IGNORED, B_NO_SCALE, B_PADDING, B_PLUS_ONE };

static void crossentropy_backward(const sm_exercise_case *c, int mistake, float *const out[SM_MAX_OUT]) {
    const int64_t V = sm_mistaken_size(c, "V");
    const int64_t Vp = sm_mistaken_size(c, "Vp");
    const int32_t *target = sm_mistaken_in(c, "target");
    IN(logits);
    IN(lse);
    IN(scale);
    for (int64_t n = 0; n < sm_mistaken_size(c, "N"); n++) {
        for (int64_t v = 0; v < Vp; v++) {
            const double p = exp((double)logits[n * Vp + v] - lse[n]);
            const double one = mistake == B_NO_ONE ? 0 : mistake == B_PLUS_ONE ? -1 : 1;
            const double d = (p - (v == target[n] ? one : 0)) * (mistake == B_NO_SCALE ? 1 : (double)scale[0]);
            const bool counts = (v < V || mistake == B_PADDING) && (target[n] != -1 || mistake == B_IGNORED);
            out[0][n * Vp + v] = (float)(counts ? d : 0);
        }
    }
}

enum { M_ALL = 1, M_SUM, M_NO_MAX };

static void loss_mean(const sm_exercise_case *c, int mistake, float *const out[SM_MAX_OUT]) {
    const int64_t N = sm_mistaken_size(c, "N");
    const int32_t *target = sm_mistaken_in(c, "target");
    IN(losses);
    double sum = 0;
    double n_counted = 0;
    for (int64_t n = 0; n < N; n++) {
        sum += losses[n];
        n_counted += target[n] != -1;
    }
    n_counted = mistake == M_NO_MAX ? n_counted : fmax(1, n_counted);
    out[0][0] = (float)(mistake == M_SUM ? sum : sum / (mistake == M_ALL ? (double)N : n_counted));
}

const sm_mistakes sm_mistakes_loss[] = {
    {SM_OP_CROSSENTROPY_FORWARD,
     crossentropy_forward,
     {"the padding counts: sum over the V columns that are tokens, not over all Vp",
      "tokens with target -1 have a loss: it is 0 there",
      "lse lacks the largest logit, which was subtracted: add it again", "lse is the sum itself: take its logarithm",
      "the target's logit is not subtracted: losses = lse - logits[target]", NULL}},
    {SM_OP_CROSSENTROPY_BACKWARD,
     crossentropy_backward,
     {"the 1 of the target is missing: dlogits = scale (p - [v = target])",
      "tokens with target -1 have a gradient: it is 0 there", "scale is missing",
      "columns of the padding have a gradient: it is 0 from V on",
      "the 1 of the target is added: it is subtracted, p - [v = target]", NULL}},
    {SM_OP_LOSS_MEAN,
     loss_mean,
     {"divided by all N tokens: those with target -1 do not count", "this is the sum: divide by the tokens that count",
      "divided by 0 where no token counts: divide by max(1, ...)", NULL}},
    SM_NO_MISTAKES,
};
