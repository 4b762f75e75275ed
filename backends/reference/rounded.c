// rounded.c: runs an op of a plan with data, or factors of products, less exact than f32: the op in f32, on rounded
// operands, with results rounded to the plan's data type.
#include "backends/reference/reference.h"

bool ref_is_rounded(const sm_plan *plan) {
    return sm_dtype_is_narrow(plan->dtype) || plan->products == SM_PRODUCTS_TF32;
}

// Operands that need f32 copies: data.
static bool is_copied(const sm_operand_info *operand, const sm_tensor *t) {
    return t != NULL && operand->type == SM_OPERAND_DATA;
}

int64_t ref_rounded_elems(const host_op *op) {
    const sm_op_info *info = sm_op_get_info(op->op->kind);
    int64_t n_elems = 0;
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        n_elems += is_copied(&info->operands[k], op->tensors[k]) ? sm_tensor_elems(op->tensors[k]) : 0;
    }
    return n_elems;
}

// Rounds to 11 significant bits, to nearest.
static void round_to_tf32(int64_t n, float *values) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits = (bits & 0x7F800000u) == 0x7F800000u ? bits : (bits + 0x1000u) & ~0x1FFFu;
        memcpy(&values[i], &bits, sizeof bits);
    }
}

// Allocates from the remaining room.
static void *widened(float **room, const sm_tensor *t, const void *values) {
    float *wide = *room;
    *room += sm_tensor_elems(t);
    sm_dtype_format(t->dtype)->widen(sm_tensor_elems(t), values, wide);
    return wide;
}

// The numbers of a product's factor of 8 bits, in the equation's order also if it is transposed. `as` describes it.
static void *widened_factor(float **room, const host_op *op, int k, sm_tensor *as) {
    const bool is_dw = op->op->kind == SM_OP_MATMUL_BACKWARD_WEIGHT;
    const int k_scale = is_dw ? SM_IN(matmul_backward_weight, x_scale) : SM_IN(matmul_forward, x_scale);
    const float scale = *(const float *)op->in[k_scale + k];
    const int64_t rows = sm_tensor_rows(op->in_tensor[k]);
    const int64_t cols = sm_tensor_cols(op->in_tensor[k]);
    const int64_t n = rows * cols;
    float *wide = *room;
    *room += n;
    *as = *op->in_tensor[k];
    for (int64_t i = 0; i < n; i++) {
        float *x = &wide[is_dw ? i % cols * rows + i / cols : i];
        sm_dtype_format(as->dtype)->widen(1, (const uint8_t *)op->in[k] + i, x);
        *x /= scale;
    }
    if (is_dw) {
        as->n_dims = 2;
        as->dims[0] = cols;
        as->dims[1] = rows;
    }
    return wide;
}

// db of a product's op, which is a sum of dy as it is.
static void sum_unrounded(const host_op *op, double *scratch) {
    enum { DB = SM_OUT(matmul_backward_weight, db), DY = SM_IN(matmul_backward_weight, dy) };
    const sm_op sum = sm_op_make(SM_OP_BIAS_BACKWARD, op->op->phase, op->op->layer);
    const host_op bias = {.op = &sum,
                          .in = {op->in[DY]},
                          .in_tensor = {op->in_tensor[DY]},
                          .out = {op->out[DB]},
                          .out_tensor = {op->out_tensor[DB]}};
    if (op->op->attr.overwrites) {
        memset(op->out[DB], 0, (size_t)sm_tensor_elems(op->out_tensor[DB]) * sizeof(float));
    }
    ref_run_f32(&bias, scratch);
}

void ref_run_rounded(const host_op *op, sm_products products, double *scratch, float *room) {
    const sm_op_info *info = sm_op_get_info(op->op->kind);
    const bool multiplies = sm_op_is_matmul(op->op->kind) || sm_op_is_attention(op->op->kind);
    const bool to_tf32 = multiplies && products == SM_PRODUCTS_TF32;
    host_op wide = *op;
    sm_tensor factors[2];
    for (int k = 0; k < SM_MAX_OPERANDS; k++) { // also outputs that the op does not change
        if (op->op->attr.fp8 && k < 2) {
            wide.in[k] = widened_factor(&room, op, k, &factors[k]);
            wide.in_tensor[k] = &factors[k];
        } else if (is_copied(&info->operands[k], op->tensors[k])) {
            wide.operands[k] = widened(&room, op->tensors[k], op->operands[k]);
            if (to_tf32 && k < SM_MAX_IN && !(info->in[k].flags & SM_OPTIONAL)) { // these belong to epilogues
                round_to_tf32(sm_tensor_elems(op->tensors[k]), wide.in[k]);
            }
        }
    }
    if (to_tf32 && op->op->kind == SM_OP_MATMUL_BACKWARD_WEIGHT &&
        op->out[SM_OUT(matmul_backward_weight, db)] != NULL) {
        wide.out[SM_OUT(matmul_backward_weight, db)] = NULL;
        sum_unrounded(op, scratch);
    }
    ref_run_f32(&wide, scratch);
    for (int k = 0; k < SM_MAX_OUT; k++) {
        if (is_copied(&info->out[k], op->out_tensor[k])) {
            const bool is_of_p = strcmp(info->out[k].name, "w") == 0; // an update's, for matmuls
            const void *result = wide.out[is_of_p ? 0 : k];
            sm_dtype_format(op->out_tensor[k]->dtype)->round(sm_tensor_elems(op->out_tensor[k]), result, op->out[k]);
        }
    }
}
