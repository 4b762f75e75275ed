// op_kinds.c: the one table of op kinds: equation, operands, where the definition comes
// from; and, computed from an op's operands, its check, FLOPs and bytes.
//
// A shape is written in dimension letters. Two letters, "(N,C)", see the tensor as rows by
// columns (leading dims flattened); one letter counts elements; three or four are exact. The
// same letter must have the same value in all operands of an op.
#include <stdlib.h>
#include <string.h>

#include "op.h"
#include "plan.h"

// What the two floating types of the table stand for in a plan: sm_plan_operand_dtype().
#define REAL SM_F32
#define DATA SM_BF16

// clang-format off: a row of the table is a paragraph, an operand a word of it.
static const sm_op_info op_kinds[SM_OP_KIND_COUNT] =
    {
        [SM_OP_ZERO] =
            {
                .name = "zero",
                .equation = "x = 0",
                .source = "gradients of one step are a sum over its micro-batches, so they start at zero",
                .out = {{"x", "(n)", REAL, false, SM_WRITES}},
                .inplace_in = -1,
            },
        [SM_OP_LOSS_SCALE] =
            {
                .name = "loss_scale",
                .equation = "scale = hyper.loss_scale / max(1, number of targets that are not -1)",
                .source = "derivative of the mean loss with respect to one token's loss",
                .in = {{"targets", "(N)", SM_I32, false, SM_WRITES}, {"hyper", "(h)", REAL, false, SM_WRITES}},
                .out = {{"scale", "(1)", REAL, false, SM_WRITES}},
                .inplace_in = -1,
            },
        [SM_OP_EMBEDDING_FORWARD] =
            {
                .name = "embedding_forward",
                .equation = "x[b,t,:] = wte[token[b,t],:] + wpe[t,:]",
                .source = "Radford et al. 2018, section 3.1: h0 = U We + Wp",
                .in = {{"token", "(B,T)", SM_I32, false, SM_WRITES},
                       {"wte", "(V,C)", REAL, false, SM_WRITES},
                       {"wpe", "(P,C)", REAL, false, SM_WRITES}},
                .out = {{"x", "(B,T,C)", DATA, false, SM_WRITES}},
                .inplace_in = -1,
            },
        [SM_OP_EMBEDDING_BACKWARD] =
            {
                .name = "embedding_backward",
                .equation = "dwte[token[b,t],:] += dx[b,t,:];  dwpe[t,:] += sum_b dx[b,t,:]",
                .source = "derivative of embedding_forward",
                .in = {{"token", "(B,T)", SM_I32, false, SM_WRITES}, {"dx", "(B,T,C)", DATA, false, SM_WRITES}},
                .out = {{"dwte", "(V,C)", REAL, false, SM_ADDS}, {"dwpe", "(P,C)", REAL, false, SM_ADDS}},
                .inplace_in = -1,
            },
        [SM_OP_DROPOUT] =
            {
                .name = "dropout",
                .equation = "y = keep * x / (1 - p), keep ~ Bernoulli(1 - p) from Philox(key, element, rng_step); its "
                            "own derivative",
                .source = "Srivastava et al. 2014, section 4 (inverted form)",
                .in = {{"x", "(n)", DATA, false, SM_WRITES}, {"rng_step", "(2)", SM_U32, false, SM_WRITES}},
                .out = {{"y", "(n)", DATA, false, SM_WRITES}},
                .inplace_in = 0,
            },
        [SM_OP_LAYERNORM_FORWARD] =
            {
                .name = "layernorm_forward",
                .equation =
                    "mean = sum_c x / C;  rstd = 1/sqrt(sum_c (x - mean)^2 / C + eps);  y = (x - mean) rstd w + b",
                .source = "Ba et al. 2016, equations 3 and 4",
                .in = {{"x", "(N,C)", DATA, false, SM_WRITES},
                       {"w", "(C)", REAL, false, SM_WRITES},
                       {"b", "(C)", REAL, false, SM_WRITES}},
                .out = {{"y", "(N,C)", DATA, false, SM_WRITES},
                        {"mean", "(N)", REAL, false, SM_WRITES},
                        {"rstd", "(N)", REAL, false, SM_WRITES}},
                .inplace_in = -1,
            },
        [SM_OP_LAYERNORM_BACKWARD] =
            {
                .name = "layernorm_backward",
                .equation = "xh = (x - mean) rstd;  g = dy w;  dx = rstd (g - sum_c g / C - xh sum_c g xh / C);  dw += "
                            "sum_n dy xh;  db += sum_n dy",
                .source = "derivative of layernorm_forward",
                .in = {{"dy", "(N,C)", DATA, false, SM_WRITES},
                       {"x", "(N,C)", DATA, false, SM_WRITES},
                       {"w", "(C)", REAL, false, SM_WRITES},
                       {"mean", "(N)", REAL, false, SM_WRITES},
                       {"rstd", "(N)", REAL, false, SM_WRITES}},
                .out = {{"dx", "(N,C)", DATA, false, SM_WRITES},
                        {"dw", "(C)", REAL, false, SM_ADDS},
                        {"db", "(C)", REAL, false, SM_ADDS}},
                .inplace_in = -1,
            },
        [SM_OP_MATMUL_FORWARD] =
            {
                .name = "matmul_forward",
                .equation = "y = x W",
                .source = "a linear layer; W is (C,F), or (F,C) and used transposed (the tied head)",
                .in = {{"x", "(N,C)", DATA, false, SM_WRITES},
                       {"W", "(C,F)", DATA, false, SM_WRITES},
                       {"b", "(F)", REAL, true, SM_WRITES}},
                .out = {{"y", "(N,F)", DATA, false, SM_WRITES}, {"act", "(N,F)", DATA, true, SM_WRITES}},
                .inplace_in = -1,
            },
        [SM_OP_MATMUL_BACKWARD_INPUT] =
            {
                .name = "matmul_backward_input",
                .equation = "dx = dy W^T",
                .source = "derivative of matmul_forward with respect to x",
                .in = {{"dy", "(N,F)", DATA, false, SM_WRITES},
                       {"W", "(C,F)", DATA, false, SM_WRITES},
                       {"pre", "(N,C)", DATA, true, SM_WRITES}},
                .out = {{"dx", "(N,C)", DATA, false, SM_WRITES}},
                .inplace_in = -1,
            },
        [SM_OP_MATMUL_BACKWARD_WEIGHT] =
            {
                .name = "matmul_backward_weight",
                .equation = "dW += x^T dy",
                .source = "derivative of matmul_forward with respect to W",
                .in = {{"x", "(N,C)", DATA, false, SM_WRITES}, {"dy", "(N,F)", DATA, false, SM_WRITES}},
                .out = {{"dW", "(C,F)", REAL, false, SM_ADDS}},
                .inplace_in = -1,
            },
        [SM_OP_BIAS_FORWARD] =
            {
                .name = "bias_forward",
                .equation = "y = x + b",
                .source = "a linear layer's bias, broadcast over rows",
                .in = {{"x", "(N,C)", DATA, false, SM_WRITES}, {"b", "(C)", REAL, false, SM_WRITES}},
                .out = {{"y", "(N,C)", DATA, false, SM_WRITES}},
                .inplace_in = 0,
            },
        [SM_OP_BIAS_BACKWARD] =
            {
                .name = "bias_backward",
                .equation = "db += sum_n dy",
                .source = "derivative of bias_forward with respect to b",
                .in = {{"dy", "(N,C)", DATA, false, SM_WRITES}},
                .out = {{"db", "(C)", REAL, false, SM_ADDS}},
                .inplace_in = -1,
            },
        [SM_OP_ATTENTION_FORWARD] =
            {
                .name = "attention_forward",
                .equation = "per head: att = softmax(q k^T / sqrt(HS)) over keys s <= t;  y = dropout(att) v",
                .source = "Vaswani et al. 2017, equation 1, with a causal mask",
                .in = {{"qkv", "(B,T,3C)", DATA, false, SM_WRITES}, {"rng_step", "(2)", SM_U32, true, SM_WRITES}},
                .out = {{"y", "(B,T,C)", DATA, false, SM_WRITES}, {"att", "(B,NH,T,T)", DATA, false, SM_WRITES}},
                .inplace_in = -1,
            },
        [SM_OP_ATTENTION_BACKWARD] =
            {
                .name = "attention_backward",
                .equation = "dv = dropout(att)^T dy;  da = dropout(dy v^T);  ds = att (da - sum_s att da);  dq = ds k "
                            "/ sqrt(HS);  dk = ds^T q / sqrt(HS)",
                .source = "derivative of attention_forward",
                .in = {{"dy", "(B,T,C)", DATA, false, SM_WRITES},
                       {"qkv", "(B,T,3C)", DATA, false, SM_WRITES},
                       {"att", "(B,NH,T,T)", DATA, false, SM_WRITES},
                       {"rng_step", "(2)", SM_U32, true, SM_WRITES}},
                .out = {{"dqkv", "(B,T,3C)", DATA, false, SM_WRITES}},
                .inplace_in = -1,
            },
        [SM_OP_GELU_FORWARD] =
            {
                .name = "gelu_forward",
                .equation = "y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))",
                .source = "Hendrycks and Gimpel 2016, section 2 (tanh form)",
                .in = {{"x", "(n)", DATA, false, SM_WRITES}},
                .out = {{"y", "(n)", DATA, false, SM_WRITES}},
                .inplace_in = -1,
            },
        [SM_OP_GELU_BACKWARD] =
            {
                .name = "gelu_backward",
                .equation = "dx = dy gelu'(x)",
                .source = "derivative of gelu_forward",
                .in = {{"dy", "(n)", DATA, false, SM_WRITES}, {"x", "(n)", DATA, false, SM_WRITES}},
                .out = {{"dx", "(n)", DATA, false, SM_WRITES}},
                .inplace_in = 0,
            },
        [SM_OP_RESIDUAL] =
            {
                .name = "residual",
                .equation = "y = a + b",
                .source = "He et al. 2016, equation 1; backward, the gradients of a fan-out add the same way",
                .in = {{"a", "(n)", DATA, false, SM_WRITES}, {"b", "(n)", DATA, false, SM_WRITES}},
                .out = {{"y", "(n)", DATA, false, SM_WRITES}},
                .inplace_in = 0,
            },
        [SM_OP_CROSSENTROPY_FORWARD] =
            {
                .name = "crossentropy_forward",
                .equation = "lse = log sum_v<V exp(logits[n,v]);  losses[n] = lse - logits[n,target[n]], or 0 where "
                            "target is -1",
                .source = "Bridle 1990; negative log likelihood of the softmax over the V real columns",
                .in = {{"logits", "(N,Vp)", DATA, false, SM_WRITES}, {"target", "(N)", SM_I32, false, SM_WRITES}},
                .out = {{"losses", "(N)", REAL, false, SM_WRITES}, {"lse", "(N)", REAL, false, SM_WRITES}},
                .inplace_in = -1,
            },
        [SM_OP_CROSSENTROPY_BACKWARD] =
            {
                .name = "crossentropy_backward",
                .equation = "dlogits[n,v] = scale (exp(logits[n,v] - lse[n]) - [v = target[n]]); 0 where target is -1 "
                            "or v >= V",
                .source = "derivative of crossentropy_forward",
                .in = {{"logits", "(N,Vp)", DATA, false, SM_WRITES},
                       {"target", "(N)", SM_I32, false, SM_WRITES},
                       {"lse", "(N)", REAL, false, SM_WRITES},
                       {"scale", "(1)", REAL, false, SM_WRITES}},
                .out = {{"dlogits", "(N,Vp)", DATA, false, SM_WRITES}},
                .inplace_in = 0,
            },
        [SM_OP_LOSS_MEAN] =
            {
                .name = "loss_mean",
                .equation = "loss = sum_n losses[n] / max(1, number of targets that are not -1)",
                .source = "mean negative log likelihood of the micro-batch",
                .in = {{"losses", "(N)", REAL, false, SM_WRITES}, {"target", "(N)", SM_I32, false, SM_WRITES}},
                .out = {{"loss", "(1)", REAL, false, SM_WRITES}},
                .inplace_in = -1,
            },
        [SM_OP_GRAD_SQNORM] =
            {
                .name = "grad_sqnorm",
                .equation = "sqnorm = sum_i g[i]^2",
                .source = "Pascanu et al. 2013, section 3.2",
                .in = {{"g", "(n)", REAL, false, SM_WRITES}},
                .out = {{"sqnorm", "(1)", REAL, false, SM_WRITES}},
                .inplace_in = -1,
            },
        [SM_OP_GRAD_CLIP] =
            {
                .name = "grad_clip",
                .equation = "norm = sqrt(sum_k sqnorm[k]);  clip = min(1, hyper.grad_clip / (norm + 1e-6)), or 1 when "
                            "hyper.grad_clip is 0",
                .source = "Pascanu et al. 2013, algorithm 1, with PyTorch's 1e-6",
                .in = {{"sqnorm", "(G)", REAL, false, SM_WRITES}, {"hyper", "(h)", REAL, false, SM_WRITES}},
                .out = {{"norm", "(1)", REAL, false, SM_WRITES}, {"clip", "(1)", REAL, false, SM_WRITES}},
                .inplace_in = -1,
            },
        [SM_OP_ADAMW] =
            {
                .name = "adamw",
                .equation = "g = clip g;  p *= 1 - lr wd;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;  p -= lr "
                            "(m/bc1) / (sqrt(v/bc2) + eps);  w = p",
                .source = "Loshchilov and Hutter 2019, algorithm 2; wd = 0 for groups without decay; w, where there is "
                          "one, is "
                          "what matmuls read of p (Micikevicius et al. 2018, section 3.1)",
                .in = {{"g", "(n)", REAL, false, SM_WRITES},
                       {"hyper", "(h)", REAL, false, SM_WRITES},
                       {"clip", "(1)", REAL, false, SM_WRITES}},
                .out = {{"p", "(n)", REAL, false, SM_UPDATES},
                        {"m", "(n)", REAL, false, SM_UPDATES},
                        {"v", "(n)", REAL, false, SM_UPDATES},
                        {"w", "(n)", DATA, true, SM_WRITES}},
                .inplace_in = -1,
            },
        [SM_OP_RESIDUAL_LAYERNORM_FORWARD] =
            {
                .name = "residual_layernorm_forward",
                .equation = "r = a + b;  y, mean, rstd = layernorm(r; w, beta)",
                .source = "residual, then layernorm_forward, in one pass over a row",
                .in = {{"a", "(N,C)", DATA, false, SM_WRITES},
                       {"b", "(N,C)", DATA, false, SM_WRITES},
                       {"w", "(C)", REAL, false, SM_WRITES},
                       {"beta", "(C)", REAL, false, SM_WRITES}},
                .out = {{"r", "(N,C)", DATA, false, SM_WRITES},
                        {"y", "(N,C)", DATA, false, SM_WRITES},
                        {"mean", "(N)", REAL, false, SM_WRITES},
                        {"rstd", "(N)", REAL, false, SM_WRITES}},
                .inplace_in = 0,
            },
        [SM_OP_RESIDUAL_LAYERNORM_BACKWARD] =
            {
                .name = "residual_layernorm_backward",
                .equation =
                    "dx = dskip + layernorm_backward(dy; x, w, mean, rstd);  dw += sum_n dy xh;  dbeta += sum_n dy",
                .source = "layernorm_backward, then residual (the skip's gradient joins), in one pass over a row",
                .in = {{"dy", "(N,C)", DATA, false, SM_WRITES},
                       {"x", "(N,C)", DATA, false, SM_WRITES},
                       {"w", "(C)", REAL, false, SM_WRITES},
                       {"mean", "(N)", REAL, false, SM_WRITES},
                       {"rstd", "(N)", REAL, false, SM_WRITES},
                       {"dskip", "(N,C)", DATA, false, SM_WRITES}},
                .out = {{"dx", "(N,C)", DATA, false, SM_WRITES},
                        {"dw", "(C)", REAL, false, SM_ADDS},
                        {"dbeta", "(C)", REAL, false, SM_ADDS}},
                .inplace_in = 5,
            },
        [SM_OP_FLASH_ATTENTION_FORWARD] =
            {
                .name = "flash_attention_forward",
                .equation = "per head: s = q k^T / sqrt(HS) over keys <= t, in tiles;  lse = log sum exp(s);  y = "
                            "dropout(exp(s - lse)) v",
                .source = "Dao et al. 2022, algorithm 1: attention_forward that stores lse instead of att",
                .in = {{"qkv", "(B,T,3C)", DATA, false, SM_WRITES}, {"rng_step", "(2)", SM_U32, true, SM_WRITES}},
                .out = {{"y", "(B,T,C)", DATA, false, SM_WRITES}, {"lse", "(B,NH,T)", REAL, false, SM_WRITES}},
                .inplace_in = -1,
            },
        [SM_OP_FLASH_ATTENTION_BACKWARD] =
            {
                .name = "flash_attention_backward",
                .equation = "att = exp(s - lse), tile by tile;  D = sum_c dy y;  dv = dropout(att)^T dy;  ds = att "
                            "(dropout(dy v^T) - D);  dq = ds k / sqrt(HS);  dk = ds^T q / sqrt(HS)",
                .source = "Dao et al. 2022, algorithm 4",
                .in = {{"dy", "(B,T,C)", DATA, false, SM_WRITES},
                       {"qkv", "(B,T,3C)", DATA, false, SM_WRITES},
                       {"y", "(B,T,C)", DATA, false, SM_WRITES},
                       {"lse", "(B,NH,T)", REAL, false, SM_WRITES},
                       {"rng_step", "(2)", SM_U32, true, SM_WRITES}},
                .out = {{"dqkv", "(B,T,3C)", DATA, false, SM_WRITES}},
                .inplace_in = -1,
            },
};
// clang-format on

#undef REAL
#undef DATA

const sm_op_info *sm_op_get_info(sm_op_kind kind) { return &op_kinds[kind]; }

const char *sm_op_name(sm_op_kind kind) { return op_kinds[kind].name; }

// --- check ---------------------------------------------------------------------------

enum { MAX_LETTERS = 16 };

typedef struct {
    char name[8];
    int64_t value;
} letter;

typedef struct {
    letter letters[MAX_LETTERS];
    int n;
} binding;

// Binds one dimension, such as "3C" or "1", to its value; false when it contradicts.
static bool bind_dim(binding *bound, const char *text, size_t length, int64_t value) {
    char *end = NULL;
    int64_t factor = strtoll(text, &end, 10);
    if (end == text) {
        factor = 1;
    }
    size_t digits = (size_t)(end - text);
    if (digits == length) {
        return value == factor; // a plain number
    }
    if (value % factor != 0) {
        return false;
    }
    value /= factor;
    const char *name = text + digits;
    size_t name_length = length - digits;
    for (int i = 0; i < bound->n; i++) {
        if (strlen(bound->letters[i].name) == name_length && memcmp(bound->letters[i].name, name, name_length) == 0) {
            return bound->letters[i].value == value;
        }
    }
    letter *fresh = &bound->letters[bound->n++];
    memcpy(fresh->name, name, name_length);
    fresh->name[name_length] = '\0';
    fresh->value = value;
    return true;
}

// Matches a tensor against a shape text; `swap` exchanges a two-letter shape's letters.
static bool bind_shape(binding *bound, const char *shape, const sm_tensor *t, bool swap) {
    const char *parts[SM_MAX_DIMS];
    size_t lengths[SM_MAX_DIMS];
    int n = 0;
    for (const char *p = shape + 1; *p != '\0' && n < SM_MAX_DIMS;) {
        size_t length = strcspn(p, ",)");
        parts[n] = p;
        lengths[n] = length;
        n++;
        p += length + 1;
    }
    if (n == 1) {
        return bind_dim(bound, parts[0], lengths[0], sm_tensor_elems(t));
    }
    if (n == 2) {
        int first = swap ? 1 : 0;
        return bind_dim(bound, parts[first], lengths[first], sm_tensor_rows(t)) &&
               bind_dim(bound, parts[1 - first], lengths[1 - first], sm_tensor_cols(t));
    }
    if (n != t->n_dims) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (!bind_dim(bound, parts[i], lengths[i], t->dims[i])) {
            return false;
        }
    }
    return true;
}

static bool is_matmul(sm_op_kind kind) {
    return kind == SM_OP_MATMUL_FORWARD || kind == SM_OP_MATMUL_BACKWARD_INPUT || kind == SM_OP_MATMUL_BACKWARD_WEIGHT;
}

static sm_status check_operand(const sm_plan *plan, const sm_op *op, const sm_operand_info *operand, int tensor,
                               binding *bound) {
    const char *kind = sm_op_name(op->kind);
    if (tensor == SM_NO_TENSOR) {
        return operand->optional ? SM_OK : sm_fail(SM_ERR_INTERNAL, "%s: operand %s is missing", kind, operand->name);
    }
    if (tensor < 0 || tensor >= plan->n_tensors) {
        return sm_fail(SM_ERR_INTERNAL, "%s: operand %s: no tensor %d", kind, operand->name, tensor);
    }
    const sm_tensor *t = &plan->tensors[tensor];
    sm_dtype dtype = sm_plan_operand_dtype(plan, operand->dtype);
    if (t->dtype != dtype) {
        return sm_fail(SM_ERR_INTERNAL, "%s: operand %s: %s is %s, not %s", kind, operand->name, t->name,
                       sm_dtype_name(t->dtype), sm_dtype_name(dtype));
    }
    bool is_weight = operand->name[0] == 'W' || strcmp(operand->name, "dW") == 0;
    if (!bind_shape(bound, operand->shape, t, is_matmul(op->kind) && is_weight && op->attr.w_transposed)) {
        return sm_fail(SM_ERR_INTERNAL, "%s: operand %s: the shape of %s does not fit %s", kind, operand->name, t->name,
                       operand->shape);
    }
    return SM_OK;
}

sm_status sm_op_check(const sm_plan *plan, const sm_op *op) {
    const sm_op_info *info = sm_op_get_info(op->kind);
    binding bound = {.n = 0};
    for (int i = 0; i < SM_MAX_IN && info->in[i].name != NULL; i++) {
        SM_TRY(check_operand(plan, op, &info->in[i], op->in[i], &bound));
    }
    for (int i = 0; i < SM_MAX_OUT && info->out[i].name != NULL; i++) {
        SM_TRY(check_operand(plan, op, &info->out[i], op->out[i], &bound));
    }
    for (int i = 0; i < bound.n; i++) {
        const letter *l = &bound.letters[i];
        if (strcmp(l->name, "C") == 0 && op->attr.n_head > 0 && l->value % op->attr.n_head != 0) {
            return sm_fail(SM_ERR_INVALID, "%s: %lld channels do not divide into %d heads", info->name,
                           (long long)l->value, op->attr.n_head);
        }
        if (strcmp(l->name, "NH") == 0 && l->value != op->attr.n_head) {
            return sm_fail(SM_ERR_INTERNAL, "%s: %lld heads in the shape, %d in the attributes", info->name,
                           (long long)l->value, op->attr.n_head);
        }
    }
    return SM_OK;
}

// --- FLOPs and bytes ------------------------------------------------------------------
// A multiply, an add, a comparison and a transcendental function each count as one FLOP.
// Only work that the equation needs counts: attention over s <= t, the head over V columns,
// and no recomputation.

static const sm_tensor *input(const sm_plan *plan, const sm_op *op, int i) { return &plan->tensors[op->in[i]]; }
static const sm_tensor *output(const sm_plan *plan, const sm_op *op, int i) { return &plan->tensors[op->out[i]]; }
static double elems(const sm_tensor *t) { return (double)sm_tensor_elems(t); }

enum { GELU_FORWARD_FLOPS = 9, GELU_BACKWARD_FLOPS = 18 }; // per element

static double matmul_flops(const sm_plan *plan, const sm_op *op) {
    // Two of the three operands share each dimension, so rows x columns of x and of y suffice.
    const sm_tensor *x = op->kind == SM_OP_MATMUL_BACKWARD_INPUT ? output(plan, op, 0) : input(plan, op, 0);
    const sm_tensor *y = op->kind == SM_OP_MATMUL_FORWARD
                             ? output(plan, op, 0)
                             : input(plan, op, op->kind == SM_OP_MATMUL_BACKWARD_WEIGHT ? 1 : 0);
    double n_columns = op->attr.vocab > 0 ? (double)op->attr.vocab : (double)sm_tensor_cols(y);
    double flops = 2.0 * elems(x) * n_columns;
    if (op->attr.epilogue & SM_EPILOGUE_BIAS) {
        flops += elems(y);
    }
    if (op->attr.epilogue & SM_EPILOGUE_GELU) {
        flops += GELU_FORWARD_FLOPS * elems(y);
    }
    if (op->attr.epilogue & SM_EPILOGUE_GELU_BACKWARD) {
        flops += GELU_BACKWARD_FLOPS * elems(x);
    }
    return flops;
}

// n_products matrix products of (T,HS) by (HS,T) a head, over the causal half, and
// `pointwise` FLOPs for each of its entries.
static double attention_flops(const sm_tensor *y, int n_head, int n_products, int pointwise) {
    double B = (double)y->dims[0];
    double T = (double)y->dims[1];
    double C = (double)y->dims[2];
    double pairs = T * (T + 1) / 2;
    return B * pairs * (n_products * 2.0 * C + (double)pointwise * n_head);
}

double sm_op_flops(const sm_plan *plan, const sm_op *op) {
    if (op->attr.recomputed) {
        return 0;
    }
    switch (op->kind) {
    case SM_OP_ZERO: return 0;
    case SM_OP_LOSS_SCALE: return elems(input(plan, op, 0));
    case SM_OP_EMBEDDING_FORWARD: return elems(output(plan, op, 0));
    case SM_OP_EMBEDDING_BACKWARD: return 2 * elems(input(plan, op, 1));
    case SM_OP_DROPOUT: return 2 * elems(output(plan, op, 0));
    case SM_OP_LAYERNORM_FORWARD: return 8 * elems(output(plan, op, 0));
    case SM_OP_LAYERNORM_BACKWARD: return 14 * elems(output(plan, op, 0));
    case SM_OP_RESIDUAL_LAYERNORM_FORWARD: return 9 * elems(output(plan, op, 0));
    case SM_OP_RESIDUAL_LAYERNORM_BACKWARD: return 15 * elems(output(plan, op, 0));
    case SM_OP_MATMUL_FORWARD:
    case SM_OP_MATMUL_BACKWARD_INPUT:
    case SM_OP_MATMUL_BACKWARD_WEIGHT: return matmul_flops(plan, op);
    case SM_OP_BIAS_FORWARD: return elems(output(plan, op, 0));
    case SM_OP_BIAS_BACKWARD: return elems(input(plan, op, 0));
    case SM_OP_ATTENTION_FORWARD:
    case SM_OP_FLASH_ATTENTION_FORWARD: return attention_flops(output(plan, op, 0), op->attr.n_head, 2, 5);
    case SM_OP_ATTENTION_BACKWARD:
    case SM_OP_FLASH_ATTENTION_BACKWARD: return attention_flops(input(plan, op, 0), op->attr.n_head, 4, 5);
    case SM_OP_GELU_FORWARD: return GELU_FORWARD_FLOPS * elems(output(plan, op, 0));
    case SM_OP_GELU_BACKWARD: return GELU_BACKWARD_FLOPS * elems(output(plan, op, 0));
    case SM_OP_RESIDUAL: return elems(output(plan, op, 0));
    case SM_OP_CROSSENTROPY_FORWARD:
    case SM_OP_CROSSENTROPY_BACKWARD: return 4.0 * (double)sm_tensor_rows(input(plan, op, 0)) * (double)op->attr.vocab;
    case SM_OP_LOSS_MEAN: return elems(input(plan, op, 0));
    case SM_OP_GRAD_SQNORM: return 2 * elems(input(plan, op, 0));
    case SM_OP_GRAD_CLIP: return elems(input(plan, op, 0)) + 3;
    case SM_OP_ADAMW: return 16 * elems(input(plan, op, 0));
    case SM_OP_KIND_COUNT: break;
    }
    return 0;
}

double sm_op_bytes(const sm_plan *plan, const sm_op *op) {
    const sm_op_info *info = sm_op_get_info(op->kind);
    double bytes = 0;
    for (int i = 0; i < SM_MAX_IN && info->in[i].name != NULL; i++) {
        if (op->in[i] != SM_NO_TENSOR) {
            bytes += (double)sm_tensor_bytes(input(plan, op, i));
        }
    }
    for (int i = 0; i < SM_MAX_OUT && info->out[i].name != NULL; i++) {
        if (op->out[i] != SM_NO_TENSOR) {
            bytes += (double)sm_tensor_bytes(output(plan, op, i)) *
                     (info->out[i].mode == SM_WRITES || op->attr.overwrites ? 1 : 2);
        }
    }
    // The embedding touches one row of each table a token, not the tables: read forward, read and written backward.
    const double real_bytes = (double)sm_dtype_size(plan->real);
    if (op->kind == SM_OP_EMBEDDING_FORWARD) {
        const sm_tensor *x = output(plan, op, 0);
        bytes = (double)sm_tensor_bytes(input(plan, op, 0)) + (double)sm_tensor_bytes(x) + 2.0 * elems(x) * real_bytes;
    } else if (op->kind == SM_OP_EMBEDDING_BACKWARD) {
        const sm_tensor *dx = input(plan, op, 1);
        bytes =
            (double)sm_tensor_bytes(input(plan, op, 0)) + (double)sm_tensor_bytes(dx) + 4.0 * elems(dx) * real_bytes;
    }
    return bytes;
}
