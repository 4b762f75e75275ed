// gpt2_params.h: GPT-2's parameters as tensors of a plan, with their gradients and AdamW state.
//
// Parameters lie in groups: matrices (which take weight decay) and vectors (which do not), each
// split where the device cannot allocate so much in one piece. A parameter is a view of its group,
// so zero-grad, the gradient norm and AdamW are one op a group.
//
// Where the plan's data type is narrower than its real type, each group of matrices has a working copy
// in the data type, "bf16.matrices.0", which AdamW writes anew with each update and matmuls read.
#ifndef STEPMARK_GPT2_PARAMS_H
#define STEPMARK_GPT2_PARAMS_H

#include "gpt2.h"

typedef enum {
    WTE,
    WPE,
    LN1_W,
    LN1_B,
    QKV_W,
    QKV_B,
    ATTN_PROJ_W,
    ATTN_PROJ_B, // a block's first half,
    LN2_W,
    LN2_B,
    FC_W,
    FC_B,
    MLP_PROJ_W,
    MLP_PROJ_B, // and its second
    LNF_W,
    LNF_B,
    N_PARAM_KINDS
} param_kind;

typedef struct {
    char name[SM_NAME_SIZE]; // Hugging Face's
    bool is_matrix;
    int64_t rows; // 1 for a vector
    int64_t cols;
    int group;            // index into gpt2_params.groups
    int64_t offset_elems; // within the group
    int value;            // tensor index
    int operand;          // tensor index: what matmuls read; `value` itself, or its working copy
    int gradient;         // tensor index, or SM_NO_TENSOR
} gpt2_param;

typedef struct {
    bool is_matrix;
    int64_t n_elems;
    int value, working_copy, gradient, m, v; // tensor indices; SM_NO_TENSOR for what the plan does not have
} gpt2_group;

typedef struct {
    gpt2_param *params; // in the order of the model: wte, wpe, the blocks', ln_f
    int n_params;
    gpt2_group *groups;
    int n_groups;
} gpt2_params;

// Adds groups and parameters to a plan. `params` needs no initialisation; free it in any case.
sm_status gpt2_params_add(sm_plan *plan, const sm_gpt2_config *config, const sm_gpt2_options *options,
                          gpt2_params *params);
void gpt2_params_free(gpt2_params *params);

// A parameter by kind, and by layer where each layer has one.
const gpt2_param *gpt2_params_get(const gpt2_params *params, param_kind kind, int layer);

#endif
