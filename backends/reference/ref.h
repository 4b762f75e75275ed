// ref.h: the reference's operations, one function for each kind of op. They define what every backend must compute, and
// are written for readers: serial loops over the equation, sums in double, results rounded once when they are stored.
//
// Each kernels/*.c is compiled twice: for plans in f32, and with REF_F64 for plans in f64. `real` is the plan's
// floating type; REF(name) is the function's name for it.
//
// Dimension letters as in tensor.h. Matrices are row-major: x (N,C) has element x[n * C + c].
#pragma once

#include <math.h>

#include "backends/host/memory.h"
#include "philox.h"

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

// --- functions ----------------------------------------------------------------------------------------
// By the words of op_table.h: void ref_layernorm_forward_f32(int64_t N, int64_t C, double eps, const real *x, ...). Of
// a kind with OWN_CALL the type of own_NAME in run.c, which gets the op and its operands, follows from the table, and
// the function is declared below.

#define DATA real
#define REAL real
#define I32  int32_t
#define U32  uint32_t
#define U8   uint8_t
#define FP8  uint8_t
#define NO_ATTRS
#define HAS(attr) , __typeof__(((sm_attrs *)0)->attr) attr

#define BY_ELEMENT(name, ...) void REF(name)(int64_t n __VA_ARGS__
#define BY_ROW(name, ...)     void REF(name)(int64_t N, int64_t C __VA_ARGS__
#define OWN_CALL(name, ...)   typedef void REF(own_##name)(const host_op *op, double *scratch

// clang-format off
#define OP(code, name, inplace, work, again, call, look, attributes, ...) call(name, attributes)
#define NO_SHARED_OPS
#define IN(operand, shape, type, flags)        , const type *operand
#define OUT(operand, shape, type, mode, flags) , type *operand
#define WORKING_COPY(shape)
#define END                                    );
#include "op_table.h"
// clang-format on
#undef DATA
#undef REAL
#undef I32
#undef U32
#undef U8
#undef FP8
#undef HAS
#undef BY_ELEMENT
#undef BY_ROW
#undef OWN_CALL

// kernels/embedding.c
void REF(embedding_forward)(int64_t B, int64_t T, int64_t C, const int32_t *token, const int32_t *starts,
                            const real *wte, const real *wpe, real *x);
void REF(embedding_backward)(int64_t B, int64_t T, int64_t C, int64_t V, const int32_t *token, const int32_t *starts,
                             const real *dx, real *dwte, real *dwpe, double *scratch);

// kernels/dropout.c
void REF(dropout)(int64_t n, const ref_mask *mask, const real *x, real *y);

// kernels/matmul.c
void REF(matmul_forward)(int64_t N, int64_t C, int64_t F, bool w_transposed, const real *x, const real *W, real *y);
void REF(matmul_backward_input)(int64_t N, int64_t C, int64_t F, bool w_transposed, const real *dy, const real *W,
                                real *dx);
void REF(matmul_backward_weight)(int64_t N, int64_t C, int64_t F, bool w_transposed, const real *x, const real *dy,
                                 real *dW);

// kernels/attention.c
typedef struct {
    int64_t B, T, NH, NKV, HS;
    const int32_t *starts; // (B,T): the first token of each token's document; NULL: 0
    ref_mask mask;         // on the attention weights
    bool unmasked;         // tokens see those after them, too
} ref_attention;

void REF(attention_forward)(const ref_attention *a, const real *qkv, real *y, real *att, double *scratch);
void REF(attention_backward)(const ref_attention *a, const real *dy, const real *qkv, const real *att, real *dqkv,
                             double *scratch);
void REF(flash_attention_forward)(const ref_attention *a, const real *qkv, real *y, real *lse, double *scratch);
void REF(flash_attention_backward)(const ref_attention *a, const real *dy, const real *qkv, const real *y,
                                   const real *lse, real *dqkv, double *scratch);

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

// kernels/optimizer/scaler.c
void REF(scaler_update)(const real *clip, const real *hyper, real *scaler);

// kernels/fp8.c
void REF(cast_fp8)(int64_t N, int64_t C, const sm_number_format *format, const real *x, const real *scale,
                   uint8_t *rows, uint8_t *columns, real *amax);
void REF(scale_update)(int64_t n, double largest, real *amax, real *history, real *scale);

// kernels/optimizer/muon.c
void REF(muon_update)(int64_t R, int64_t C, bool transposed, bool decay, const real *x, const real *hyper, real *p);
