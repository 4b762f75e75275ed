// builder.h: the vocabulary of models: each function adds the ops for one line of a model on paper, and returns the
// tensor that it computes. The backward of such a function adds to the gradients of parameters and returns the gradient
// of the input. Names are those of tensors, without the layer's prefix: "h.3.ln1" is "ln1".
//
// After a failure all functions do nothing; sm_plan.status has the first.
#pragma once

#include "src/models/model.h"

typedef struct sm_builder {
    sm_plan *plan;
    const sm_model_config *config;
    const sm_plan_options *options;
    int64_t B, T, C, F, V, Vp;
    int64_t QKV;    // (NH + 2 NKV) HS
    int64_t A;      // NH HS: width of attention's result; usually C
    int layer;      // layer of the next ops; -1 outside of the blocks
    sm_phase phase; // forward, until sm_build_loss_backward
    sm_param_spec specs[SM_MAX_PARAM_KINDS];
    sm_params params;
    void *blocks; // the tensors that each block's forward keeps for its backward (sm_model.block_bytes)
    int scale;    // tensor: the factor on the loss's gradient; SM_NO_TENSOR without backward
} sm_builder;

// --- lines of a model -----------------------------------------------------------------------------

// x = a row of wte for each token, plus a row of wpe for each position; no wpe with SM_NO_PARAM.
enum { SM_NO_PARAM = -1 };
int sm_build_embedding(sm_builder *b, int wte_kind, int wpe_kind);
void sm_build_embedding_backward(sm_builder *b, int dx, int wte_kind, int wpe_kind);

// LayerNorm; RMSNorm with SM_NO_PARAM for b_kind. And the tensors that its backward needs.
typedef struct {
    int x, y, mean, rstd; // tensors; RMSNorm has no mean
    int w_kind, b_kind;   // parameters
} sm_norm;

int sm_build_norm(sm_builder *b, const char *name, int x, int w_kind, int b_kind, sm_norm *norm);
int sm_build_norm_backward(sm_builder *b, const char *dx_name, int dy, const sm_norm *norm);

// RMSNorm of each head of q and of k in packed qkv.
typedef struct {
    int x, rstd;
    int wq_kind, wk_kind;
} sm_head_norm;

int sm_build_head_rmsnorm(sm_builder *b, const char *name, int qkv, int wq_kind, int wk_kind, sm_head_norm *norm);
int sm_build_head_rmsnorm_backward(sm_builder *b, const char *dx_name, int dy, const sm_head_norm *norm);

// y = x W + b; no b with SM_NO_PARAM.
int sm_build_linear(sm_builder *b, const char *name, int x, int w_kind, int b_kind);
int sm_build_linear_backward(sm_builder *b, const char *dx_name, int x, int dy, int w_kind, int b_kind);

// The config's activation; the result has its name, "gelu".
int sm_build_activation(sm_builder *b, int x);
int sm_build_activation_backward(sm_builder *b, const char *dx_name, int dy, int x);
int sm_build_swiglu(sm_builder *b, const char *name, int gate_up);
int sm_build_swiglu_backward(sm_builder *b, const char *dx_name, int dy, int gate_up);

// Dropout with the mask named `mask_name`, on the activation or on its gradient; without dropout x itself.
int sm_build_dropout(sm_builder *b, const char *mask_name, const char *name, int x);

// y = skip + branch. In the backward, the gradients of both uses of a tensor are added in the same way.
int sm_build_residual(sm_builder *b, const char *name, int skip, int branch);

// Rotates q and k of packed qkv by their positions; the backward rotates their gradients back.
int sm_build_rope(sm_builder *b, const char *name, int qkv);

// Causal attention of packed qkv; *att is the tensor that its backward needs. Its dropout has the mask "attn.dropout".
int sm_build_attention(sm_builder *b, int qkv, int *att);
int sm_build_attention_backward(sm_builder *b, int dy, int qkv, int att);

// Calls block_forward for every layer, bottom to top; and block_backward, top to bottom.
int sm_build_blocks(sm_builder *b, int x);
int sm_build_blocks_backward(sm_builder *b, int d);

// The mean loss of logits = x W^T, with W (Vp,C); and the first line of the backward, which returns the gradient of x.
typedef struct {
    int x, logits, lse;
    int w_kind;
} sm_head;

void sm_build_loss(sm_builder *b, int x, int w_kind, sm_head *head);
int sm_build_loss_backward(sm_builder *b, const char *dx_name, const sm_head *head);
