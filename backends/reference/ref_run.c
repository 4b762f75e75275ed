// ref_run.c: from an op of a plan to its function: operands and attributes become arguments.
// The order of operands is that of src/op_kinds.c.
#include "ref.h"
#include "reference.h"

static int64_t n_elems(const sm_tensor *t) { return sm_tensor_elems(t); }
static int64_t n_rows(const sm_tensor *t) { return sm_tensor_rows(t); }
static int64_t n_cols(const sm_tensor *t) { return sm_tensor_cols(t); }

// The mask of a dropout whose rng_step is input `i`; without one nothing is dropped.
static ref_mask mask(const host_op *op, int i) {
    const uint32_t *step = op->in[i];
    if (step == NULL) {
        return (ref_mask){.p = 0};
    }
    return (ref_mask){
        .p = op->op->attr.dropout_p, .key = op->op->attr.rng_key, .step = step[0] | (uint64_t)step[1] << 32};
}

// qkv is input `i` and rng_step, where there is one, input `i_step`.
static ref_attention attention(const host_op *op, int i, int i_step) {
    const sm_tensor *qkv = op->in_tensor[i];
    int64_t NH = op->op->attr.n_head;
    return (ref_attention){
        .B = qkv->dims[0], .T = qkv->dims[1], .NH = NH, .HS = qkv->dims[2] / 3 / NH, .mask = mask(op, i_step)};
}

static void matmul_forward(const host_op *op) {
    const int64_t N = n_rows(op->in_tensor[0]);
    const int64_t C = n_cols(op->in_tensor[0]);
    const int64_t F = n_cols(op->out_tensor[0]);
    const sm_attrs *attr = &op->op->attr;
    REF(matmul_forward)(N, C, F, attr->w_transposed, op->in[0], op->in[1], op->out[0]);
    if (attr->epilogue & SM_EPILOGUE_BIAS) {
        REF(bias_forward)(N, F, op->out[0], op->in[2], op->out[0]);
    }
    if (attr->epilogue & SM_EPILOGUE_GELU) {
        REF(gelu_forward)(N * F, op->out[0], op->out[1]);
    }
}

static void matmul_backward_input(const host_op *op) {
    const int64_t N = n_rows(op->in_tensor[0]);
    const int64_t F = n_cols(op->in_tensor[0]);
    const int64_t C = n_cols(op->out_tensor[0]);
    const sm_attrs *attr = &op->op->attr;
    REF(matmul_backward_input)(N, C, F, attr->w_transposed, op->in[0], op->in[1], op->out[0]);
    if (attr->epilogue & SM_EPILOGUE_GELU_BACKWARD) {
        REF(gelu_backward)(N * C, op->out[0], op->in[2], op->out[0]);
    }
}

static void matmul_backward_weight(const host_op *op) {
    const int64_t N = n_rows(op->in_tensor[0]);
    const int64_t C = n_cols(op->in_tensor[0]);
    const int64_t F = n_cols(op->in_tensor[1]);
    if (op->op->attr.overwrites) {
        REF(zero)(C * F, op->out[0]);
    }
    REF(matmul_backward_weight)(N, C, F, op->op->attr.w_transposed, op->in[0], op->in[1], op->out[0]);
}

static void run_attention(const host_op *op, double *scratch) {
    void *const *in = op->in;
    void *const *out = op->out;
    ref_attention a;
    switch (op->op->kind) {
    case SM_OP_ATTENTION_FORWARD:
        a = attention(op, 0, 1);
        REF(attention_forward)(&a, in[0], out[0], out[1], scratch);
        break;
    case SM_OP_ATTENTION_BACKWARD:
        a = attention(op, 1, 3);
        REF(attention_backward)(&a, in[0], in[1], in[2], out[0], scratch);
        break;
    case SM_OP_FLASH_ATTENTION_FORWARD:
        a = attention(op, 0, 1);
        REF(flash_attention_forward)(&a, in[0], out[0], out[1], scratch);
        break;
    default: // SM_OP_FLASH_ATTENTION_BACKWARD
        a = attention(op, 1, 4);
        REF(flash_attention_backward)(&a, in[0], in[1], in[3], out[0], scratch);
        break;
    }
}

static void run_embedding(const host_op *op, double *scratch) {
    void *const *in = op->in;
    void *const *out = op->out;
    const int64_t B = op->in_tensor[0]->dims[0]; // token (B,T)
    const int64_t T = op->in_tensor[0]->dims[1];
    const int64_t C = n_cols(op->out_tensor[0]);
    if (op->op->kind == SM_OP_EMBEDDING_FORWARD) {
        REF(embedding_forward)(B, T, C, in[0], in[1], in[2], out[0]);
    } else {
        REF(embedding_backward)(B, T, C, n_rows(op->out_tensor[0]), in[0], in[1], out[0], out[1], scratch);
    }
}

static void run_dropout(const host_op *op) {
    ref_mask m = mask(op, 1);
    REF(dropout)(n_elems(op->out_tensor[0]), &m, op->in[0], op->out[0]);
}

// N and C are the rows and columns of the first input, n_out the elements of the first output.
void REF(run)(const host_op *op, double *scratch) {
    const sm_attrs *attr = &op->op->attr;
    void *const *in = op->in;
    void *const *out = op->out;
    const int64_t n_out = n_elems(op->out_tensor[0]);
    const int64_t n_in = in[0] == NULL ? 0 : n_elems(op->in_tensor[0]);
    const int64_t N = in[0] == NULL ? 0 : n_rows(op->in_tensor[0]);
    const int64_t C = in[0] == NULL ? 0 : n_cols(op->in_tensor[0]);
    switch (op->op->kind) {
    case SM_OP_ZERO: REF(zero)(n_out, out[0]); break;
    case SM_OP_LOSS_SCALE: REF(loss_scale)(n_in, in[0], in[1], out[0]); break;
    case SM_OP_EMBEDDING_FORWARD:
    case SM_OP_EMBEDDING_BACKWARD: run_embedding(op, scratch); break;
    case SM_OP_DROPOUT: run_dropout(op); break;
    case SM_OP_LAYERNORM_FORWARD:
        REF(layernorm_forward)(N, C, attr->eps, in[0], in[1], in[2], out[0], out[1], out[2]);
        break;
    case SM_OP_LAYERNORM_BACKWARD:
        REF(layernorm_backward)(N, C, in[0], in[1], in[2], in[3], in[4], NULL, out[0], out[1], out[2]);
        break;
    case SM_OP_MATMUL_FORWARD: matmul_forward(op); break;
    case SM_OP_MATMUL_BACKWARD_INPUT: matmul_backward_input(op); break;
    case SM_OP_MATMUL_BACKWARD_WEIGHT: matmul_backward_weight(op); break;
    case SM_OP_BIAS_FORWARD: REF(bias_forward)(N, C, in[0], in[1], out[0]); break;
    case SM_OP_BIAS_BACKWARD: REF(bias_backward)(N, C, in[0], out[0]); break;
    case SM_OP_ATTENTION_FORWARD:
    case SM_OP_ATTENTION_BACKWARD:
    case SM_OP_FLASH_ATTENTION_FORWARD:
    case SM_OP_FLASH_ATTENTION_BACKWARD: run_attention(op, scratch); break;
    case SM_OP_GELU_FORWARD: REF(gelu_forward)(n_out, in[0], out[0]); break;
    case SM_OP_GELU_BACKWARD: REF(gelu_backward)(n_out, in[0], in[1], out[0]); break;
    case SM_OP_RESIDUAL: REF(residual)(n_out, in[0], in[1], out[0]); break;
    case SM_OP_CROSSENTROPY_FORWARD: REF(crossentropy_forward)(N, attr->vocab, C, in[0], in[1], out[0], out[1]); break;
    case SM_OP_CROSSENTROPY_BACKWARD:
        REF(crossentropy_backward)(N, attr->vocab, C, in[0], in[1], in[2], in[3], out[0]);
        break;
    case SM_OP_LOSS_MEAN: REF(loss_mean)(n_in, in[0], in[1], out[0]); break;
    case SM_OP_GRAD_SQNORM: REF(grad_sqnorm)(n_in, in[0], out[0]); break;
    case SM_OP_GRAD_CLIP: REF(grad_clip)(n_in, in[0], in[1], out[0], out[1]); break;
    case SM_OP_ADAMW: REF(adamw)(n_out, attr->decay, in[0], in[1], in[2], out[0], out[1], out[2]); break;
    case SM_OP_RESIDUAL_LAYERNORM_FORWARD:
        REF(residual_layernorm_forward)(N, C, attr->eps, in[0], in[1], in[2], in[3], out[0], out[1], out[2], out[3]);
        break;
    case SM_OP_RESIDUAL_LAYERNORM_BACKWARD:
        REF(layernorm_backward)(N, C, in[0], in[1], in[2], in[3], in[4], in[5], out[0], out[1], out[2]);
        break;
    case SM_OP_KIND_COUNT: break; // not a kind
    }
}
