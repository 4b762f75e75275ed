// list.c: the exercises, with their hints.
#include "learn/exercise/exercise.h"

#define STARTS "// starts is for rows of several documents: NULL here.\n"

#define HINTS(...) \
    { __VA_ARGS__ }

static const sm_exercise exercises[] = {
    {SM_OP_LOSS_MEAN, "01-tokens.md", "the mean loss of the tokens that count", "",
     HINTS("Two sums over n: of the losses that count, and of the places that count.",
           "A place counts where target[n] is not -1. Divide once, after the loop.",
           "count += target[n] != -1; after the loop, *loss = sum / (count > 0 ? count : 1).")},
    {SM_OP_EMBEDDING_FORWARD, "02-embedding.md", "a vector for each token: its row of wte and its position's of wpe",
     "// The token of (b,t) is token[b * T + t]; row i of wte begins at wte + i * C. wpe may be NULL.\n" STARTS,
     HINTS("A lookup, then an addition: nothing is multiplied.",
           "Three loops, b, t, c. The token's id chooses a row of wte, the position t a row of wpe.",
           "x[(b * T + t) * C + c] = wte[token[b * T + t] * C + c] + (wpe != NULL ? wpe[t * C + c] : 0).")},
    {SM_OP_EMBEDDING_BACKWARD, "02-embedding.md", "the gradients of both tables", "// dwpe may be NULL.\n" STARTS,
     HINTS("The forward read a row for each token; the backward adds a row of dx to each row that was read.",
           "A token may occur twice: its row gets both. All sequences share the rows of dwpe.",
           "dwte[token[b * T + t] * C + c] += dx[(b * T + t) * C + c], and where dwpe is not NULL, dwpe[t * C + c] += "
           "the same.")},
    {SM_OP_LAYERNORM_FORWARD, "03-layernorm.md", "rows of mean 0 and variance 1, scaled by w and shifted by b",
     "// Keep mean and rstd: the backward reads them. add and r are for rewritten plans: NULL here.\n",
     HINTS("Row by row: first the mean, then the variance around it, then y.",
           "Three loops over c, one after the other: the variance needs the mean of the whole row.",
           "rstd = 1 / sqrt(variance + eps), where the variance is the mean of (x - mean)^2; y[n * C + c] = (x[n * C + "
           "c] - mean) * rstd * w[c] + b[c]; store mean[n] and rstd[n].")},
    {SM_OP_LAYERNORM_BACKWARD, "03-layernorm.md", "its gradients; mean and variance depend on x, too",
     "// dskip and dbias are for rewritten plans: NULL here.\n",
     HINTS("dw and db are sums over rows; dx needs two means over each row.",
           "With xh = (x - mean) rstd and g = dy w: of each row take the mean of g and that of g xh.",
           "dx = rstd * (g - mean_g - xh * mean_g_xh), written; dw[c] += dy * xh and db[c] += dy, added.")},
    {SM_OP_MATMUL_FORWARD, "04-matmul.md", "a linear layer",
     "// Begin with W[c * F + f]: the first cases are plain. Where w_transposed is 1, W[f * C + c].\n// b and act are "
     "for rewritten plans: NULL here.\n",
     HINTS(
         "Each output is the product of a row of x and a column of W.",
         "Three loops: n and f choose the output, c runs over the sum. Begin with w_transposed = 0.",
         "sum += x[n * C + c] * W[w_transposed ? f * C + c : c * F + f]; after the loop over c, y[n * F + f] = sum.")},
    {SM_OP_MATMUL_BACKWARD_INPUT, "04-matmul.md", "its gradient with respect to x",
     "// Begin with W[c * F + f]: the first cases are plain. Where w_transposed is 1, W[f * C + c].\n// pre is for "
     "rewritten plans: NULL here.\n",
     HINTS("x[n,c] went into every y of its row: its gradient is a sum over f.",
           "Three loops: n and c choose the output, f runs over the sum.",
           "sum += dy[n * F + f] * W[w_transposed ? f * C + c : c * F + f]; then dx[n * C + c] = sum.")},
    {SM_OP_MATMUL_BACKWARD_WEIGHT, "04-matmul.md", "its gradient with respect to W",
     "// Begin with dW[c * F + f]: the first cases are plain. Where w_transposed is 1, dW[f * C + c], as W is "
     "stored.\n// overwrites is 0 here. db is for rewritten plans: it is NULL here.\n",
     HINTS("W[c,f] was used in every row: its gradient is a sum over n.",
           "Three loops: c and f choose the output, n runs over the sum. dW holds a sum already.",
           "sum += x[n * C + c] * dy[n * F + f]; then dW[w_transposed ? f * C + c : c * F + f] += sum.")},
    {SM_OP_BIAS_BACKWARD, "04-matmul.md", "the gradient of a bias", "",
     HINTS("The same b was added to every row.",
           "Two loops: c chooses the output, n runs over the sum. db holds a sum already.",
           "db[c] += the sum of dy[n * C + c] over n.")},
    {SM_OP_ATTENTION_FORWARD, "05-attention.md", "causal attention, head by head",
     "// A row of qkv: NH heads of queries, NKV of keys, NKV of values, HS channels each. Head h reads the keys and "
     "the\n"
     "// values of head h / (NH / NKV). Weight (b,h,t,s) is element ((b * NH + h) * T + t) * T + s of att; it is "
     "stored as\n// it is, and multiplied by what dropout says of that element when it mixes v.\n" STARTS,
     HINTS("For each sequence, head and token: scores of the tokens up to it, softmax, a mean of their values.",
           "Loops b, h, t; in them s from 0 to t, three times: the scores with their largest, the sum of exp, the mean "
           "of v. Weights for s > t are 0.",
           "q is qkv + (b * T + t) * row + h * HS with row = (NH + 2 * NKV) * HS; k of s: qkv + (b * T + s) * row + "
           "(NH + h / (NH / NKV)) * HS; v lies NKV * HS after k.")},
    {SM_OP_ATTENTION_BACKWARD, "05-attention.md", "the gradients of queries, keys and values",
     "// As in attention_forward. Heads that share keys and values add up their gradients.\n" STARTS,
     HINTS("Go back through the mean of values, then softmax, then the scores.",
           "For each row t: da[s] = dy v[s]; ds[s] = att[s] (da[s] - sum of att da). Then dq of t gets ds k, dk of s "
           "gets ds q, both over sqrt(HS); dv of s gets att dy.",
           "Set all of dqkv to 0 first: dk and dv of s are sums over t, and over the heads that share them.")},
    {SM_OP_FLASH_ATTENTION_FORWARD, "06-flash-attention.md", "the same without ever storing T times T weights",
     "// lse (B,NH,T) is the log of the sum of exp(score). Go over s once, with a running largest score and sum.\n"
     "// Weight (b,h,t,s) is multiplied by what dropout says of element ((b * NH + h) * T + t) * T + s when it mixes "
     "v.\n" STARTS,
     HINTS("The softmax of a row can be summed while its scores arrive.",
           "Keep the largest score m, the sum z and the weighted sum o of v; a larger score rescales z and o by exp(m "
           "- new m).",
           "After the last s: y = o / z, and lse = m + log(z).")},
    {SM_OP_GELU_FORWARD, "07-gelu.md", "the activation, element by element", "",
     HINTS("One loop; every element for itself.", "u = sqrt(2/pi) (x + 0.044715 x^3), then tanh(u).",
           "y[i] = 0.5 * x * (1 + tanh(u)).")},
    {SM_OP_GELU_BACKWARD, "07-gelu.md", "its derivative", "",
     HINTS("The derivative of a product, then of tanh: 1 - tanh(u)^2.", "du/dx = sqrt(2/pi) (1 + 3 * 0.044715 x^2).",
           "dx[i] = dy[i] * (0.5 * (1 + th) + 0.5 * x * (1 - th * th) * du).")},
    {SM_OP_RESIDUAL, "08-residual.md", "the residual stream's addition", "",
     HINTS("One loop.", "The output may lie where an input lies: read an element before you write it.",
           "y[i] = a[i] + b[i].")},
    {SM_OP_CROSSENTROPY_FORWARD, "09-loss.md", "the loss of each token",
     "// Subtract the largest logit before exp. Columns from V to Vp are padding.\n",
     HINTS("The loss is the logarithm of a sum of exponentials, less the target's logit.",
           "Of each row: the largest logit, the sum of exp(logit - largest), its logarithm. Only the first V columns "
           "count.",
           "lse[n] = largest + log(sum); losses[n] = target[n] == -1 ? 0 : lse[n] - logits[n * Vp + target[n]].")},
    {SM_OP_CROSSENTROPY_BACKWARD, "09-loss.md", "its gradient: softmax less the target", "",
     HINTS("A probability for each token, less 1 at the target.",
           "p = exp(logit - lse[n]). All of a row is 0 where its target is -1; the columns from V on are 0.",
           "dlogits[n * Vp + v] = scale[0] * (p - (v == target[n])).")},
    {SM_OP_ADAMW, "11-adamw.md", "the update of the weights", "// w is for plans in bf16: it is NULL here.\n",
     HINTS("One loop; g, m, v, p of each element.",
           "hyper[LR], hyper[BETA1] and the others are named at the head of the file; clip[0] is a factor on g. Decay "
           "p before the step.",
           "m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g g; p = p (1 - lr wd) - lr (m / bc1) / (sqrt(v / "
           "bc2) + eps); wd counts only where decay is 1; nothing at all where *clip < 0.")},
};

int sm_exercise_count(void) { return (int)(sizeof exercises / sizeof exercises[0]); }
const sm_exercise *sm_exercise_at(int index) { return &exercises[index]; }

const sm_exercise *sm_exercise_find(const char *name) {
    for (int i = 0; i < sm_exercise_count(); i++) {
        if (strcmp(sm_op_name(exercises[i].kind), name) == 0) {
            return &exercises[i];
        }
    }
    return NULL;
}
