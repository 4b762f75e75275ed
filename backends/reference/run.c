// run.c: calls an op's function: operands and attributes become arguments.
#include "backends/reference/ref.h"
#include "backends/reference/reference.h"

static int64_t n_elems(const sm_tensor *t) { return sm_tensor_elems(t); }
static int64_t n_rows(const sm_tensor *t) { return sm_tensor_rows(t); }
static int64_t n_cols(const sm_tensor *t) { return sm_tensor_cols(t); }

// --- kinds with a call of their own -----------------------------------------------------------------

// own_NAME gets the op and its operands, in the table's order and of its types; few need scratch.
#define OWN(name, ...)                 \
    static REF(own_##name) own_##name; \
    static void own_##name(SM_UNUSED const host_op *op, SM_UNUSED double *scratch, __VA_ARGS__)

// The shape of an operand.
#define IN_SHAPE(kind, operand)  (op->in_tensor[SM_IN(kind, operand)])
#define OUT_SHAPE(kind, operand) (op->out_tensor[SM_OUT(kind, operand)])

// The mask of a dropout; without rng_step nothing is dropped.
static ref_mask mask(const sm_attrs *attr, const uint32_t *rng_step) {
    return rng_step == NULL ? (ref_mask){.p = 0}
                            : (ref_mask){.p = attr->dropout_p,
                                         .key = attr->rng_key,
                                         .step = rng_step[0] | (uint64_t)rng_step[1] << 32};
}

static ref_attention attention(const host_op *op, const sm_tensor *qkv, const uint32_t *rng_step,
                               const int32_t *starts) {
    const sm_attrs *attr = &op->op->attr;
    return (ref_attention){.B = qkv->dims[0],
                           .T = qkv->dims[1],
                           .NH = attr->n_head,
                           .NKV = attr->n_kv_head,
                           .HS = qkv->dims[2] / (attr->n_head + 2 * attr->n_kv_head),
                           .starts = starts,
                           .mask = mask(attr, rng_step),
                           .unmasked = attr->cut};
}

OWN(embedding_forward, const int32_t *token, const real *wte, const real *wpe, const int32_t *starts, real *x) {
    const int64_t *dims = OUT_SHAPE(embedding_forward, x)->dims; // (B,T,C)
    REF(embedding_forward)(dims[0], dims[1], dims[2], token, starts, wte, wpe, x);
}

OWN(embedding_backward, const int32_t *token, const real *dx, const int32_t *starts, real *dwte, real *dwpe) {
    const int64_t *dims = IN_SHAPE(embedding_backward, dx)->dims; // (B,T,C)
    const int64_t V = n_rows(OUT_SHAPE(embedding_backward, dwte));
    REF(embedding_backward)(dims[0], dims[1], dims[2], V, token, starts, dx, dwte, dwpe, scratch);
}

OWN(dropout, const real *x, const uint32_t *rng_step, real *y) {
    const ref_mask m = mask(&op->op->attr, rng_step);
    REF(dropout)(n_elems(OUT_SHAPE(dropout, y)), &m, x, y);
}

OWN(matmul_forward, const real *x, const real *W, const real *b, SM_UNUSED const real *x_scale,
    SM_UNUSED const real *W_scale, real *y, real *act) {
    const int64_t N = n_rows(IN_SHAPE(matmul_forward, x));
    const int64_t F = n_cols(OUT_SHAPE(matmul_forward, y));
    const sm_attrs *attr = &op->op->attr;
    REF(matmul_forward)(N, n_cols(IN_SHAPE(matmul_forward, x)), F, attr->w_transposed, x, W, y);
    if (attr->epilogue & SM_EPILOGUE_BIAS) {
        REF(bias_forward)(N, F, y, b, y);
    }
#define X(CODE, name, f, slope)                \
    if (attr->epilogue & SM_EPILOGUE_##CODE) { \
        REF(name##_forward)(N * F, y, act);    \
    }
    SM_ACTIVATION_LIST(X)
#undef X
}

OWN(matmul_backward_input, const real *dy, const real *W, const real *pre, SM_UNUSED const real *dy_scale,
    SM_UNUSED const real *W_scale, real *dx) {
    const int64_t N = n_rows(IN_SHAPE(matmul_backward_input, dy));
    const int64_t C = n_cols(OUT_SHAPE(matmul_backward_input, dx));
    const sm_attrs *attr = &op->op->attr;
    REF(matmul_backward_input)(N, C, n_cols(IN_SHAPE(matmul_backward_input, dy)), attr->w_transposed, dy, W, dx);
#define X(CODE, name, f, slope)                           \
    if (attr->epilogue & SM_EPILOGUE_##CODE##_BACKWARD) { \
        REF(name##_backward)(N * C, dx, pre, dx);         \
    }
    SM_ACTIVATION_LIST(X)
#undef X
}

OWN(matmul_backward_weight, const real *x, const real *dy, SM_UNUSED const real *x_scale,
    SM_UNUSED const real *dy_scale, real *dW, real *db) {
    const sm_tensor *rows = IN_SHAPE(matmul_backward_weight, dy);
    const int64_t C = n_cols(IN_SHAPE(matmul_backward_weight, x));
    const int64_t F = n_cols(rows);
    if (op->op->attr.overwrites) {
        REF(zero)(C * F, dW);
    }
    if (op->op->attr.overwrites && db != NULL) {
        REF(zero)(F, db);
    }
    REF(matmul_backward_weight)(n_rows(rows), C, F, op->op->attr.w_transposed, x, dy, dW);
    if (db != NULL) { // of the bias that was added to the rows
        REF(bias_backward)(n_rows(rows), n_cols(rows), dy, db);
    }
}

OWN(attention_forward, const real *qkv, const uint32_t *rng_step, const int32_t *starts, real *y, real *att) {
    const ref_attention a = attention(op, IN_SHAPE(attention_forward, qkv), rng_step, starts);
    REF(attention_forward)(&a, qkv, y, att, scratch);
}

OWN(attention_backward, const real *dy, const real *qkv, const real *att, const uint32_t *rng_step,
    const int32_t *starts, real *dqkv) {
    const ref_attention a = attention(op, IN_SHAPE(attention_backward, qkv), rng_step, starts);
    REF(attention_backward)(&a, dy, qkv, att, dqkv, scratch);
}

OWN(flash_attention_forward, const real *qkv, const uint32_t *rng_step, const int32_t *starts, real *y, real *lse) {
    const ref_attention a = attention(op, IN_SHAPE(flash_attention_forward, qkv), rng_step, starts);
    REF(flash_attention_forward)(&a, qkv, y, lse, scratch);
}

OWN(flash_attention_backward, const real *dy, const real *qkv, const real *y, const real *lse, const uint32_t *rng_step,
    const int32_t *starts, real *dqkv) {
    const ref_attention a = attention(op, IN_SHAPE(flash_attention_backward, qkv), rng_step, starts);
    REF(flash_attention_backward)(&a, dy, qkv, y, lse, dqkv, scratch);
}

OWN(rope, const real *x, const int32_t *starts, real *y) {
    const sm_attrs *attr = &op->op->attr;
    const int64_t *dims = IN_SHAPE(rope, x)->dims; // (B,T,(NH+2NKV)HS)
    const int64_t HS = dims[2] / (attr->n_head + 2 * attr->n_kv_head);
    REF(rope)(dims[0], dims[1], attr->n_head, attr->n_kv_head, HS, attr->rope_theta, attr->inverse, starts, x, y);
}

OWN(head_rmsnorm_forward, const real *x, const real *wq, const real *wk, real *y, real *rstd) {
    const sm_attrs *attr = &op->op->attr;
    REF(head_rmsnorm_forward)
    (n_rows(IN_SHAPE(head_rmsnorm_forward, x)), attr->n_head, attr->n_kv_head,
     n_elems(IN_SHAPE(head_rmsnorm_forward, wq)), attr->eps, x, wq, wk, y, rstd);
}

OWN(head_rmsnorm_backward, const real *dy, const real *x, const real *wq, const real *wk, const real *rstd, real *dx,
    real *dwq, real *dwk) {
    const sm_attrs *attr = &op->op->attr;
    REF(head_rmsnorm_backward)
    (n_rows(IN_SHAPE(head_rmsnorm_backward, x)), attr->n_head, attr->n_kv_head,
     n_elems(IN_SHAPE(head_rmsnorm_backward, wq)), dy, x, wq, wk, rstd, dx, dwq, dwk);
}

OWN(swiglu_forward, const real *x, real *y) {
    const sm_tensor *rows = OUT_SHAPE(swiglu_forward, y);
    REF(swiglu_forward)(n_rows(rows), n_cols(rows), x, y);
}

OWN(scaler_update, const real *clip, const real *hyper, real *scaler) { REF(scaler_update)(clip, hyper, scaler); }

OWN(muon_update, const real *x, const real *hyper, SM_UNUSED const real *clip, real *p) {
    const sm_tensor *rows = OUT_SHAPE(muon_update, p);
    REF(muon_update)(n_rows(rows), n_cols(rows), op->op->attr.w_transposed, op->op->attr.decay, x, hyper, p);
}

OWN(cast_fp8, const real *x, const real *scale, uint8_t *rows, uint8_t *columns, real *amax, real *db) {
    const sm_tensor *from = IN_SHAPE(cast_fp8, x);
    const sm_number_format *format = sm_dtype_format(OUT_SHAPE(cast_fp8, rows)->dtype);
    REF(cast_fp8)(n_rows(from), n_cols(from), format, x, scale, rows, columns, amax);
    if (db != NULL) {
        REF(bias_backward)(n_rows(from), n_cols(from), x, db);
    }
}

OWN(scale_update, real *amax, real *history, real *scale) {
    REF(scale_update)(n_elems(OUT_SHAPE(scale_update, amax)), op->op->attr.a, amax, history, scale);
}

// --- all kinds --------------------------------------------------------------------------------------

static const sm_tensor *first(const host_op *op) {
    return op->in_tensor[0] != NULL ? op->in_tensor[0] : op->out_tensor[0];
}

// static void run_gelu_forward(...) { ref_gelu_forward_f32(n_elems(first(op)), op->in[0], op->out[0]); }
#define HAS(attribute) , op->op->attr.attribute
#define NO_ATTRS
#define BY_ELEMENT(name, ...) REF(name)(n_elems(first(op)) __VA_ARGS__
#define BY_ROW(name, ...)     REF(name)(n_rows(first(op)), n_cols(first(op)) __VA_ARGS__
#define OWN_CALL(name, ...)   own_##name(op, scratch

// clang-format off
#define OP(code, name, inplace, work, again, call, look, attributes, ...)                 \
    static void run_##name(const host_op *op, SM_UNUSED double *scratch) {                   \
        typedef struct sm_inputs_of_##name inputs SM_UNUSED;                                   \
        typedef struct sm_outputs_of_##name outputs;                                      \
        call(name, attributes)
#define NO_SHARED_OPS
#define IN(operand, shape, type, flags)        , op->in[offsetof(inputs, operand) / sizeof(int)]
#define OUT(operand, shape, type, mode, flags) , op->out[offsetof(outputs, operand) / sizeof(int)]
#define WORKING_COPY(shape)
#define END                                    ); }
#include "op_table.h"
// clang-format on

static void (*const runs[SM_OP_KIND_COUNT])(const host_op *op, double *scratch) = {
#define OP(code, name, ...) [code] = run_##name,
#define NO_SHARED_OPS
#include "op_table.h"
};

void REF(run)(const host_op *op, double *scratch) { runs[op->op->kind](op, scratch); }
