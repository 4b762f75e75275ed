// run.c: calls an op's function: operands and attributes become arguments.
#include "backends/reference/ref.h"
#include "backends/reference/reference.h"

// Address of an operand.
#define INPUT(kind, operand)  (op->in[SM_IN(kind, operand)])
#define OUTPUT(kind, operand) (op->out[SM_OUT(kind, operand)])

#define CALL(name, ...) REF(name)(__VA_ARGS__)

// The function of a kind; few need scratch.
#define RUN(kind) static void run_##kind(const host_op *op, __attribute__((unused)) double *scratch)

static int64_t n_elems(const sm_tensor *t) { return sm_tensor_elems(t); }
static int64_t n_rows(const sm_tensor *t) { return sm_tensor_rows(t); }
static int64_t n_cols(const sm_tensor *t) { return sm_tensor_cols(t); }

// The mask of a dropout with rng_step as input `i`; without it nothing is dropped.
static ref_mask mask(const host_op *op, int i) {
    const uint32_t *step = op->in[i];
    if (step == NULL) {
        return (ref_mask){.p = 0};
    }
    return (ref_mask){
        .p = op->op->attr.dropout_p, .key = op->op->attr.rng_key, .step = step[0] | (uint64_t)step[1] << 32};
}

// qkv is input `i`; the optional rng_step and starts are inputs `i_step` and `i_starts`.
static ref_attention attention(const host_op *op, int i, int i_step, int i_starts) {
    const sm_tensor *qkv = op->in_tensor[i];
    const sm_attrs *attr = &op->op->attr;
    return (ref_attention){.B = qkv->dims[0],
                           .T = qkv->dims[1],
                           .NH = attr->n_head,
                           .NKV = attr->n_kv_head,
                           .HS = qkv->dims[2] / (attr->n_head + 2 * attr->n_kv_head),
                           .starts = op->in[i_starts],
                           .mask = mask(op, i_step)};
}

RUN(zero) { CALL(zero, n_elems(op->out_tensor[SM_OUT(zero, x)]), OUTPUT(zero, x)); }

RUN(loss_scale) {
    CALL(loss_scale, n_elems(op->in_tensor[SM_IN(loss_scale, targets)]), INPUT(loss_scale, targets),
         INPUT(loss_scale, hyper), INPUT(loss_scale, scaler), OUTPUT(loss_scale, scale));
}

RUN(embedding_forward) {
    const int64_t *dims = op->out_tensor[SM_OUT(embedding_forward, x)]->dims; // (B,T,C)
    CALL(embedding_forward, dims[0], dims[1], dims[2], INPUT(embedding_forward, token),
         INPUT(embedding_forward, starts), INPUT(embedding_forward, wte), INPUT(embedding_forward, wpe),
         OUTPUT(embedding_forward, x));
}

RUN(embedding_backward) {
    const int64_t *dims = op->in_tensor[SM_IN(embedding_backward, dx)]->dims; // (B,T,C)
    const int64_t V = n_rows(op->out_tensor[SM_OUT(embedding_backward, dwte)]);
    CALL(embedding_backward, dims[0], dims[1], dims[2], V, INPUT(embedding_backward, token),
         INPUT(embedding_backward, starts), INPUT(embedding_backward, dx), OUTPUT(embedding_backward, dwte),
         OUTPUT(embedding_backward, dwpe), scratch);
}

RUN(dropout) {
    const ref_mask m = mask(op, SM_IN(dropout, rng_step));
    CALL(dropout, n_elems(op->out_tensor[SM_OUT(dropout, y)]), &m, INPUT(dropout, x), OUTPUT(dropout, y));
}

RUN(layernorm_forward) {
    const sm_tensor *x = op->in_tensor[SM_IN(layernorm_forward, x)];
    CALL(layernorm_forward, n_rows(x), n_cols(x), op->op->attr.eps, INPUT(layernorm_forward, x),
         INPUT(layernorm_forward, w), INPUT(layernorm_forward, b), OUTPUT(layernorm_forward, y),
         OUTPUT(layernorm_forward, mean), OUTPUT(layernorm_forward, rstd));
}

// The gradient of a bias, output `i` of an op, is optional. dy is that of the rows to which the bias was added.
static void add_to_bias(const host_op *op, int i, const void *dy, const sm_tensor *of) {
    if (op->out[i] != NULL) {
        CALL(bias_backward, n_rows(of), n_cols(of), dy, op->out[i]);
    }
}

RUN(layernorm_backward) {
    const sm_tensor *dy = op->in_tensor[SM_IN(layernorm_backward, dy)];
    CALL(layernorm_backward, n_rows(dy), n_cols(dy), INPUT(layernorm_backward, dy), INPUT(layernorm_backward, x),
         INPUT(layernorm_backward, w), INPUT(layernorm_backward, mean), INPUT(layernorm_backward, rstd), NULL,
         OUTPUT(layernorm_backward, dx), OUTPUT(layernorm_backward, dw), OUTPUT(layernorm_backward, db));
    add_to_bias(op, SM_OUT(layernorm_backward, dbias), OUTPUT(layernorm_backward, dx), dy);
}

RUN(matmul_forward) {
    const int64_t N = n_rows(op->in_tensor[SM_IN(matmul_forward, x)]);
    const int64_t C = n_cols(op->in_tensor[SM_IN(matmul_forward, x)]);
    const int64_t F = n_cols(op->out_tensor[SM_OUT(matmul_forward, y)]);
    const sm_attrs *attr = &op->op->attr;
    CALL(matmul_forward, N, C, F, attr->w_transposed, INPUT(matmul_forward, x), INPUT(matmul_forward, W),
         OUTPUT(matmul_forward, y));
    if (attr->epilogue & SM_EPILOGUE_BIAS) {
        CALL(bias_forward, N, F, OUTPUT(matmul_forward, y), INPUT(matmul_forward, b), OUTPUT(matmul_forward, y));
    }
    if (attr->epilogue & SM_EPILOGUE_GELU) {
        CALL(gelu_forward, N * F, OUTPUT(matmul_forward, y), OUTPUT(matmul_forward, act));
    }
}

RUN(matmul_backward_input) {
    const int64_t N = n_rows(op->in_tensor[SM_IN(matmul_backward_input, dy)]);
    const int64_t F = n_cols(op->in_tensor[SM_IN(matmul_backward_input, dy)]);
    const int64_t C = n_cols(op->out_tensor[SM_OUT(matmul_backward_input, dx)]);
    const sm_attrs *attr = &op->op->attr;
    CALL(matmul_backward_input, N, C, F, attr->w_transposed, INPUT(matmul_backward_input, dy),
         INPUT(matmul_backward_input, W), OUTPUT(matmul_backward_input, dx));
    if (attr->epilogue & SM_EPILOGUE_GELU_BACKWARD) {
        CALL(gelu_backward, N * C, OUTPUT(matmul_backward_input, dx), INPUT(matmul_backward_input, pre),
             OUTPUT(matmul_backward_input, dx));
    }
}

RUN(matmul_backward_weight) {
    const int64_t N = n_rows(op->in_tensor[SM_IN(matmul_backward_weight, x)]);
    const int64_t C = n_cols(op->in_tensor[SM_IN(matmul_backward_weight, x)]);
    const sm_tensor *dy = op->in_tensor[SM_IN(matmul_backward_weight, dy)];
    const int64_t F = n_cols(dy);
    if (op->op->attr.overwrites) {
        CALL(zero, C * F, OUTPUT(matmul_backward_weight, dW));
    }
    if (op->op->attr.overwrites && OUTPUT(matmul_backward_weight, db) != NULL) {
        CALL(zero, F, OUTPUT(matmul_backward_weight, db));
    }
    CALL(matmul_backward_weight, N, C, F, op->op->attr.w_transposed, INPUT(matmul_backward_weight, x),
         INPUT(matmul_backward_weight, dy), OUTPUT(matmul_backward_weight, dW));
    add_to_bias(op, SM_OUT(matmul_backward_weight, db), INPUT(matmul_backward_weight, dy), dy);
}

RUN(bias_forward) {
    const sm_tensor *x = op->in_tensor[SM_IN(bias_forward, x)];
    CALL(bias_forward, n_rows(x), n_cols(x), INPUT(bias_forward, x), INPUT(bias_forward, b), OUTPUT(bias_forward, y));
}

RUN(bias_backward) {
    const sm_tensor *dy = op->in_tensor[SM_IN(bias_backward, dy)];
    CALL(bias_backward, n_rows(dy), n_cols(dy), INPUT(bias_backward, dy), OUTPUT(bias_backward, db));
}

RUN(attention_forward) {
    const ref_attention a = attention(op, SM_IN(attention_forward, qkv), SM_IN(attention_forward, rng_step),
                                      SM_IN(attention_forward, starts));
    CALL(attention_forward, &a, INPUT(attention_forward, qkv), OUTPUT(attention_forward, y),
         OUTPUT(attention_forward, att), scratch);
}

RUN(attention_backward) {
    const ref_attention a = attention(op, SM_IN(attention_backward, qkv), SM_IN(attention_backward, rng_step),
                                      SM_IN(attention_backward, starts));
    CALL(attention_backward, &a, INPUT(attention_backward, dy), INPUT(attention_backward, qkv),
         INPUT(attention_backward, att), OUTPUT(attention_backward, dqkv), scratch);
}

RUN(gelu_forward) {
    CALL(gelu_forward, n_elems(op->out_tensor[SM_OUT(gelu_forward, y)]), INPUT(gelu_forward, x),
         OUTPUT(gelu_forward, y));
}

RUN(gelu_backward) {
    CALL(gelu_backward, n_elems(op->out_tensor[SM_OUT(gelu_backward, dx)]), INPUT(gelu_backward, dy),
         INPUT(gelu_backward, x), OUTPUT(gelu_backward, dx));
}

RUN(rmsnorm_forward) {
    const sm_tensor *x = op->in_tensor[SM_IN(rmsnorm_forward, x)];
    CALL(rmsnorm_forward, n_rows(x), n_cols(x), op->op->attr.eps, INPUT(rmsnorm_forward, x), INPUT(rmsnorm_forward, w),
         OUTPUT(rmsnorm_forward, y), OUTPUT(rmsnorm_forward, rstd));
}

RUN(rmsnorm_backward) {
    const sm_tensor *dy = op->in_tensor[SM_IN(rmsnorm_backward, dy)];
    CALL(rmsnorm_backward, n_rows(dy), n_cols(dy), INPUT(rmsnorm_backward, dy), INPUT(rmsnorm_backward, x),
         INPUT(rmsnorm_backward, w), INPUT(rmsnorm_backward, rstd), NULL, OUTPUT(rmsnorm_backward, dx),
         OUTPUT(rmsnorm_backward, dw));
}

RUN(rope) {
    const sm_attrs *attr = &op->op->attr;
    const int64_t *dims = op->in_tensor[SM_IN(rope, x)]->dims; // (B,T,(NH+2NKV)HS)
    const int64_t HS = dims[2] / (attr->n_head + 2 * attr->n_kv_head);
    CALL(rope, dims[0], dims[1], attr->n_head, attr->n_kv_head, HS, attr->rope_theta, attr->inverse,
         INPUT(rope, starts), INPUT(rope, x), OUTPUT(rope, y));
}

RUN(head_rmsnorm_forward) {
    const sm_attrs *attr = &op->op->attr;
    const int64_t HS = n_elems(op->in_tensor[SM_IN(head_rmsnorm_forward, wq)]);
    CALL(head_rmsnorm_forward, n_rows(op->in_tensor[SM_IN(head_rmsnorm_forward, x)]), attr->n_head, attr->n_kv_head, HS,
         attr->eps, INPUT(head_rmsnorm_forward, x), INPUT(head_rmsnorm_forward, wq), INPUT(head_rmsnorm_forward, wk),
         OUTPUT(head_rmsnorm_forward, y), OUTPUT(head_rmsnorm_forward, rstd));
}

RUN(head_rmsnorm_backward) {
    const sm_attrs *attr = &op->op->attr;
    const int64_t HS = n_elems(op->in_tensor[SM_IN(head_rmsnorm_backward, wq)]);
    CALL(head_rmsnorm_backward, n_rows(op->in_tensor[SM_IN(head_rmsnorm_backward, x)]), attr->n_head, attr->n_kv_head,
         HS, INPUT(head_rmsnorm_backward, dy), INPUT(head_rmsnorm_backward, x), INPUT(head_rmsnorm_backward, wq),
         INPUT(head_rmsnorm_backward, wk), INPUT(head_rmsnorm_backward, rstd), OUTPUT(head_rmsnorm_backward, dx),
         OUTPUT(head_rmsnorm_backward, dwq), OUTPUT(head_rmsnorm_backward, dwk));
}

RUN(swiglu_forward) {
    const sm_tensor *y = op->out_tensor[SM_OUT(swiglu_forward, y)];
    CALL(swiglu_forward, n_rows(y), n_cols(y), INPUT(swiglu_forward, x), OUTPUT(swiglu_forward, y));
}

RUN(swiglu_backward) {
    const sm_tensor *dy = op->in_tensor[SM_IN(swiglu_backward, dy)];
    CALL(swiglu_backward, n_rows(dy), n_cols(dy), INPUT(swiglu_backward, dy), INPUT(swiglu_backward, x),
         OUTPUT(swiglu_backward, dx));
}

RUN(residual) {
    CALL(residual, n_elems(op->out_tensor[SM_OUT(residual, y)]), INPUT(residual, a), INPUT(residual, b),
         OUTPUT(residual, y));
}

RUN(crossentropy_forward) {
    const sm_tensor *logits = op->in_tensor[SM_IN(crossentropy_forward, logits)];
    CALL(crossentropy_forward, n_rows(logits), op->op->attr.vocab, n_cols(logits), INPUT(crossentropy_forward, logits),
         INPUT(crossentropy_forward, target), OUTPUT(crossentropy_forward, losses), OUTPUT(crossentropy_forward, lse));
}

RUN(crossentropy_backward) {
    const sm_tensor *logits = op->in_tensor[SM_IN(crossentropy_backward, logits)];
    CALL(crossentropy_backward, n_rows(logits), op->op->attr.vocab, n_cols(logits),
         INPUT(crossentropy_backward, logits), INPUT(crossentropy_backward, target), INPUT(crossentropy_backward, lse),
         INPUT(crossentropy_backward, scale), OUTPUT(crossentropy_backward, dlogits));
}

RUN(crossentropy_with_gradient) {
    const sm_tensor *logits = op->in_tensor[SM_IN(crossentropy_with_gradient, logits)];
    CALL(crossentropy_with_gradient, n_rows(logits), op->op->attr.vocab, n_cols(logits),
         INPUT(crossentropy_with_gradient, logits), INPUT(crossentropy_with_gradient, target),
         INPUT(crossentropy_with_gradient, scale), OUTPUT(crossentropy_with_gradient, dlogits),
         OUTPUT(crossentropy_with_gradient, losses));
}

RUN(loss_mean) {
    CALL(loss_mean, n_elems(op->in_tensor[SM_IN(loss_mean, losses)]), INPUT(loss_mean, losses),
         INPUT(loss_mean, target), OUTPUT(loss_mean, loss));
}

RUN(grad_sqnorm) {
    CALL(grad_sqnorm, n_elems(op->in_tensor[SM_IN(grad_sqnorm, g)]), INPUT(grad_sqnorm, g),
         OUTPUT(grad_sqnorm, sqnorm));
}

RUN(grad_clip) {
    CALL(grad_clip, n_elems(op->in_tensor[SM_IN(grad_clip, sqnorm)]), INPUT(grad_clip, sqnorm), INPUT(grad_clip, hyper),
         INPUT(grad_clip, scaler), OUTPUT(grad_clip, norm), OUTPUT(grad_clip, clip));
}

RUN(scaler_update) {
    CALL(scaler_update, INPUT(scaler_update, clip), INPUT(scaler_update, hyper), OUTPUT(scaler_update, scaler));
}

RUN(adamw) {
    CALL(adamw, n_elems(op->out_tensor[SM_OUT(adamw, p)]), op->op->attr.decay, INPUT(adamw, g), INPUT(adamw, hyper),
         INPUT(adamw, clip), OUTPUT(adamw, p), OUTPUT(adamw, m), OUTPUT(adamw, v));
}

RUN(adam) {
    CALL(adam, n_elems(op->out_tensor[SM_OUT(adam, p)]), op->op->attr.decay, INPUT(adam, g), INPUT(adam, hyper),
         INPUT(adam, clip), OUTPUT(adam, p), OUTPUT(adam, m), OUTPUT(adam, v));
}

RUN(sgd) {
    CALL(sgd, n_elems(op->out_tensor[SM_OUT(sgd, p)]), op->op->attr.decay, INPUT(sgd, g), INPUT(sgd, hyper),
         INPUT(sgd, clip), OUTPUT(sgd, p), OUTPUT(sgd, m));
}

RUN(lion) {
    CALL(lion, n_elems(op->out_tensor[SM_OUT(lion, p)]), op->op->attr.decay, INPUT(lion, g), INPUT(lion, hyper),
         INPUT(lion, clip), OUTPUT(lion, p), OUTPUT(lion, m));
}

RUN(adamw8bit) {
    CALL(adamw8bit, n_elems(op->out_tensor[SM_OUT(adamw8bit, p)]), op->op->attr.decay, INPUT(adamw8bit, g),
         INPUT(adamw8bit, hyper), INPUT(adamw8bit, clip), OUTPUT(adamw8bit, p), OUTPUT(adamw8bit, m),
         OUTPUT(adamw8bit, v), OUTPUT(adamw8bit, m_max), OUTPUT(adamw8bit, v_max));
}

RUN(adafactor) {
    const sm_tensor *p = op->out_tensor[SM_OUT(adafactor, p)];
    CALL(adafactor, n_rows(p), n_cols(p), op->op->attr.decay, INPUT(adafactor, g), INPUT(adafactor, hyper),
         INPUT(adafactor, clip), OUTPUT(adafactor, p), OUTPUT(adafactor, row), OUTPUT(adafactor, col));
}

RUN(adafactor_vector) {
    CALL(adafactor_vector, n_elems(op->out_tensor[SM_OUT(adafactor_vector, p)]), INPUT(adafactor_vector, g),
         INPUT(adafactor_vector, hyper), INPUT(adafactor_vector, clip), OUTPUT(adafactor_vector, p),
         OUTPUT(adafactor_vector, v));
}

RUN(muon_momentum) {
    CALL(muon_momentum, n_elems(op->out_tensor[SM_OUT(muon_momentum, m)]), INPUT(muon_momentum, g),
         INPUT(muon_momentum, hyper), INPUT(muon_momentum, clip), OUTPUT(muon_momentum, m), OUTPUT(muon_momentum, u));
}

RUN(normalize) {
    const sm_tensor *u = op->in_tensor[SM_IN(normalize, u)];
    CALL(normalize, n_rows(u), n_cols(u), op->op->attr.w_transposed, INPUT(normalize, u), INPUT(normalize, sqnorm),
         OUTPUT(normalize, x));
}

RUN(combine) {
    CALL(combine, n_elems(op->out_tensor[SM_OUT(combine, y)]), op->op->attr.a, op->op->attr.b, INPUT(combine, x),
         INPUT(combine, z), OUTPUT(combine, y));
}

RUN(muon_update) {
    const sm_tensor *p = op->out_tensor[SM_OUT(muon_update, p)];
    CALL(muon_update, n_rows(p), n_cols(p), op->op->attr.w_transposed, op->op->attr.decay, INPUT(muon_update, x),
         INPUT(muon_update, hyper), OUTPUT(muon_update, p));
}

RUN(residual_layernorm_forward) {
    const sm_tensor *a = op->in_tensor[SM_IN(residual_layernorm_forward, a)];
    CALL(residual_layernorm_forward, n_rows(a), n_cols(a), op->op->attr.eps, INPUT(residual_layernorm_forward, a),
         INPUT(residual_layernorm_forward, b), INPUT(residual_layernorm_forward, w),
         INPUT(residual_layernorm_forward, beta), OUTPUT(residual_layernorm_forward, r),
         OUTPUT(residual_layernorm_forward, y), OUTPUT(residual_layernorm_forward, mean),
         OUTPUT(residual_layernorm_forward, rstd));
}

RUN(residual_layernorm_backward) {
    const sm_tensor *dy = op->in_tensor[SM_IN(residual_layernorm_backward, dy)];
    CALL(layernorm_backward, n_rows(dy), n_cols(dy), INPUT(residual_layernorm_backward, dy),
         INPUT(residual_layernorm_backward, x), INPUT(residual_layernorm_backward, w),
         INPUT(residual_layernorm_backward, mean), INPUT(residual_layernorm_backward, rstd),
         INPUT(residual_layernorm_backward, dskip), OUTPUT(residual_layernorm_backward, dx),
         OUTPUT(residual_layernorm_backward, dw), OUTPUT(residual_layernorm_backward, dbeta));
    add_to_bias(op, SM_OUT(residual_layernorm_backward, dbias), OUTPUT(residual_layernorm_backward, dx), dy);
}

RUN(residual_rmsnorm_forward) {
    const sm_tensor *a = op->in_tensor[SM_IN(residual_rmsnorm_forward, a)];
    CALL(residual_rmsnorm_forward, n_rows(a), n_cols(a), op->op->attr.eps, INPUT(residual_rmsnorm_forward, a),
         INPUT(residual_rmsnorm_forward, b), INPUT(residual_rmsnorm_forward, w), OUTPUT(residual_rmsnorm_forward, r),
         OUTPUT(residual_rmsnorm_forward, y), OUTPUT(residual_rmsnorm_forward, rstd));
}

RUN(residual_rmsnorm_backward) {
    const sm_tensor *dy = op->in_tensor[SM_IN(residual_rmsnorm_backward, dy)];
    CALL(rmsnorm_backward, n_rows(dy), n_cols(dy), INPUT(residual_rmsnorm_backward, dy),
         INPUT(residual_rmsnorm_backward, x), INPUT(residual_rmsnorm_backward, w),
         INPUT(residual_rmsnorm_backward, rstd), INPUT(residual_rmsnorm_backward, dskip),
         OUTPUT(residual_rmsnorm_backward, dx), OUTPUT(residual_rmsnorm_backward, dw));
}

RUN(flash_attention_forward) {
    const ref_attention a = attention(op, SM_IN(flash_attention_forward, qkv), SM_IN(flash_attention_forward, rng_step),
                                      SM_IN(flash_attention_forward, starts));
    CALL(flash_attention_forward, &a, INPUT(flash_attention_forward, qkv), OUTPUT(flash_attention_forward, y),
         OUTPUT(flash_attention_forward, lse), scratch);
}

RUN(flash_attention_backward) {
    const ref_attention a =
        attention(op, SM_IN(flash_attention_backward, qkv), SM_IN(flash_attention_backward, rng_step),
                  SM_IN(flash_attention_backward, starts));
    CALL(flash_attention_backward, &a, INPUT(flash_attention_backward, dy), INPUT(flash_attention_backward, qkv),
         INPUT(flash_attention_backward, lse), OUTPUT(flash_attention_backward, dqkv), scratch);
}

// A kind without a function does not compile.
static void (*const runs[SM_OP_KIND_COUNT])(const host_op *op, double *scratch) = {
#define OP(code, name, ...) [code] = run_##name,
#define SHARED_OP(...)
#include "op_table.h"
};

void REF(run)(const host_op *op, double *scratch) { runs[op->op->kind](op, scratch); }
