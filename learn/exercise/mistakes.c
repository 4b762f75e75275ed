// mistakes.c: the list of mistakes, and a file with the reference's text edited by each of them.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers" // a row is of a kind, or of a mistake
#include "learn/exercise/judge.h"

#include <errno.h>

#include "embedded.h"

// --- the right kernels -----------------------------------------------------------------------------

// The reference computes a product in blocks; a student writes it like this.
#define PRODUCT(a, A, b, B, k, K, factors, store)                                       \
    "    const int64_t c_step = w_transposed ? 1 : F, f_step = w_transposed ? C : 1;\n" \
    "    double sum = 0.0;\n"                                                           \
    "    for (int64_t " #a " = 0; " #a " < " #A "; " #a "++) {\n"                       \
    "        for (int64_t " #b " = 0; " #b " < " #B "; " #b "++) {\n"                   \
    "            sum = 0;\n"                                                            \
    "            for (int64_t " #k " = 0; " #k " < " #K "; " #k "++) {\n"               \
    "                sum += " factors ";\n            }\n            " store ";\n        }\n    }\n"
#define AT "[c * c_step + f * f_step]"
#define ATTENTION(name, ...)                                                            \
    "    double *scratch = malloc(2 * (size_t)(T * T) * sizeof *scratch);\n"            \
    "    const ref_attention a = {B, T, NH, NKV, HS, NULL, {args->keep, args->rng}};\n" \
    "    REF(" #name ")(&a, " #__VA_ARGS__ ", scratch);\n    free(scratch);\n"
#define CALL(name, ...) "    REF(" #name ")(" #__VA_ARGS__ ");\n"

// The reference's files that define a kind, and what calls it with the members of the kind's arguments.
static const struct {
    sm_op_kind kind;
    const char *files[3];
    const char *call;
} kernels[] = {
    {SM_OP_LOSS_MEAN, {"loss"}, CALL(loss_mean, N, losses, target, loss)},
    {SM_OP_EMBEDDING_FORWARD, {"embedding"}, CALL(embedding_forward, B, T, C, token, NULL, wte, wpe, x)},
    {SM_OP_EMBEDDING_BACKWARD,
     {"embedding"},
     "    double *scratch = malloc((size_t)C * sizeof *scratch);\n"
     "    REF(embedding_backward)(B, T, C, V, token, NULL, dx, dwte, dwpe, scratch);\n    free(scratch);\n"},
    {SM_OP_LAYERNORM_FORWARD,
     {"residual", "bias", "layernorm"},
     CALL(layernorm_forward, N, C, eps, x, w, b, NULL, y, mean, rstd, NULL)},
    {SM_OP_LAYERNORM_BACKWARD,
     {"residual", "bias", "layernorm"},
     CALL(layernorm_backward, N, C, dy, x, w, mean, rstd, NULL, dx, dw, db, NULL)},
    {SM_OP_MATMUL_FORWARD,
     {NULL},
     PRODUCT(n, N, f, F, c, C, "(double)x[n * C + c] * W" AT, "y[n * F + f] = (real)sum")},
    {SM_OP_MATMUL_BACKWARD_INPUT,
     {NULL},
     PRODUCT(n, N, c, C, f, F, "(double)dy[n * F + f] * W" AT, "dx[n * C + c] = (real)sum")},
    {SM_OP_MATMUL_BACKWARD_WEIGHT,
     {NULL},
     PRODUCT(c, C, f, F, n, N, "(double)x[n * C + c] * dy[n * F + f]", "dW" AT " = (real)(dW" AT " + sum)")},
    {SM_OP_BIAS_BACKWARD, {"bias"}, CALL(bias_backward, N, C, dy, db)},
    {SM_OP_ATTENTION_FORWARD, {"attention"}, ATTENTION(attention_forward, qkv, y, att)},
    {SM_OP_ATTENTION_BACKWARD, {"attention"}, ATTENTION(attention_backward, dy, qkv, att, dqkv)},
    {SM_OP_FLASH_ATTENTION_FORWARD, {"attention"}, ATTENTION(flash_attention_forward, qkv, y, lse)},
    {SM_OP_GELU_FORWARD, {"gelu"}, CALL(gelu_forward, n, x, y)},
    {SM_OP_GELU_BACKWARD, {"gelu"}, CALL(gelu_backward, n, dy, x, dx)},
    {SM_OP_RESIDUAL, {"residual"}, CALL(residual, n, a, b, y)},
    {SM_OP_CROSSENTROPY_FORWARD, {"loss"}, CALL(crossentropy_forward, N, Vp, V, logits, target, losses, lse)},
    {SM_OP_CROSSENTROPY_BACKWARD, {"loss"}, CALL(crossentropy_backward, N, Vp, V, logits, target, lse, scale, dlogits)},
    {SM_OP_ADAMW, {"optimizer/optimizer"}, CALL(adamw, n, decay != 0, g, hyper, clip, p, m, v)},
};
enum { N_KERNELS = sizeof kernels / sizeof kernels[0] };

// Replaces the reference's headers for its files; each mistake, K, has names of its own.
static const char prelude[] =
    "#pragma GCC optimize 1\n"
    "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <stdlib.h>\n"
    "typedef float real;\n"
    "typedef struct { float (*keep)(const void *rng, int64_t element); const void *rng; } ref_mask;\n"
    "typedef struct { int64_t B, T, NH, NKV, HS; const int32_t *starts; ref_mask mask; int unmasked; } ref_attention;\n"
    "static double ref_mask_factor(const ref_mask *mask, int64_t element) {\n"
    "    return (double)mask->keep(mask->rng, element);\n}\n"
    "#define JOINED(a, b) a##b\n#define OF(name, k) JOINED(name, k)\n"
    "#define REF(name) OF(ref_##name##_, K)\n"
    "#define keep(...) OF(keep_, K)(__VA_ARGS__)\n"; // not args->keep

// Names that a file keeps to itself.
static const char own_names[] = "head head_at first_key last_key dot scores forward_row forward weights_row backward "
                                "backward_qkv backward_row position_of embedding_backward_wte embedding_backward_wpe "
                                "decay_of adam_step sqrt_2_over_pi count_targets layernorm_backward_weight";

// clang-format off
#define PLACE(name) {#name, name}
static const struct {
    const char *name;
    int place;
} places[] = {
    PLACE(SM_HYPER_LR), PLACE(SM_HYPER_BETA1), PLACE(SM_HYPER_BETA2), PLACE(SM_HYPER_EPS), PLACE(SM_HYPER_WEIGHT_DECAY),
    PLACE(SM_HYPER_BIAS_CORRECTION1), PLACE(SM_HYPER_BIAS_CORRECTION2), PLACE(SM_HYPER_LOSS_SCALE),
    PLACE(SM_HYPER_MOMENTUM), PLACE(SM_HYPER_NESTEROV), PLACE(SM_SCALER_SCALE),
};

// --- the mistakes ----------------------------------------------------------------------------------

#define SUM_KEPT_SAYS "the sum is not set to 0 for each element: it continues from the previous one"
#define IGNORED_SAYS  "w_transposed is ignored: where it is 1, W is stored (F,C), and W[f * C + c] is its element"
#define SWAPPED_SAYS  "W's rows and columns are exchanged: it is (C,F), W[c * F + f], and (F,C) where w_transposed is 1"
#define IGNORED {{"w_transposed ?", "0 ?"}}
#define SWAPPED {{"w_transposed ?", "!w_transposed ?"}}
#define MEANS_SAYS "dx = rstd (g - mean_c(g) - xh mean_c(g xh))"
#define AXIS_SAYS  "taken over the wrong axis: over the rows of a column; take them over the C channels of a row"
#define TOKEN_SAYS "every sequence takes the tokens of the first: the token of (b,t) is token[b * T + t]"
#define VARIANCE   "squares / (double)C"
#define DEVIATION  "1 / sqrt(squares / (double)C + eps)"

#define MOST_OF_ROW              \
    "double most = weight[t];\n" \
    "        for (int64_t s = 0; s < t; s++) {\n            most = fmax(most, weight[s]);\n        }\n        "

// A row of a kind, or two, stands before its mistakes.
static const sm_mistake mistakes[] = {
    {.kind = SM_OP_LOSS_MEAN},
    {"divided by all N tokens: those with target -1 do not count", {{"(double)count_targets(N, target)", "(double)N"}}},
    {"this is the sum: divide by the tokens that count", {{"sum / (double)count_targets(N, target)", "sum"}}},
    {"divided by 0 where no token counts: divide by max(1, ...)", {{"n_targets > 0 ? n_targets : 1", "n_targets"}}},
    {.kind = SM_OP_EMBEDDING_FORWARD},
    {"the position is missing: x = wte[token] + wpe[t], where there is a wpe",
     {{"(double)word[c] + position", "(double)word[c]"}}},
    {TOKEN_SAYS, {{"wte + token[b * T + t]", "wte + token[t]"}}},
    {"every token takes position 0: the row of wpe is t", {{"wpe[at * C + c]", "wpe[c]"}}},
    {"every token takes the first token of its sequence", {{"wte + token[b * T + t]", "wte + token[b * T]"}}},
    {.kind = SM_OP_EMBEDDING_BACKWARD},
    {"a token that occurs several times keeps only its last gradient: dwte[token] += dx, on top of what it holds",
     {{"(n_uses == 0 ? 0 : sum[c]) + ", ""}, {"(double)dwte[v * C + c] + sum[c]", "sum[c]"}}},
    {TOKEN_SAYS,
     {{"    embedding_backward_wte(B * T, C, V, token, dx,",
       "    for (int64_t b = 0; b < B; b++) embedding_backward_wte(T, C, V, token, dx + b * T * C,"}}},
    {"dwpe has the first sequence only: it is a sum over all B sequences", {{"n < B * T", "n < T"}}},
    {"dwpe is overwritten: dwpe[t] += dx, of all sequences",
     {{"sum += position_of", "sum = position_of"}, {"i % C] : 0", "i % C] : sum"}, {"(double)dwpe[i] + sum", "sum"}}},
    {.kind = SM_OP_LAYERNORM_FORWARD},
    {"eps is missing: rstd = 1 / sqrt(variance + eps)", {{VARIANCE " + eps", VARIANCE}}},
    {"eps is added outside of the root: it belongs under it", {{DEVIATION, "1 / (sqrt(" VARIANCE ") + eps)"}}},
    {"the variance is divided by C - 1: divide by C", {{VARIANCE, "squares / (double)(C - 1)"}}},
    {"the variance is a sum: divide it by C", {{VARIANCE, "squares"}}},
    {"the mean is a sum: divide it by C", {{"sum / (double)C", "sum"}}},
    {"the square root is missing: rstd = 1 / sqrt(variance + eps)", {{DEVIATION, "1 / (" VARIANCE " + eps)"}}},
    {"the variance is taken for rstd: it is the reciprocal of its root, 1 / sqrt", {{DEVIATION, VARIANCE " + eps"}}},
    {"rstd holds the standard deviation: it is the reciprocal, 1 / sqrt", {{"(real)scale", "(real)(1 / scale)"}}},
    {"b is not added: y = xh w + b", {{" + (double)b[c]", ""}}},
    {"w is missing: y = xh w + b", {{" * scale * (double)w[c]", " * scale"}}},
    {"the mean is not subtracted: xh = (x - mean) rstd", {{"((double)row[c] - mu) * scale", "(double)row[c] * scale"}}},
    {"the mean of x^2 is taken for the variance: it is the mean of (x - mean)^2",
     {{"((double)row[c] - mu) * ((double)row[c] - mu)", "(double)row[c] * (double)row[c]"}}},
    {"mean and variance are " AXIS_SAYS,
     {{"y[n * C + c] = (real)(((double)row[c] - mu)",
       "sum = squares = 0;\n"
       "            for (int64_t i = 0; i < N; i++) sum += (double)x[i * C + c];\n"
       "            mu = sum / (double)N;\n"
       "            for (int64_t i = 0; i < N; i++) squares += ((double)x[i * C + c] - mu) * (x[i * C + c] - mu);\n"
       "            scale = 1 / sqrt(squares / (double)N + eps);\n"
       "            y[n * C + c] = (real)(((double)row[c] - mu)"}}},
    {.kind = SM_OP_LAYERNORM_BACKWARD},
    {"dx lacks the mean of g: " MEANS_SAYS, {{" - sum_g / (double)C", ""}}},
    {"dx lacks the term of xh: " MEANS_SAYS, {{" - xh * sum_g_xh / (double)C", ""}}},
    {"dx lacks both means: the mean and the variance depend on x, too; " MEANS_SAYS,
     {{" - sum_g / (double)C", ""}, {" - xh * sum_g_xh / (double)C", ""}}},
    {"w is missing: g = dy w", {{" * (double)w[c]", ""}}},
    {"dw is made of x: it is the sum of dy xh, of the normalised x",
     {{"sum_w += (double)dy[n * C + c] * xh", "sum_w += (double)dy[n * C + c] * (double)x[n * C + c]"}}},
    {"rstd is missing in front of dx", {{"double d = (double)rstd[n] * ", "double d = "}}},
    {"the means are " AXIS_SAYS,
     {{"double d = (double)rstd[n] * (g - sum_g / (double)C - xh * sum_g_xh / (double)C)",
       "sum_g = sum_g_xh = 0;\n"
       "            for (int64_t i = 0; i < N; i++) {\n"
       "                const double gi = (double)dy[i * C + c] * w[c];\n"
       "                sum_g += gi;\n"
       "                sum_g_xh += gi * ((double)x[i * C + c] - mean[i]) * rstd[i];\n"
       "            }\n"
       "            double d = (double)rstd[n] * (g - sum_g / (double)N - xh * sum_g_xh / (double)N)"}}},
    {"sums are taken for means: divide both by C",
     {{"sum_g / (double)C - xh * sum_g_xh / (double)C", "sum_g - xh * sum_g_xh"}}},
    {"the mean of g is a sum: divide it by C", {{"sum_g / (double)C", "sum_g"}}},
    {"the mean of g xh is a sum: divide it by C", {{"sum_g_xh / (double)C", "sum_g_xh"}}},
    {"only the last row counts in dw and db: they are overwritten for each n; they are sums over all rows, on top of "
     "what they hold",
     {{"sum_w += ", "sum_w = "}, {"sum_b += ", "sum_b = "}, {"(double)dw[c] + ", ""}, {"(double)db[c] + ", ""}}},
    {.kind = SM_OP_MATMUL_FORWARD},
    {IGNORED_SAYS, IGNORED},
    {SWAPPED_SAYS, SWAPPED},
    {SUM_KEPT_SAYS, {{"sum = 0;", ""}}},
    {"the last term of the sum is missing: c runs up to C - 1", {{"c < C", "c < C - 1"}}},
    {"the first term of the sum is missing: c begins at 0", {{"c = 0", "c = 1"}}},
    {.kind = SM_OP_MATMUL_BACKWARD_INPUT},
    {IGNORED_SAYS, IGNORED},
    {SWAPPED_SAYS ", read along f", SWAPPED},
    {SUM_KEPT_SAYS, {{"sum = 0;", ""}}},
    {"the last term of the sum is missing: f runs up to F - 1", {{"f < F", "f < F - 1"}}},
    {"the first term of the sum is missing: f begins at 0", {{"f = 0", "f = 1"}}},
    {.kind = SM_OP_MATMUL_BACKWARD_WEIGHT},
    {"w_transposed is ignored: where it is 1, dW is stored (F,C), as W is", IGNORED},
    {"dW's rows and columns are exchanged: it is stored as W is, (C,F), and (F,C) where w_transposed is 1", SWAPPED},
    {"only the last row counts: dW is overwritten for each n; it is a sum over all rows, on top of what dW holds",
     {{"n = 0", "n = N - 1"}, {"(dW" AT " + sum)", "sum"}}},
    {"the last row is missing: n runs up to N - 1", {{"n < N", "n < N - 1"}}},
    {"the first row is missing: n begins at 0", {{"n = 0", "n = 1"}}},
    {.kind = SM_OP_BIAS_BACKWARD},
    {"only the last row counts: db is overwritten for each n; it is a sum over all rows, on top of what db holds",
     {{"sum += ", "sum = "}, {"(double)db[c] + sum", "sum"}}},
    {"only the first row counts: db is a sum over all rows", {{"n < N", "n < 1"}}},
    {.kind = SM_OP_ATTENTION_FORWARD, .also = SM_OP_FLASH_ATTENTION_FORWARD},
    {"the causal mask is missing: token t sees the tokens s <= t only", {{"last_key(d, t)", "d->T - 1"}}},
    {"1 / sqrt(HS) is missing: scores are q k / sqrt(HS)", {{" / sqrt((double)d->HS)", ""}}},
    {"scores are divided by HS: divide by its square root", {{"sqrt((double)d->HS)", "(double)d->HS"}}},
    {"scores are divided by sqrt(C): divide by sqrt(HS), the size of a head",
     {{"sqrt((double)d->HS)", "sqrt((double)d->y_row)"}}},
    {"softmax goes over the wrong axis, over queries: the weights of a query, over its keys, sum to 1",
     {{"weight[s] = exp(weight[s] - log_sum)",
       "double column = 0;\n"
       "        for (int64_t i = s; i < d->T; i++) {\n"
       "            column += exp(dot(d->HS, d->q + i * d->qkv_row, d->k + s * d->qkv_row) / sqrt(d->HS));\n"
       "        }\n"
       "        weight[s] = exp(weight[s]) / column"}}},
    {"dropout is missing: weights are multiplied by keep(rng, (b NH + h) T T + t T + s) when they mix v",
     {{"keep(d, t, s)", "1"}}},
    {"the largest score is not subtracted before exp, which is infinite from 89 on in float",
     {{"largest = fmax(largest, score[s])", "largest = 0"},
     {"exp(score[s] - largest)", "expf((float)score[s])"},
     {"exp(weight[s] - log_sum)", "expf((float)weight[s]) / exp(log_sum)"}}},
    {.kind = SM_OP_ATTENTION_FORWARD},
    {"att is stored after dropout: it holds the weights before",
     {{"(real)weight[s]", "(real)(weight[s] * keep(d, t, s))"}}},
    {.kind = SM_OP_FLASH_ATTENTION_FORWARD},
    {"lse lacks the largest score, which was subtracted: add it again",
     {{"lse[d->first_row + t] = (real)log_sum", MOST_OF_ROW "lse[d->first_row + t] = (real)(log_sum - most)"}}},
    {"lse is the largest score alone: add log(sum)",
     {{"lse[d->first_row + t] = (real)log_sum", MOST_OF_ROW "lse[d->first_row + t] = (real)most"}}},
    {"the earlier sum is not rescaled when the largest score grows: multiply sum and y by exp(old - new)",
     {{"largest = fmax(largest, score[s])", "largest = fmax(largest, score[s]);\n        score[s] -= largest"},
     {"sum += exp(score[s] - largest)", "sum += exp(score[s]);\n        score[s] += largest"}}},
    {.kind = SM_OP_ATTENTION_BACKWARD},
    {"1 / sqrt(HS) is missing in ds: dq = ds k / sqrt(HS), dk = ds^T q / sqrt(HS)", {{" / sqrt((double)d->HS)", ""}}},
    {"the derivative of softmax lacks its sum: ds = att (da - sum_s att da)", {{"(ds[s] - D)", "ds[s]"}}},
    {"dv takes att as it is: it is att^T dy, the sum over the queries that saw a key",
     {{"dv += att[t", "dv += 0 * att[t"},
     {"dq += ", "dv += att[r * d->T + s] * (double)dy[d->first_y + s * d->y_row + i];\n                dq += "}}},
    {"att is missing: ds = att (da - sum_s att da)", {{"att[s] * (ds[s] - D)", "ds[s] - D"}}},
    {"heads that share keys and values (NKV < NH) overwrite their gradient: dk and dv are sums over these heads",
     {{"d->first_of_group ? 0 :", "1 ? 0 :"}}},
    {"dropout is missing: da = keep (dy v), and dv is of dropped weights", {{"keep(d, t, s)", "1"}}},
    {"dq and dk are exchanged in ds: dq = ds k, dk = ds^T q",
     {{"dq += ds[r * d->T + s] * (double)d->k[", "dk += ds[r * d->T + s] * (double)d->q["},
     {"dk += ds[t * d->T + r] * (double)d->q[", "dq += ds[t * d->T + r] * (double)d->k["}}},
    {.kind = SM_OP_GELU_FORWARD},
    {"this is x sigmoid(1.702 x), another approximation: GPT-2 has the form with tanh",
     {{"0.5 * z * (1 + tanh(u))", "z / (1 + exp(-1.702 * z))"}}},
    {"this is the exact GELU, with erf: GPT-2 has the form with tanh", {{"(1 + tanh(u))", "(1 + erf(z / sqrt(2)))"}}},
    {"the cubic term is missing: tanh(sqrt(2/pi) (x + 0.044715 x^3))", {{" + 0.044715 * z * z * z", ""}}},
    {"sqrt(2/pi) is missing inside of tanh", {{"u = sqrt_2_over_pi * ", "u = "}}},
    {"the factor 1/2 is missing: y = x/2 (1 + tanh(...))", {{"(0.5 * z * (1 + tanh(u)))", "(z * (1 + tanh(u)))"}}},
    {"x^2 is taken for x^3 inside of tanh", {{"0.044715 * z * z * z", "0.044715 * z * z"}}},
    {.kind = SM_OP_GELU_BACKWARD},
    {"dy is missing: dx = dy gelu'(x)", {{"(double)dy[i] * ", ""}}},
    {"the chain rule stops at tanh: the second term, x/2 (1 - tanh^2) times the derivative of the argument, is missing",
     {{" + 0.5 * z * (1 - th * th) * du", ""}}},
    {"the derivative of the argument of tanh lacks 3 0.044715 x^2", {{"(1 + 3 * 0.044715 * z * z)", "1"}}},
    {"this is dy gelu(x): take the derivative, gelu'(x)",
     {{"(0.5 * (1 + th) + 0.5 * z * (1 - th * th) * du)", "(0.5 * z * (1 + th))"}}},
    {"the derivative of the argument of tanh lacks sqrt(2/pi)", {{"du = sqrt_2_over_pi * ", "du = "}}},
    {"the derivative of tanh is 1 - tanh^2, not 1 - tanh", {{"1 - th * th", "1 - th"}}},
    {.kind = SM_OP_RESIDUAL},
    {"b is subtracted: y = a + b", {{" + (double)b[i]", " - (double)b[i]"}}},
    {"b is not added: y = a + b", {{" + (double)b[i]", ""}}},
    {"a is not added: y = a + b", {{"(double)a[i] + ", ""}}},
    {.kind = SM_OP_CROSSENTROPY_FORWARD},
    {"the padding counts: sum over the V columns that are tokens, not over all Vp", {{"v < V;", "v < Vp;"}}},
    {"tokens with target -1 have a loss: it is 0 there",
     {{"target[n] == -1 ? 0 : (real)(log_sum - (double)row[target[n]])",
       "(real)(log_sum - (target[n] == -1 ? 0 : (double)row[target[n]]))"}}},
    {"lse lacks the largest logit, which was subtracted: add it again", {{"largest + log(sum)", "log(sum)"}}},
    {"lse is the sum itself: take its logarithm", {{"largest + log(sum)", "exp(largest + log(sum))"}}},
    {"the target's logit is not subtracted: losses = lse - logits[target]",
     {{"log_sum - (double)row[target[n]]", "log_sum"}}},
    {"the largest logit is not subtracted before exp, which is infinite from 89 on in float",
     {{"largest = (double)row[v] > largest ? (double)row[v] : largest", "largest = 0"},
     {"exp((double)row[v] - largest)", "expf((float)row[v])"}}},
    {"the largest logit is not subtracted, or its search begins at 0: exp of each is 0 where all are below -745; begin "
     "at -INFINITY",
     {{"-(double)INFINITY", "0"}}},
    {.kind = SM_OP_CROSSENTROPY_BACKWARD},
    {"the 1 of the target is missing: dlogits = scale (p - [v = target])", {{" - (v == target[n])", ""}}},
    {"tokens with target -1 have a gradient: it is 0 there", {{"target[n] != -1 && v < V", "v < V"}}},
    {"scale is missing", {{"(double)*scale * ", ""}}},
    {"columns of the padding have a gradient: it is 0 from V on", {{"target[n] != -1 && v < V", "target[n] != -1"}}},
    {"the 1 of the target is added: it is subtracted, p - [v = target]",
     {{" - (v == target[n])", " + (v == target[n])"}}},
    {.kind = SM_OP_ADAMW},
    {"the bias correction is missing: m / bc1 and v / bc2, hyper[BIAS_CORRECTION1] and hyper[BIAS_CORRECTION2]",
     {{" / (double)hyper[SM_HYPER_BIAS_CORRECTION1]", ""}, {" / (double)hyper[SM_HYPER_BIAS_CORRECTION2]", ""}}},
    {"the decay is added to the gradient, as in Adam with L2: AdamW scales the weights, p *= 1 - lr wd",
     {{"(double)*clip * (double)g[i], &mi", "(double)*clip * (double)g[i] + wd * (double)p[i], &mi"},
     {" * (1 - lr * wd)", ""}}},
    {"eps is added under the root: it belongs after it, sqrt(v / bc2) + eps",
     {{"sqrt(v_hat) + (double)hyper[SM_HYPER_EPS]", "sqrt(v_hat + (double)hyper[SM_HYPER_EPS])"}}},
    {"the square root of v is missing: m / bc1 / (sqrt(v / bc2) + eps)", {{"sqrt(v_hat)", "v_hat"}}},
    {"clip is ignored: g = clip g, before all else", {{"(double)*clip * ", ""}}},
    {"v is a mean of g: it is a mean of g^2", {{"(1 - b2) * g * g", "(1 - b2) * g"}}},
    {"decay is ignored: where it is 1, p *= 1 - lr wd", {{"return decay ?", "return 0 ?"}}},
    {"weights decay also where decay is 0", {{"return decay ?", "return 1 ?"}}},
    {"beta1 and beta2 are exchanged: beta1 is of m, beta2 of v",
     {{"double b1 = (double)hyper[SM_HYPER_BETA1]", "double b1 = (double)hyper[SM_HYPER_BETA2]"},
     {"double b2 = (double)hyper[SM_HYPER_BETA2]", "double b2 = (double)hyper[SM_HYPER_BETA1]"}}},
};
// clang-format on

const sm_mistake *sm_mistake_at(sm_op_kind kind, int index) {
    bool is_its = false;
    for (const sm_mistake *m = mistakes; m < mistakes + sizeof mistakes / sizeof mistakes[0]; m++) {
        is_its = m->says == NULL ? m->kind == kind || m->also == kind : is_its;
        if (m->says != NULL && is_its && index-- == 0) {
            return m;
        }
    }
    return NULL;
}

// --- the file --------------------------------------------------------------------------------------

// Replaces `find` everywhere in a text of the heap. NULL: it is not there.
static char *replace(char *text, const char *find, const char *with) {
    char *edited = NULL;
    if (strstr(text, find) != NULL) {
        size_t size_bytes;
        const char *from = text;
        FILE *out = sm_memstream(&edited, &size_bytes);
        for (const char *at = text; (at = strstr(at, find)) != NULL; at = from) {
            fprintf(out, "%.*s%s", (int)(at - from), from, with);
            from = at + strlen(find);
        }
        fputs(from, out);
        sm_memstream_close(out);
    }
    free(text);
    return edited;
}

// The right kernel as function run_K; what it includes is left to the prelude.
static char *write_right(sm_op_kind kind) {
    char *text = NULL;
    size_t size_bytes;
    FILE *out = sm_memstream(&text, &size_bytes);
    for (int i = 0; i < N_KERNELS; i++) {
        for (int k = 0; kernels[i].kind == kind && k < 3 && kernels[i].files[k] != NULL; k++) {
            char path[64];
            snprintf(path, sizeof path, "backends/reference/kernels/%s.c", kernels[i].files[k]);
            fputs(sm_embedded_find(path)->text, out);
        }
        if (kernels[i].kind == kind) {
            fprintf(out, "static void REF(run)(const %s_args *args) {\n", sm_op_name(kind));
            sm_own_kernel_unpack(kind, out);
            fprintf(out, "%s}\n", kernels[i].call);
        }
    }
    sm_memstream_close(out);
    return strstr(text, "#include \"") != NULL ? replace(text, "#include \"", "// \"") : text;
}

static sm_status write_mistake(sm_op_kind kind, const sm_mistake *mistake, int number, FILE *out) {
    char *text = write_right(kind);
    for (int i = 0; i < SM_MOST_EDITS && mistake->edits[i].find != NULL; i++) {
        text = replace(text, mistake->edits[i].find, mistake->edits[i].replace);
        SM_FAIL_IF(text == NULL, SM_ERR_FORMAT, "%s: the reference lacks \"%s\"", sm_op_name(kind),
                   mistake->edits[i].find);
    }
    fprintf(out, "#undef K\n#define K %d\n%s", number, text);
    free(text);
    return SM_OK;
}

sm_status sm_mistakes_write(sm_op_kind kind, const char *path) {
    const char *name = sm_op_name(kind);
    sm_status status = SM_OK;
    FILE *out = fopen(path, "w");
    SM_FAIL_IF(out == NULL, SM_ERR_IO, "%s: %s", path, strerror(errno));
    fputs(prelude, out);
    sm_own_kernel_header(kind, out);
    for (const char *own = own_names; *own != '\0'; own += strcspn(own, " "), own += *own == ' ') {
        const int length = (int)strcspn(own, " ");
        fprintf(out, "#define %.*s OF(%.*s_, K)\n", length, own, length, own);
    }
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        fprintf(out, "#define %s %d\n", places[i].name, places[i].place);
    }
    int n = 0;
    for (; status == SM_OK && sm_mistake_at(kind, n) != NULL; n++) {
        status = write_mistake(kind, sm_mistake_at(kind, n), n, out);
    }
    fprintf(out, "void %s(const %s_args *args) {\n    switch (args->thread) {\n", name, name);
    for (int i = 0; i < n; i++) {
        fprintf(out, "    case %d: ref_run_%d(args); break;\n", i, i);
    }
    fprintf(out, "    }\n}\n");
    const bool failed = ferror(out) != 0;
    if ((fclose(out) != 0 || failed) && status == SM_OK) {
        status = sm_fail(SM_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
    }
    return status;
}
