// ref.h: the reference's operations, one function for each kind of op. They define what every backend must compute, and
// are written for readers: serial loops over the equation, sums in double, results rounded once when they are stored.
//
// Each kernels/*.c is compiled twice: for plans in f32, and with REF_F64 for plans in f64. `real` is the plan's
// floating type; REF(name) is the function's name for it.
//
// Dimension letters as in tensor.h. Matrices are row-major: x (N,C) has element x[n * C + c].
#ifndef STEPMARK_REF_H
#define STEPMARK_REF_H

#include <math.h>

#include "philox.h"
#include "plan.h"

#ifdef REF_F64
typedef double real;
#define REF(name) ref_##name##_f64
#else
typedef float real;
#define REF(name) ref_##name##_f32
#endif

// The source of a dropout's random numbers: probability of dropping, Philox key, micro-step.
typedef struct {
    double p;
    uint64_t key;
    uint64_t step;
} ref_mask;

// The factor on element e: 0 if dropped, 1 / (1 - p) if kept.
static inline double ref_mask_factor(const ref_mask *mask, int64_t e) {
    if (mask->p == 0) {
        return 1;
    }
    uint32_t threshold = sm_dropout_threshold(mask->p);
    return sm_dropout_keeps(mask->key, mask->step, (uint64_t)e, threshold) ? 1 / (1 - mask->p) : 0;
}

// kernels/zero.c
void REF(zero)(int64_t n, real *x);

// kernels/embedding.c
void REF(embedding_forward)(int64_t B, int64_t T, int64_t C, const int32_t *token, const int32_t *starts,
                            const real *wte, const real *wpe, real *x);
void REF(embedding_backward)(int64_t B, int64_t T, int64_t C, int64_t V, const int32_t *token, const int32_t *starts,
                             const real *dx, real *dwte, real *dwpe, double *scratch);

// kernels/dropout.c
void REF(dropout)(int64_t n, const ref_mask *mask, const real *x, real *y);

// kernels/layernorm.c
void REF(layernorm_forward)(int64_t N, int64_t C, double eps, const real *x, const real *w, const real *b, real *y,
                            real *mean, real *rstd);
void REF(layernorm_backward)(int64_t N, int64_t C, const real *dy, const real *x, const real *w, const real *mean,
                             const real *rstd, const real *dskip, real *dx, real *dw, real *db);
void REF(residual_layernorm_forward)(int64_t N, int64_t C, double eps, const real *a, const real *b, const real *w,
                                     const real *beta, real *r, real *y, real *mean, real *rstd);

// kernels/rmsnorm.c
void REF(rmsnorm_forward)(int64_t N, int64_t C, double eps, const real *x, const real *w, real *y, real *rstd);
void REF(rmsnorm_backward)(int64_t N, int64_t C, const real *dy, const real *x, const real *w, const real *rstd,
                           const real *dskip, real *dx, real *dw);
void REF(residual_rmsnorm_forward)(int64_t N, int64_t C, double eps, const real *a, const real *b, const real *w,
                                   real *r, real *y, real *rstd);

// kernels/matmul.c
void REF(matmul_forward)(int64_t N, int64_t C, int64_t F, bool w_transposed, const real *x, const real *W, real *y);
void REF(matmul_backward_input)(int64_t N, int64_t C, int64_t F, bool w_transposed, const real *dy, const real *W,
                                real *dx);
void REF(matmul_backward_weight)(int64_t N, int64_t C, int64_t F, bool w_transposed, const real *x, const real *dy,
                                 real *dW);

// kernels/bias.c
void REF(bias_forward)(int64_t N, int64_t C, const real *x, const real *b, real *y);
void REF(bias_backward)(int64_t N, int64_t C, const real *dy, real *db);

// kernels/attention.c
typedef struct {
    int64_t B, T, NH, NKV, HS;
    const int32_t *starts; // (B,T): the first token of each token's document; NULL: 0
    ref_mask mask;         // on the attention weights
} ref_attention;

void REF(attention_forward)(const ref_attention *a, const real *qkv, real *y, real *att, double *scratch);
void REF(attention_backward)(const ref_attention *a, const real *dy, const real *qkv, const real *att, real *dqkv,
                             double *scratch);
void REF(flash_attention_forward)(const ref_attention *a, const real *qkv, real *y, real *lse, double *scratch);
void REF(flash_attention_backward)(const ref_attention *a, const real *dy, const real *qkv, const real *lse, real *dqkv,
                                   double *scratch);

// kernels/gelu.c
void REF(gelu_forward)(int64_t n, const real *x, real *y);
void REF(gelu_backward)(int64_t n, const real *dy, const real *x, real *dx);

// kernels/rope.c
void REF(rope)(int64_t B, int64_t T, int64_t NH, int64_t NKV, int64_t HS, double theta, bool inverse,
               const int32_t *starts, const real *x, real *y);

// kernels/head_rmsnorm.c
void REF(head_rmsnorm_forward)(int64_t N, int64_t NH, int64_t NKV, int64_t HS, double eps, const real *x,
                               const real *wq, const real *wk, real *y, real *rstd);
void REF(head_rmsnorm_backward)(int64_t N, int64_t NH, int64_t NKV, int64_t HS, const real *dy, const real *x,
                                const real *wq, const real *wk, const real *rstd, real *dx, real *dwq, real *dwk);

// kernels/swiglu.c
void REF(swiglu_forward)(int64_t N, int64_t F, const real *x, real *y);
void REF(swiglu_backward)(int64_t N, int64_t F, const real *dy, const real *x, real *dx);

// kernels/residual.c
void REF(residual)(int64_t n, const real *a, const real *b, real *y);

// kernels/loss.c
void REF(loss_scale)(int64_t N, const int32_t *targets, const real *hyper, const real *scaler, real *scale);
void REF(loss_mean)(int64_t N, const real *losses, const int32_t *target, real *loss);
void REF(crossentropy_forward)(int64_t N, int64_t V, int64_t Vp, const real *logits, const int32_t *target,
                               real *losses, real *lse);
void REF(crossentropy_backward)(int64_t N, int64_t V, int64_t Vp, const real *logits, const int32_t *target,
                                const real *lse, const real *scale, real *dlogits);
void REF(crossentropy_with_gradient)(int64_t N, int64_t V, int64_t Vp, const real *logits, const int32_t *target,
                                     const real *scale, real *dlogits, real *losses);

// kernels/optimizer/grad_norm.c
void REF(grad_sqnorm)(int64_t n, const real *g, real *sqnorm);
void REF(grad_clip)(int64_t G, const real *sqnorm, const real *hyper, const real *scaler, real *norm, real *clip);

// kernels/optimizer/scaler.c
void REF(scaler_update)(const real *clip, const real *hyper, real *scaler);

// kernels/optimizer/optimizer.c
void REF(adamw)(int64_t n, bool decay, const real *g, const real *hyper, const real *clip, real *p, real *m, real *v);
void REF(adam)(int64_t n, bool decay, const real *g, const real *hyper, const real *clip, real *p, real *m, real *v);
void REF(sgd)(int64_t n, bool decay, const real *g, const real *hyper, const real *clip, real *p, real *m);
void REF(lion)(int64_t n, bool decay, const real *g, const real *hyper, const real *clip, real *p, real *m);

// kernels/optimizer/adamw8bit.c
void REF(adamw8bit)(int64_t n, bool decay, const real *g, const real *hyper, const real *clip, real *p, uint8_t *m,
                    uint8_t *v, real *m_max, real *v_max);

// kernels/optimizer/adafactor.c
void REF(adafactor)(int64_t R, int64_t C, bool decay, const real *g, const real *hyper, const real *clip, real *p,
                    real *row, real *col);
void REF(adafactor_vector)(int64_t n, const real *g, const real *hyper, const real *clip, real *p, real *v);

// kernels/optimizer/muon.c
void REF(muon_momentum)(int64_t n, const real *g, const real *hyper, const real *clip, real *m, real *u);
void REF(normalize)(int64_t R, int64_t C, bool transposed, const real *u, const real *sqnorm, real *x);
void REF(combine)(int64_t n, double a, double b, const real *x, const real *z, real *y);
void REF(muon_update)(int64_t R, int64_t C, bool transposed, bool decay, const real *x, const real *hyper, real *p);

#endif
