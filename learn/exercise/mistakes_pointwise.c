// mistakes_pointwise.c: common mistakes element by element: GELU, the residual, AdamW.
#include <math.h>

#include "learn/exercise/mistakes.h"

#define IN(name) const float *name = sm_mistaken_in(c, #name)

static const double root_2_over_pi = 0.7978845608028654;

enum { G_SIGMOID = 1, G_ERF, G_NO_CUBE, G_NO_ROOT, G_NO_HALF, G_SQUARE };

static double gelu(double x, int mistake) {
    const double root = mistake == G_NO_ROOT ? 1 : root_2_over_pi;
    const double cube = mistake == G_NO_CUBE ? 0 : mistake == G_SQUARE ? x * x : x * x * x;
    switch (mistake) {
    case G_SIGMOID: return x / (1 + exp(-1.702 * x));
    case G_ERF: return x / 2 * (1 + erf(x / sqrt(2)));
    default: return (mistake == G_NO_HALF ? x : x / 2) * (1 + tanh(root * (x + 0.044715 * cube)));
    }
}

static void gelu_forward(const sm_exercise_case *c, int mistake, float *const out[SM_MAX_OUT]) {
    IN(x);
    for (int64_t i = 0; i < sm_mistaken_size(c, "n"); i++) {
        out[0][i] = (float)gelu(x[i], mistake);
    }
}

enum { D_NO_DY = 1, D_NO_INSIDE, D_NO_CUBE, D_GELU, D_NO_ROOT, D_NO_SQUARE };

static double gelu_derivative(double x, int mistake) {
    const double t = tanh(root_2_over_pi * (x + 0.044715 * x * x * x));
    const double inside =
        (mistake == D_NO_ROOT ? 1 : root_2_over_pi) * (1 + (mistake == D_NO_CUBE ? 0 : 3 * 0.044715 * x * x));
    return (1 + t) / 2 + (mistake == D_NO_INSIDE ? 0 : x / 2 * (1 - (mistake == D_NO_SQUARE ? t : t * t)) * inside);
}

static void gelu_backward(const sm_exercise_case *c, int mistake, float *const out[SM_MAX_OUT]) {
    IN(x);
    IN(dy);
    for (int64_t i = 0; i < sm_mistaken_size(c, "n"); i++) {
        const double d = mistake == D_GELU ? gelu(x[i], 0) : gelu_derivative(x[i], mistake);
        out[0][i] = (float)((mistake == D_NO_DY ? 1 : dy[i]) * d);
    }
}

enum { R_MINUS = 1, R_A, R_B };

static void residual(const sm_exercise_case *c, int mistake, float *const out[SM_MAX_OUT]) {
    IN(a);
    IN(b);
    for (int64_t i = 0; i < sm_mistaken_size(c, "n"); i++) {
        out[0][i] = mistake == R_MINUS ? a[i] - b[i] : mistake == R_A ? a[i] : b[i];
    }
}

enum { A_NO_CORRECTION = 1, A_L2, A_EPS_INSIDE, A_NO_CLIP, A_NO_SQUARE, A_NO_DECAY, A_ALWAYS_DECAY, A_BETAS };

static void adamw(const sm_exercise_case *c, int mistake, float *const out[SM_MAX_OUT]) {
    IN(g);
    IN(hyper);
    IN(clip);
    float *p = out[0];
    float *m = out[1];
    float *v = out[2];
    const double lr = hyper[SM_HYPER_LR];
    const double b1 = hyper[mistake == A_BETAS ? SM_HYPER_BETA2 : SM_HYPER_BETA1];
    const double b2 = hyper[mistake == A_BETAS ? SM_HYPER_BETA1 : SM_HYPER_BETA2];
    const double bc1 = mistake == A_NO_CORRECTION ? 1 : hyper[SM_HYPER_BIAS_CORRECTION1];
    const double bc2 = mistake == A_NO_CORRECTION ? 1 : hyper[SM_HYPER_BIAS_CORRECTION2];
    const double eps = hyper[SM_HYPER_EPS];
    const bool decays = (sm_mistaken_size(c, "decay") != 0 && mistake != A_NO_DECAY) || mistake == A_ALWAYS_DECAY;
    const double wd = decays ? hyper[SM_HYPER_WEIGHT_DECAY] : 0;
    for (int64_t i = 0; i < sm_mistaken_size(c, "n"); i++) {
        double d = g[i] * (mistake == A_NO_CLIP ? 1 : (double)clip[0]) + (mistake == A_L2 ? wd * p[i] : 0);
        double next = p[i] * (mistake == A_L2 ? 1 : 1 - lr * wd);
        m[i] = (float)(b1 * m[i] + (1 - b1) * d);
        v[i] = (float)(b2 * v[i] + (1 - b2) * (mistake == A_NO_SQUARE ? d : d * d));
        const double root = mistake == A_EPS_INSIDE ? sqrt(v[i] / bc2 + eps) : sqrt(v[i] / bc2) + eps;
        p[i] = (float)(next - lr * (m[i] / bc1) / root);
    }
}

const sm_mistakes sm_mistakes_pointwise[] = {
    {SM_OP_GELU_FORWARD,
     gelu_forward,
     {"this is x sigmoid(1.702 x), another approximation: GPT-2 has the form with tanh",
      "this is the exact GELU, with erf: GPT-2 has the form with tanh",
      "the cubic term is missing: tanh(sqrt(2/pi) (x + 0.044715 x^3))", "sqrt(2/pi) is missing inside of tanh",
      "the factor 1/2 is missing: y = x/2 (1 + tanh(...))", "x^2 is taken for x^3 inside of tanh", NULL}},
    {SM_OP_GELU_BACKWARD,
     gelu_backward,
     {"dy is missing: dx = dy gelu'(x)",
      "the chain rule stops at tanh: the second term, x/2 (1 - tanh^2) times the derivative of the argument, is "
      "missing",
      "the derivative of the argument of tanh lacks 3 0.044715 x^2",
      "this is dy gelu(x): take the derivative, gelu'(x)", "the derivative of the argument of tanh lacks sqrt(2/pi)",
      "the derivative of tanh is 1 - tanh^2, not 1 - tanh", NULL}},
    {SM_OP_RESIDUAL,
     residual,
     {"b is subtracted: y = a + b", "b is not added: y = a + b", "a is not added: y = a + b", NULL}},
    {SM_OP_ADAMW,
     adamw,
     {"the bias correction is missing: m / bc1 and v / bc2, hyper[BIAS_CORRECTION1] and hyper[BIAS_CORRECTION2]",
      "the decay is added to the gradient, as in Adam with L2: AdamW scales the weights, p *= 1 - lr wd",
      "eps is added under the root: it belongs after it, sqrt(v / bc2) + eps",
      "clip is ignored: g = clip g, before all else", "v is a mean of g: it is a mean of g^2",
      "decay is ignored: where it is 1, p *= 1 - lr wd", "weights decay also where decay is 0",
      "beta1 and beta2 are exchanged: beta1 is of m, beta2 of v", NULL}},
    SM_NO_MISTAKES,
};
