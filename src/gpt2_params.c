// gpt2_params.c: names, shapes and groups of GPT-2's parameters.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpt2_params.h"

enum { N_BLOCK_PARAMS = MLP_PROJ_B - LN1_W + 1 };

static const char *const param_names[N_PARAM_KINDS] = {
    [WTE] = "wte.weight",
    [WPE] = "wpe.weight",
    [LN1_W] = "h.%d.ln_1.weight",
    [LN1_B] = "h.%d.ln_1.bias",
    [QKV_W] = "h.%d.attn.c_attn.weight",
    [QKV_B] = "h.%d.attn.c_attn.bias",
    [ATTN_PROJ_W] = "h.%d.attn.c_proj.weight",
    [ATTN_PROJ_B] = "h.%d.attn.c_proj.bias",
    [LN2_W] = "h.%d.ln_2.weight",
    [LN2_B] = "h.%d.ln_2.bias",
    [FC_W] = "h.%d.mlp.c_fc.weight",
    [FC_B] = "h.%d.mlp.c_fc.bias",
    [MLP_PROJ_W] = "h.%d.mlp.c_proj.weight",
    [MLP_PROJ_B] = "h.%d.mlp.c_proj.bias",
    [LNF_W] = "ln_f.weight",
    [LNF_B] = "ln_f.bias",
};

typedef struct {
    int64_t rows; // 0 for a vector
    int64_t cols;
} param_shape;

static param_shape shape_of(const sm_gpt2_config *config, param_kind kind) {
    const int64_t C = config->d_model;
    const int64_t F = config->d_ff;
    switch (kind) {
    case WTE: return (param_shape){sm_gpt2_padded_vocab(config), C};
    case WPE: return (param_shape){config->context, C};
    case QKV_W: return (param_shape){C, 3 * C};
    case QKV_B: return (param_shape){0, 3 * C};
    case ATTN_PROJ_W: return (param_shape){C, C};
    case FC_W: return (param_shape){C, F};
    case FC_B: return (param_shape){0, F};
    case MLP_PROJ_W: return (param_shape){F, C};
    default: return (param_shape){0, C}; // biases into the stream, layernorms
    }
}

// So that a parameter starts on a cache line, and at a multiple of any vector.
static int64_t align_elems(int64_t n) { return (n + 63) / 64 * 64; }

static void describe(gpt2_params *all, const sm_gpt2_config *config, param_kind kind, int layer) {
    gpt2_param *p = &all->params[all->n_params++];
    const param_shape shape = shape_of(config, kind);
    p->is_matrix = shape.rows > 0;
    p->rows = p->is_matrix ? shape.rows : 1;
    p->cols = shape.cols;
    p->value = p->operand = p->gradient = SM_NO_TENSOR;
    // The names hold "%d" only where a layer fills it.
    const char *number = strstr(param_names[kind], "%d");
    if (number == NULL) {
        snprintf(p->name, sizeof p->name, "%s", param_names[kind]);
    } else {
        snprintf(p->name, sizeof p->name, "h.%d%s", layer, number + 2);
    }
}

static void describe_all(gpt2_params *all, const sm_gpt2_config *config) {
    describe(all, config, WTE, -1);
    describe(all, config, WPE, -1);
    for (int layer = 0; layer < config->n_layer; layer++) {
        for (int kind = LN1_W; kind <= MLP_PROJ_B; kind++) {
            describe(all, config, (param_kind)kind, layer);
        }
    }
    describe(all, config, LNF_W, -1);
    describe(all, config, LNF_B, -1);
}

// Puts a parameter at the end of the open group of its kind, or opens a new one.
static void assign_group(gpt2_params *all, gpt2_param *p, size_t limit_bytes, size_t elem_bytes) {
    const int64_t n_elems = align_elems(p->rows * p->cols);
    int g = all->n_groups - 1;
    while (g >= 0 && all->groups[g].is_matrix != p->is_matrix) {
        g--;
    }
    bool full = g >= 0 && limit_bytes > 0 && (size_t)(all->groups[g].n_elems + n_elems) * elem_bytes > limit_bytes;
    if (g < 0 || full) {
        g = all->n_groups++;
        all->groups[g] = (gpt2_group){.is_matrix = p->is_matrix};
    }
    p->group = g;
    p->offset_elems = all->groups[g].n_elems;
    all->groups[g].n_elems += n_elems;
}

static sm_status add_group_tensors(sm_plan *plan, gpt2_group *g, int index, const sm_gpt2_options *options) {
    const struct {
        const char *what;
        sm_role role;
        sm_dtype dtype;
        bool wanted;
        int *tensor;
    } parts[] = {
        {"params", SM_ROLE_PARAMETER, plan->real, true, &g->value},
        {"grads", SM_ROLE_GRADIENT, plan->real, options->backward, &g->gradient},
        {"m", SM_ROLE_OPTIMIZER, plan->real, options->optimizer, &g->m},
        {"v", SM_ROLE_OPTIMIZER, plan->real, options->optimizer, &g->v},
        {sm_dtype_name(plan->dtype), SM_ROLE_PARAMETER, plan->dtype, g->is_matrix && plan->dtype != plan->real,
         &g->working_copy},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        *parts[i].tensor = SM_NO_TENSOR;
        if (parts[i].wanted) {
            *parts[i].tensor = sm_plan_add_tensor(plan, parts[i].role, parts[i].dtype, 1, &g->n_elems, "%s.%s.%d",
                                                  parts[i].what, g->is_matrix ? "matrices" : "vectors", index);
            if (*parts[i].tensor == SM_NO_TENSOR) {
                return SM_ERR_INVALID;
            }
        }
    }
    plan->tensors[g->value].working_copy = g->working_copy;
    return SM_OK;
}

static sm_status add_views(sm_plan *plan, const gpt2_group *g, gpt2_param *p) {
    const int64_t dims[2] = {p->is_matrix ? p->rows : p->cols, p->cols};
    int unused = SM_NO_TENSOR;
    char copy_prefix[16];
    snprintf(copy_prefix, sizeof copy_prefix, "%s.", sm_dtype_name(plan->dtype));
    const struct {
        int of;
        const char *prefix;
        int *tensor;
    } views[] = {
        {g->value, "", &p->value}, {g->gradient, "d.", &p->gradient},           {g->m, "m.", &unused},
        {g->v, "v.", &unused},     {g->working_copy, copy_prefix, &p->operand},
    };
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
        if (views[i].of != SM_NO_TENSOR) {
            *views[i].tensor = sm_plan_add_view(plan, views[i].of, p->offset_elems, p->is_matrix ? 2 : 1, dims, "%s%s",
                                                views[i].prefix, p->name);
            if (*views[i].tensor == SM_NO_TENSOR) {
                return SM_ERR_INVALID;
            }
        }
    }
    return SM_OK;
}

sm_status gpt2_params_add(sm_plan *plan, const sm_gpt2_config *config, const sm_gpt2_options *options,
                          gpt2_params *params) {
    const size_t n = 4 + (size_t)config->n_layer * N_BLOCK_PARAMS;
    *params = (gpt2_params){
        .params = calloc(n, sizeof *params->params),
        .groups = calloc(n, sizeof *params->groups), // at worst each parameter has its own
    };
    if (params->params == NULL || params->groups == NULL) {
        return sm_fail(SM_ERR_OOM, "plan: no memory for %zu parameters", n);
    }
    describe_all(params, config);
    for (int i = 0; i < params->n_params; i++) {
        assign_group(params, &params->params[i], options->max_tensor_bytes, sm_dtype_size(plan->real));
    }
    for (int g = 0; g < params->n_groups; g++) {
        SM_TRY(add_group_tensors(plan, &params->groups[g], g, options));
    }
    for (int i = 0; i < params->n_params; i++) {
        gpt2_param *p = &params->params[i];
        SM_TRY(add_views(plan, &params->groups[p->group], p));
        plan->tensors[p->value].working_copy = p->operand;
        p->operand = p->operand == SM_NO_TENSOR ? p->value : p->operand;
    }
    return SM_OK;
}

void gpt2_params_free(gpt2_params *params) {
    free(params->params);
    free(params->groups);
}

const gpt2_param *gpt2_params_get(const gpt2_params *params, param_kind kind, int layer) {
    switch (kind) {
    case WTE: return &params->params[0];
    case WPE: return &params->params[1];
    case LNF_W: return &params->params[params->n_params - 2];
    case LNF_B: return &params->params[params->n_params - 1];
    default: return &params->params[2 + layer * N_BLOCK_PARAMS + (int)(kind - LN1_W)];
    }
}
