// builder.h: the vocabulary that models build a training step with: each function adds the ops of one line of a model
// on paper, and returns the tensor that it computes. Forward functions have a backward that adds to the gradients of
// parameters and returns the gradient of the input.
//
// After a failure everything does nothing; sm_builder.status has the first.
#ifndef STEPMARK_BUILDER_H
#define STEPMARK_BUILDER_H

#include "model.h"

typedef struct sm_builder {
    sm_plan *plan;
    const sm_model_config *config;
    const sm_plan_options *options;
    int64_t B, T, C, F, V, Vp;
    int64_t QKV; // (NH + 2 NKV) HS
    sm_param_spec specs[SM_MAX_PARAM_KINDS];
    sm_params params;
    int scale;        // tensor: the factor on the loss's gradient; SM_NO_TENSOR without backward
    sm_status status; // the first failure; what comes after it does nothing
} sm_builder;

#define SM_DIMS(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

// --- tensors and ops ------------------------------------------------------------------------------

// An activation of a layer, or its gradient: "h.3.ln1"; of none (layer -1): "encoded".
int sm_build_activation(sm_builder *b, int layer, const char *name, int n_dims, const int64_t *dims);

// What must not be rounded to the data type: `name` and `what` make "h.3.ln1.mean"; `what` may be NULL.
int sm_build_statistic(sm_builder *b, int layer, const char *name, const char *what, int n_dims, const int64_t *dims);

void sm_build_op(sm_builder *b, const sm_op *op);

// A parameter by kind: itself, what matmuls read of a matrix, its gradient; the last two of all of a matrix in parts,
// by its first.
int sm_build_value(const sm_builder *b, int kind, int layer);
int sm_build_matrix(const sm_builder *b, int kind, int layer);
int sm_build_gradient(const sm_builder *b, int kind, int layer);

// --- lines of a model -----------------------------------------------------------------------------

// x = a row of wte for each token, plus one of wpe for each position, or SM_NO_PARAM.
enum { SM_NO_PARAM = -1 };
int sm_build_embedding(sm_builder *b, int wte_kind, int wpe_kind);
void sm_build_embedding_backward(sm_builder *b, int dx, int wte_kind, int wpe_kind);

// y = x W, the tensor named after `name` and, where it is not NULL, `part`: "qkv.xw".
int sm_build_matmul(sm_builder *b, int layer, const char *name, const char *part, int x, int w_kind, int64_t n_cols);
// Into W's gradient, then dx.
void sm_build_matmul_backward_weight(sm_builder *b, int layer, int x, int dy, int w_kind);
int sm_build_matmul_backward_input(sm_builder *b, int layer, const char *dx_name, int dy, int w_kind, int64_t n_cols);

// y = x + b
int sm_build_bias(sm_builder *b, int layer, const char *name, int x, int bias_kind, int64_t n_cols);
void sm_build_bias_backward(sm_builder *b, int layer, int dy, int bias_kind);

// Dropout of forward's `mask_name`, on the activation or on its gradient; x itself when there is none.
int sm_build_dropout(sm_builder *b, sm_phase phase, int layer, const char *mask_name, const char *name, int x);

// y = skip + branch; backward, the gradients of a fan-out add the same way.
int sm_build_residual(sm_builder *b, sm_phase phase, int layer, const char *name, int skip, int branch);

// Causal attention of packed qkv; *att is what backward needs of it. Dropout of mask "attn.dropout".
int sm_build_attention(sm_builder *b, int layer, int qkv, int *att);
int sm_build_attention_backward(sm_builder *b, int layer, int dy, int qkv, int att);

// The mean loss of logits = x W^T, W being (Vp,C); and its way back to x. *logits and *lse are for backward.
void sm_build_loss(sm_builder *b, int x, int w_kind, int *logits, int *lse);
int sm_build_loss_backward(sm_builder *b, const char *dx_name, int x, int w_kind, int logits, int lse);

#endif
