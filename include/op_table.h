// op_table.h: the table of op kinds. op.h takes the kinds and the names of their operands from it; op_kinds.c the facts
// that walk, estimate, verify and the backends read. Each includer defines the words below that it needs; the others
// expand to nothing.
//
//   OP(code, name, inplace,           inplace: the input that the first output, or the one with SM_INPLACE, may
//                                     overwrite, SM_IN(name, operand), or SM_NO_OPERAND
//      work, again, call, look,       words, below
//      attributes,
//      equation, source)              equation: one line, in the operands' names; source: paper and section
//   SHARED_OP(...)                    likewise, without call and look, for ops done with other processes: no backend
//                                     has a kernel. Left out if NO_SHARED_OPS is defined
//   Kinds of 8 bits are left out if NO_FP8_OPS is defined, by backends that have no such products
//   IN(operand, shape, type, flags)   of each input, in order; flags: SM_OPTIONAL, SM_TRANSPOSABLE, SM_FACTOR,
//                                     SM_TURNABLE, or 0
//   UPDATE_INPUTS(shape)              the inputs g, hyper and clip of an update
//   OUT(operand, shape, type, mode, flags)      of each output, at least one; mode: SM_WRITES, SM_ADDS or SM_UPDATES;
//                                     flags also SM_INPLACE
//   WORKING_COPY(shape)               the optional output w of an update: its first output, rounded to the data type
//   END
//
// work: the FLOPs of the equation. A multiply, an add, a comparison and a transcendental function count one each.
//   EACH_IN(n, name, operand)         n for each element of an input
//   EACH_OUT(n, name, operand)        n for each element of an output
//   COUNTED(what)                     the function flops_of_WHAT in op_kinds.c
//   NO_WORK                           values are only set or sent
//
// again: the backward computes the result of a CHEAP forward op again (rewrites/recompute.c); the result of a KEPT one
// stays in memory.
//
// call: the arguments of the reference's function. Prototype and call follow from it:
//   BY_ELEMENT                        n, the elements of the first operand; attributes; operands in the table's order
//   BY_ROW                            N and C, the rows and columns of the first operand; then the same
//   OWN_CALL                          own_NAME in backends/reference/run.c makes the call
//
// look: the check of single ops in a run (src/verify/spot.h): LOOK(rows) and others, or NO_LOOK for updates, which the
// check of updates compares.
//
// attributes: the attributes of SM_ATTR_LIST (op.h) that the kind has, HAS(eps) HAS(decay), or NO_ATTRS. An op that
// sets any other is refused. HEADS and DROPS are attention's pairs.
//
// The file that implements a kind has the same stem in every backend: activation (and gelu), attention, bias, dropout,
// embedding, grad_norm, head_rmsnorm, layernorm, loss, matmul, residual, rmsnorm, rope, swiglu, optimizer (adamw, adam,
// sgd, lion), adamw8bit, adafactor, muon, zero.
//
// Shapes are written in dimension letters. Two letters, "(N,C)", see the tensor as rows by columns (leading dims
// flattened); one letter counts elements; three or four are exact. A letter has the same value in all operands of an
// op; "(n/256)" counts blocks of 256 elements, rounded up. A SM_TRANSPOSABLE shape has its two letters exchanged when
// the op's attribute w_transposed is set. The optional starts holds, for each position, the index in its row where its
// document begins: positions count from there, and attention looks back no further. starts is non-decreasing in t and
// starts[b,t] <= t. Padding has starts = t, so it attends only to itself. Without starts a row is one document. QKV is
// (NH + 2 NKV) HS: for each token its queries, keys and values, head by head; NQK is NH + NKV, the heads of queries and
// keys. Attention's C is NH HS.
//
// A kind that has an input `clip` but writes no scaler does nothing when clip is negative: the step is skipped.
//
// Types: DATA is the plan's data type, REAL its real type (plan.h); or I32, U32, U8, FP8.
//
// With the attribute fp8 a product's factors are FP8 and have scales, by which they were multiplied (cast_fp8): the
// result is divided by both. The dimension that is summed lies along both factors' rows: forward takes W as (F,C), so
// w_transposed is set; backward_input as (C,F); backward_weight takes x as (C,N) and dy as (F,N).
//
// clang-format off
#ifndef OP
#define OP(...)
#endif
#ifndef SHARED_OP
#define SHARED_OP(...) OP(__VA_ARGS__)
#endif
#ifndef IN
#define IN(operand, shape, type, flags)
#endif
#ifndef UPDATE_INPUTS
#define UPDATE_INPUTS(shape) IN(g, shape, REAL, 0) IN(hyper, "(h)", REAL, 0) IN(clip, "(1)", REAL, 0)
#endif
#ifndef OUT
#define OUT(operand, shape, type, mode, flags)
#endif
#ifndef WORKING_COPY
#define WORKING_COPY(shape) OUT(w, shape, DATA, SM_WRITES, SM_OPTIONAL)
#endif
#ifndef END
#define END
#endif

OP(SM_OP_ZERO, zero, SM_NO_OPERAND,
   NO_WORK, KEPT, BY_ELEMENT, LOOK(zero), NO_ATTRS,
   "x = 0", "gradients of one step are a sum over its micro-batches, so they start at zero")
    OUT(x, "(n)", REAL, SM_WRITES, 0) END

OP(SM_OP_LOSS_SCALE, loss_scale, SM_NO_OPERAND,
   EACH_IN(1, loss_scale, targets), KEPT, BY_ELEMENT, LOOK(whole), NO_ATTRS,
   "scale = hyper.loss_scale / max(1, number of targets that are not -1), times scaler.scale where there is a scaler",
   "derivative of the mean loss with respect to one token's loss; scaled as in Micikevicius et al. 2018, section 3.2")
    IN(targets, "(N)", I32, 0)
    IN(hyper, "(h)", REAL, 0)
    IN(scaler, "(s)", REAL, SM_OPTIONAL)
    OUT(scale, "(1)", REAL, SM_WRITES, 0) END

OP(SM_OP_EMBEDDING_FORWARD, embedding_forward, SM_NO_OPERAND,
   EACH_OUT(1, embedding_forward, x), KEPT, OWN_CALL, LOOK(embedding), NO_ATTRS,
   "x[b,t,:] = wte[token[b,t],:] + wpe[t - starts[b,t],:]",
   "Radford et al. 2018, section 3.1: h0 = U We + Wp; without wpe where positions are rope's")
    IN(token, "(B,T)", I32, 0)
    IN(wte, "(V,C)", DATA, 0)
    IN(wpe, "(P,C)", DATA, SM_OPTIONAL)
    IN(starts, "(B,T)", I32, SM_OPTIONAL)
    OUT(x, "(B,T,C)", DATA, SM_WRITES, 0) END

OP(SM_OP_EMBEDDING_BACKWARD, embedding_backward, SM_NO_OPERAND,
   EACH_IN(2, embedding_backward, dx), KEPT, OWN_CALL, LOOK(embedding_backward), HAS(when),
   "dwte[token[b,t],:] += dx[b,t,:];  dwpe[t - starts[b,t],:] += dx[b,t,:]", "derivative of embedding_forward")
    IN(token, "(B,T)", I32, 0)
    IN(dx, "(B,T,C)", DATA, 0)
    IN(starts, "(B,T)", I32, SM_OPTIONAL)
    OUT(dwte, "(V,C)", REAL, SM_ADDS, 0)
    OUT(dwpe, "(P,C)", REAL, SM_ADDS, SM_OPTIONAL) END

OP(SM_OP_DROPOUT, dropout, SM_IN(dropout, x),
   EACH_OUT(2, dropout, y), KEPT, OWN_CALL, LOOK(dropout), DROPS,
   "y = keep * x / (1 - p), keep ~ Bernoulli(1 - p) from Philox(key, element, rng_step); its own derivative",
   "Srivastava et al. 2014, section 4 (inverted form)")
    IN(x, "(n)", DATA, 0)
    IN(rng_step, "(2)", U32, 0)
    OUT(y, "(n)", DATA, SM_WRITES, 0) END

OP(SM_OP_LAYERNORM_FORWARD, layernorm_forward, SM_IN(layernorm_forward, x),
   COUNTED(layernorm_forward), CHEAP, BY_ROW, LOOK(rows), HAS(eps),
   "r = x + add, and x is r from here on;  mean = sum_c x / C;  rstd = 1/sqrt(sum_c (x - mean)^2 / C + eps);  "
   "y = (x - mean) rstd w + b",
   "Ba et al. 2016, equations 3 and 4; the optional add and r are the residual's, in the same pass over a row")
    IN(x, "(N,C)", DATA, 0)
    IN(w, "(C)", REAL, 0)
    IN(b, "(C)", REAL, 0)
    IN(add, "(N,C)", DATA, SM_OPTIONAL)
    OUT(y, "(N,C)", DATA, SM_WRITES, 0)
    OUT(mean, "(N)", REAL, SM_WRITES, 0)
    OUT(rstd, "(N)", REAL, SM_WRITES, 0)
    OUT(r, "(N,C)", DATA, SM_WRITES, SM_OPTIONAL | SM_INPLACE) END

OP(SM_OP_LAYERNORM_BACKWARD, layernorm_backward, SM_IN(layernorm_backward, dskip),
   COUNTED(layernorm_backward), KEPT, BY_ROW, LOOK(column_sums), NO_ATTRS,
   "xh = (x - mean) rstd;  g = dy w;  dx = rstd (g - sum_c g / C - xh sum_c g xh / C), plus dskip if there is one;  "
   "dw += sum_n dy xh;  db += sum_n dy;  dbias += sum_n dx",
   "derivative of layernorm_forward; the optional dskip is the gradient that reaches x past the norm, the optional dbias"
   " that of the bias last added to x")
    IN(dy, "(N,C)", DATA, 0)
    IN(x, "(N,C)", DATA, 0)
    IN(w, "(C)", REAL, 0)
    IN(mean, "(N)", REAL, 0)
    IN(rstd, "(N)", REAL, 0)
    IN(dskip, "(N,C)", DATA, SM_OPTIONAL)
    OUT(dx, "(N,C)", DATA, SM_WRITES, 0)
    OUT(dw, "(C)", REAL, SM_ADDS, 0)
    OUT(db, "(C)", REAL, SM_ADDS, 0)
    OUT(dbias, "(C)", REAL, SM_ADDS, SM_OPTIONAL) END

OP(SM_OP_MATMUL_FORWARD, matmul_forward, SM_NO_OPERAND,
   COUNTED(matmul_forward), KEPT, OWN_CALL, LOOK(product), HAS(vocab) HAS(w_transposed) HAS(fp8) HAS(then_bias)
   HAS(then_gelu) HAS(then_relu2),
   "y = x W", "a linear layer; W is (C,F), or (F,C) and used transposed (the tied head)")
    IN(x, "(N,C)", DATA, SM_FACTOR)
    IN(W, "(C,F)", DATA, SM_TRANSPOSABLE | SM_FACTOR)
    IN(b, "(F)", REAL, SM_OPTIONAL)
    IN(x_scale, "(1)", REAL, SM_OPTIONAL)
    IN(W_scale, "(1)", REAL, SM_OPTIONAL)
    OUT(y, "(N,F)", DATA, SM_WRITES, 0)
    OUT(act, "(N,F)", DATA, SM_WRITES, SM_OPTIONAL) END

OP(SM_OP_MATMUL_BACKWARD_INPUT, matmul_backward_input, SM_NO_OPERAND,
   COUNTED(matmul_backward_input), KEPT, OWN_CALL, LOOK(product), HAS(vocab) HAS(w_transposed) HAS(fp8)
   HAS(then_gelu_backward) HAS(then_relu2_backward),
   "dx = dy W^T", "derivative of matmul_forward with respect to x")
    IN(dy, "(N,F)", DATA, SM_FACTOR)
    IN(W, "(C,F)", DATA, SM_TRANSPOSABLE | SM_FACTOR)
    IN(pre, "(N,C)", DATA, SM_OPTIONAL)
    IN(dy_scale, "(1)", REAL, SM_OPTIONAL)
    IN(W_scale, "(1)", REAL, SM_OPTIONAL)
    OUT(dx, "(N,C)", DATA, SM_WRITES, 0) END

OP(SM_OP_MATMUL_BACKWARD_WEIGHT, matmul_backward_weight, SM_NO_OPERAND,
   COUNTED(matmul_backward_weight), KEPT, OWN_CALL, LOOK(weight), HAS(vocab) HAS(w_transposed) HAS(fp8)
   HAS(overwrites),
   "dW += x^T dy;  db += sum_n dy",
   "derivative of matmul_forward with respect to W; the optional db is that of the bias added to y")
    IN(x, "(N,C)", DATA, SM_FACTOR | SM_TURNABLE)
    IN(dy, "(N,F)", DATA, SM_FACTOR | SM_TURNABLE)
    IN(x_scale, "(1)", REAL, SM_OPTIONAL)
    IN(dy_scale, "(1)", REAL, SM_OPTIONAL)
    OUT(dW, "(C,F)", REAL, SM_ADDS, SM_TRANSPOSABLE)
    OUT(db, "(F)", REAL, SM_ADDS, SM_OPTIONAL) END

OP(SM_OP_BIAS_FORWARD, bias_forward, SM_IN(bias_forward, x),
   EACH_OUT(1, bias_forward, y), KEPT, BY_ROW, LOOK(rows), NO_ATTRS,
   "y = x + b", "a linear layer's bias, broadcast over rows")
    IN(x, "(N,C)", DATA, 0)
    IN(b, "(C)", REAL, 0)
    OUT(y, "(N,C)", DATA, SM_WRITES, 0) END

OP(SM_OP_BIAS_BACKWARD, bias_backward, SM_NO_OPERAND,
   EACH_IN(1, bias_backward, dy), KEPT, BY_ROW, LOOK(column_sums), NO_ATTRS,
   "db += sum_n dy", "derivative of bias_forward with respect to b")
    IN(dy, "(N,C)", DATA, 0)
    OUT(db, "(C)", REAL, SM_ADDS, 0) END

OP(SM_OP_ATTENTION_FORWARD, attention_forward, SM_NO_OPERAND,
   COUNTED(attention_forward), KEPT, OWN_CALL, LOOK(attention), HEADS DROPS,
   "per head: att = softmax(q k^T / sqrt(HS)) over keys starts <= s <= t;  y = dropout(att) v",
   "Vaswani et al. 2017, equation 1, with a causal mask; heads share keys and values where NKV < NH (Ainslie et al."
   " 2023)")
    IN(qkv, "(B,T,QKV)", DATA, 0)
    IN(rng_step, "(2)", U32, SM_OPTIONAL)
    IN(starts, "(B,T)", I32, SM_OPTIONAL)
    OUT(y, "(B,T,C)", DATA, SM_WRITES, 0)
    OUT(att, "(B,NH,T,T)", DATA, SM_WRITES, 0) END

OP(SM_OP_ATTENTION_BACKWARD, attention_backward, SM_NO_OPERAND,
   COUNTED(attention_backward), KEPT, OWN_CALL, LOOK(attention_backward), HEADS DROPS,
   "dv = dropout(att)^T dy;  da = dropout(dy v^T);  ds = att (da - sum_s att da);  dq = ds k / sqrt(HS);  dk"
   " = ds^T q / sqrt(HS)", "derivative of attention_forward")
    IN(dy, "(B,T,C)", DATA, 0)
    IN(qkv, "(B,T,QKV)", DATA, 0)
    IN(att, "(B,NH,T,T)", DATA, 0)
    IN(rng_step, "(2)", U32, SM_OPTIONAL)
    IN(starts, "(B,T)", I32, SM_OPTIONAL)
    OUT(dqkv, "(B,T,QKV)", DATA, SM_WRITES, 0) END

OP(SM_OP_GELU_FORWARD, gelu_forward, SM_NO_OPERAND,
   EACH_OUT(9, gelu_forward, y), CHEAP, BY_ELEMENT, LOOK(rows), NO_ATTRS,
   "y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))", "Hendrycks and Gimpel 2016, section 2 (tanh form)")
    IN(x, "(n)", DATA, 0)
    OUT(y, "(n)", DATA, SM_WRITES, 0) END

OP(SM_OP_GELU_BACKWARD, gelu_backward, SM_IN(gelu_backward, dy),
   EACH_OUT(18, gelu_backward, dx), KEPT, BY_ELEMENT, LOOK(rows), NO_ATTRS,
   "dx = dy gelu'(x)", "derivative of gelu_forward")
    IN(dy, "(n)", DATA, 0)
    IN(x, "(n)", DATA, 0)
    OUT(dx, "(n)", DATA, SM_WRITES, 0) END

OP(SM_OP_RELU2_FORWARD, relu2_forward, SM_NO_OPERAND,
   EACH_OUT(2, relu2_forward, y), CHEAP, BY_ELEMENT, LOOK(rows), NO_ATTRS,
   "y = max(x, 0)^2", "So et al. 2021 (Primer), section 4.1")
    IN(x, "(n)", DATA, 0)
    OUT(y, "(n)", DATA, SM_WRITES, 0) END

OP(SM_OP_RELU2_BACKWARD, relu2_backward, SM_IN(relu2_backward, dy),
   EACH_OUT(3, relu2_backward, dx), KEPT, BY_ELEMENT, LOOK(rows), NO_ATTRS,
   "dx = 2 max(x, 0) dy", "derivative of relu2_forward")
    IN(dy, "(n)", DATA, 0)
    IN(x, "(n)", DATA, 0)
    OUT(dx, "(n)", DATA, SM_WRITES, 0) END

OP(SM_OP_RMSNORM_FORWARD, rmsnorm_forward, SM_IN(rmsnorm_forward, x),
   COUNTED(rmsnorm_forward), CHEAP, BY_ROW, LOOK(rows), HAS(eps),
   "r = x + add, and x is r from here on;  rstd = 1/sqrt(sum_c x^2 / C + eps);  y = x rstd w",
   "Zhang and Sennrich 2019, equation 4; the optional add and r are the residual's, in the same pass over a row")
    IN(x, "(N,C)", DATA, 0)
    IN(w, "(C)", REAL, 0)
    IN(add, "(N,C)", DATA, SM_OPTIONAL)
    OUT(y, "(N,C)", DATA, SM_WRITES, 0)
    OUT(rstd, "(N)", REAL, SM_WRITES, 0)
    OUT(r, "(N,C)", DATA, SM_WRITES, SM_OPTIONAL | SM_INPLACE) END

OP(SM_OP_RMSNORM_BACKWARD, rmsnorm_backward, SM_IN(rmsnorm_backward, dskip),
   COUNTED(rmsnorm_backward), KEPT, BY_ROW, LOOK(column_sums), NO_ATTRS,
   "xh = x rstd;  g = dy w;  dx = rstd (g - xh sum_c g xh / C), plus dskip if there is one;  dw += sum_n dy xh",
   "derivative of rmsnorm_forward; the optional dskip is the gradient that reaches x past the norm")
    IN(dy, "(N,C)", DATA, 0)
    IN(x, "(N,C)", DATA, 0)
    IN(w, "(C)", REAL, 0)
    IN(rstd, "(N)", REAL, 0)
    IN(dskip, "(N,C)", DATA, SM_OPTIONAL)
    OUT(dx, "(N,C)", DATA, SM_WRITES, 0)
    OUT(dw, "(C)", REAL, SM_ADDS, 0) END

OP(SM_OP_HEAD_RMSNORM_FORWARD, head_rmsnorm_forward, SM_IN(head_rmsnorm_forward, x),
   COUNTED(head_rmsnorm_forward), CHEAP, OWN_CALL, LOOK(rows), HEADS HAS(eps),
   "per head of q and k: rstd = 1/sqrt(sum_i x^2 / HS + eps);  y = x rstd w, w being wq for q and wk for k;  v stays",
   "Dehghani et al. 2023, section 2 (queries and keys are normalised); as RMSNorm in Qwen 3 (Yang et al. 2025, section 2)")
    IN(x, "(B,T,QKV)", DATA, 0)
    IN(wq, "(HS)", REAL, 0)
    IN(wk, "(HS)", REAL, 0)
    OUT(y, "(B,T,QKV)", DATA, SM_WRITES, 0)
    OUT(rstd, "(B,T,NQK)", REAL, SM_WRITES, 0) END

OP(SM_OP_HEAD_RMSNORM_BACKWARD, head_rmsnorm_backward, SM_IN(head_rmsnorm_backward, dy),
   COUNTED(head_rmsnorm_backward), KEPT, OWN_CALL, LOOK(head_sums), HEADS,
   "per head of q and k: xh = x rstd;  g = dy w;  dx = rstd (g - xh sum_i g xh / HS);  dw += sum over rows and heads of"
   " dy xh;  v: dx = dy", "derivative of head_rmsnorm_forward")
    IN(dy, "(B,T,QKV)", DATA, 0)
    IN(x, "(B,T,QKV)", DATA, 0)
    IN(wq, "(HS)", REAL, 0)
    IN(wk, "(HS)", REAL, 0)
    IN(rstd, "(B,T,NQK)", REAL, 0)
    OUT(dx, "(B,T,QKV)", DATA, SM_WRITES, 0)
    OUT(dwq, "(HS)", REAL, SM_ADDS, 0)
    OUT(dwk, "(HS)", REAL, SM_ADDS, 0) END

OP(SM_OP_ROPE, rope, SM_IN(rope, x),
   COUNTED(rope), KEPT, OWN_CALL, LOOK(rows), HEADS HAS(rope_theta) HAS(inverse),
   "per head of q and k, i < HS/2: angle = (t - starts) / theta^(2i/HS);  y[i] = x[i] cos - x[i+HS/2] sin;  y[i+HS/2] = x[i] sin"
   " + x[i+HS/2] cos;  v stays",
   "Su et al. 2021, equation 34, with halves for pairs; backward, the same with angles of the other sign")
    IN(x, "(B,T,QKV)", DATA, 0)
    IN(starts, "(B,T)", I32, SM_OPTIONAL)
    OUT(y, "(B,T,QKV)", DATA, SM_WRITES, 0) END

OP(SM_OP_SWIGLU_FORWARD, swiglu_forward, SM_NO_OPERAND,
   EACH_OUT(5, swiglu_forward, y), CHEAP, OWN_CALL, LOOK(rows), NO_ATTRS,
   "gate, up = the two halves of a row of x;  y = gate / (1 + exp(-gate)) up", "Shazeer 2020, equation 6")
    IN(x, "(N,2F)", DATA, 0)
    OUT(y, "(N,F)", DATA, SM_WRITES, 0) END

OP(SM_OP_SWIGLU_BACKWARD, swiglu_backward, SM_IN(swiglu_backward, x),
   EACH_IN(12, swiglu_backward, dy), KEPT, BY_ROW, LOOK(rows), NO_ATTRS,
   "s = 1 / (1 + exp(-gate));  dgate = dy up s (1 + gate (1 - s));  dup = dy gate s", "derivative of swiglu_forward")
    IN(dy, "(N,F)", DATA, 0)
    IN(x, "(N,2F)", DATA, 0)
    OUT(dx, "(N,2F)", DATA, SM_WRITES, 0) END

OP(SM_OP_RESIDUAL, residual, SM_IN(residual, a),
   EACH_OUT(1, residual, y), KEPT, BY_ELEMENT, LOOK(rows), NO_ATTRS,
   "y = a + b", "He et al. 2016, equation 1; backward, the gradients of a fan-out add the same way")
    IN(a, "(n)", DATA, 0)
    IN(b, "(n)", DATA, 0)
    OUT(y, "(n)", DATA, SM_WRITES, 0) END

OP(SM_OP_CROSSENTROPY_FORWARD, crossentropy_forward, SM_NO_OPERAND,
   COUNTED(crossentropy), KEPT, BY_ROW, LOOK(rows), HAS(vocab),
   "lse = log sum_v<V exp(logits[n,v]);  losses[n] = lse - logits[n,target[n]], or 0 where target is -1",
   "Bridle 1990; negative log likelihood of the softmax over the V real columns")
    IN(logits, "(N,Vp)", DATA, 0)
    IN(target, "(N)", I32, 0)
    OUT(losses, "(N)", REAL, SM_WRITES, 0)
    OUT(lse, "(N)", REAL, SM_WRITES, 0) END

OP(SM_OP_CROSSENTROPY_BACKWARD, crossentropy_backward, SM_IN(crossentropy_backward, logits),
   COUNTED(crossentropy), KEPT, BY_ROW, LOOK(rows), HAS(vocab),
   "dlogits[n,v] = scale (exp(logits[n,v] - lse[n]) - [v = target[n]]); 0 where target is -1 or v >= V",
   "derivative of crossentropy_forward")
    IN(logits, "(N,Vp)", DATA, 0)
    IN(target, "(N)", I32, 0)
    IN(lse, "(N)", REAL, 0)
    IN(scale, "(1)", REAL, 0)
    OUT(dlogits, "(N,Vp)", DATA, SM_WRITES, 0) END

OP(SM_OP_CROSSENTROPY_WITH_GRADIENT, crossentropy_with_gradient, SM_IN(crossentropy_with_gradient, logits),
   COUNTED(crossentropy_with_gradient), KEPT, BY_ROW, LOOK(rows), HAS(vocab),
   "losses = crossentropy_forward(logits);  dlogits = crossentropy_backward(logits)",
   "crossentropy_forward and crossentropy_backward of one row after the other")
    IN(logits, "(N,Vp)", DATA, 0)
    IN(target, "(N)", I32, 0)
    IN(scale, "(1)", REAL, 0)
    OUT(dlogits, "(N,Vp)", DATA, SM_WRITES, 0)
    OUT(losses, "(N)", REAL, SM_WRITES, 0) END

OP(SM_OP_LOSS_MEAN, loss_mean, SM_NO_OPERAND,
   EACH_IN(1, loss_mean, losses), KEPT, BY_ELEMENT, LOOK(whole), NO_ATTRS,
   "loss = sum_n losses[n] / max(1, number of targets that are not -1)",
   "mean negative log likelihood of the micro-batch")
    IN(losses, "(N)", REAL, 0)
    IN(target, "(N)", I32, 0)
    OUT(loss, "(1)", REAL, SM_WRITES, 0) END

OP(SM_OP_GRAD_SQNORM, grad_sqnorm, SM_NO_OPERAND,
   EACH_IN(2, grad_sqnorm, g), KEPT, BY_ELEMENT, LOOK(sqnorm), NO_ATTRS,
   "sqnorm = sum_i g[i]^2", "Pascanu et al. 2013, section 3.2")
    IN(g, "(n)", REAL, 0)
    OUT(sqnorm, "(1)", REAL, SM_WRITES, 0) END

OP(SM_OP_GRAD_CLIP, grad_clip, SM_NO_OPERAND,
   COUNTED(grad_clip), KEPT, BY_ELEMENT, LOOK(whole), NO_ATTRS,
   "norm = sqrt(sum_k sqnorm[k]);  clip = min(1, hyper.grad_clip / (norm + 1e-6)), or 1 when hyper.grad_clip"
   " is 0;  with a scaler, norm is divided by scaler.scale, and so is clip then; clip = -1 where norm is not finite",
   "Pascanu et al. 2013, algorithm 1, with PyTorch's 1e-6; a sum of squares is finite where every gradient is")
    IN(sqnorm, "(G)", REAL, 0)
    IN(hyper, "(h)", REAL, 0)
    IN(scaler, "(s)", REAL, SM_OPTIONAL)
    OUT(norm, "(1)", REAL, SM_WRITES, 0)
    OUT(clip, "(1)", REAL, SM_WRITES, 0) END

OP(SM_OP_SCALER_UPDATE, scaler_update, SM_NO_OPERAND,
   COUNTED(scaler_update), KEPT, OWN_CALL, LOOK(whole), NO_ATTRS,
   "clip < 0: scale *= hyper.scale_backoff, good = 0, skipped += 1;  else good += 1, and at hyper.scale_interval of them"
   " scale *= hyper.scale_growth unless that is infinite, good = 0",
   "Micikevicius et al. 2018, section 3.2, by the rule of PyTorch's GradScaler")
    IN(clip, "(1)", REAL, 0)
    IN(hyper, "(h)", REAL, 0)
    OUT(scaler, "(s)", REAL, SM_UPDATES, 0) END

OP(SM_OP_ADAMW, adamw, SM_NO_OPERAND,
   EACH_IN(16, adamw, g), KEPT, BY_ELEMENT, NO_LOOK, HAS(decay),
   "g = clip g;  p *= 1 - lr wd;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;  p -= lr (m/bc1) / "
   "(sqrt(v/bc2) + eps);  w = p",
   "Loshchilov and Hutter 2019, algorithm 2; wd = 0 for groups without decay; the optional w is"
   " the copy of p that matmuls read (Micikevicius et al. 2018, section 3.1)")
    UPDATE_INPUTS("(n)")
    OUT(p, "(n)", REAL, SM_UPDATES, 0)
    OUT(m, "(n)", REAL, SM_UPDATES, 0)
    OUT(v, "(n)", REAL, SM_UPDATES, 0)
    WORKING_COPY("(n)") END

OP(SM_OP_ADAM, adam, SM_NO_OPERAND,
   EACH_IN(16, adam, g), KEPT, BY_ELEMENT, NO_LOOK, HAS(decay),
   "g = clip g + wd p;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;  p -= lr (m/bc1) / (sqrt(v/bc2) + eps);  w = p",
   "Kingma and Ba 2015, algorithm 1; decay as L2 in the gradient, as in PyTorch; wd = 0 for groups without decay")
    UPDATE_INPUTS("(n)")
    OUT(p, "(n)", REAL, SM_UPDATES, 0)
    OUT(m, "(n)", REAL, SM_UPDATES, 0)
    OUT(v, "(n)", REAL, SM_UPDATES, 0)
    WORKING_COPY("(n)") END

OP(SM_OP_SGD, sgd, SM_NO_OPERAND,
   EACH_IN(7, sgd, g), KEPT, BY_ELEMENT, NO_LOOK, HAS(decay),
   "g = clip g + wd p;  m = momentum m + g;  p -= lr m, or lr (g + momentum m) with hyper.nesterov;  w = p",
   "Sutskever et al. 2013, section 2, in PyTorch's form; wd = 0 for groups without decay")
    UPDATE_INPUTS("(n)")
    OUT(p, "(n)", REAL, SM_UPDATES, 0)
    OUT(m, "(n)", REAL, SM_UPDATES, 0)
    WORKING_COPY("(n)") END

OP(SM_OP_LION, lion, SM_NO_OPERAND,
   EACH_IN(11, lion, g), KEPT, BY_ELEMENT, NO_LOOK, HAS(decay),
   "g = clip g;  p *= 1 - lr wd;  p -= lr sign(b1 m + (1-b1) g);  m = b2 m + (1-b2) g;  w = p",
   "Chen et al. 2023, algorithm 2; wd = 0 for groups without decay")
    UPDATE_INPUTS("(n)")
    OUT(p, "(n)", REAL, SM_UPDATES, 0)
    OUT(m, "(n)", REAL, SM_UPDATES, 0)
    WORKING_COPY("(n)") END

OP(SM_OP_ADAMW8BIT, adamw8bit, SM_NO_OPERAND,
   EACH_IN(24, adamw8bit, g), KEPT, BY_ELEMENT, NO_LOOK, HAS(decay),
   "a block of 256: m = m_max map(m), v = v_max map(v);  adamw;  m_max = max |m|, v_max = max v;  m, v = the codes nearest "
   "to m/m_max, v/v_max", "Dettmers et al. 2022, sections 2 and 3; map: include/dynamic_map.h")
    UPDATE_INPUTS("(n)")
    OUT(p, "(n)", REAL, SM_UPDATES, 0)
    OUT(m, "(n)", U8, SM_UPDATES, 0)
    OUT(v, "(n)", U8, SM_UPDATES, 0)
    OUT(m_max, "(n/256)", REAL, SM_UPDATES, 0)
    OUT(v_max, "(n/256)", REAL, SM_UPDATES, 0)
    WORKING_COPY("(n)") END

OP(SM_OP_ADAFACTOR, adafactor, SM_NO_OPERAND,
   EACH_IN(16, adafactor, g), KEPT, BY_ROW, NO_LOOK, HAS(decay),
   "g = clip g;  row, col = b2 row + (1-b2) mean_c g^2, b2 col + (1-b2) mean_r g^2;  u = g / sqrt(row col / mean(row));  "
   "p = (1 - lr wd) p - rho max(eps2, rms(p)) u / max(1, rms(u)/d);  w = p",
   "Shazeer and Stern 2018, algorithm 4, as PyTorch's Adafactor; rho is the relative step; wd = 0 for vectors")
    UPDATE_INPUTS("(R,C)")
    OUT(p, "(R,C)", REAL, SM_UPDATES, 0)
    OUT(row, "(R)", REAL, SM_UPDATES, 0)
    OUT(col, "(C)", REAL, SM_UPDATES, 0)
    WORKING_COPY("(R,C)") END

OP(SM_OP_ADAFACTOR_VECTOR, adafactor_vector, SM_NO_OPERAND,
   EACH_IN(14, adafactor_vector, g), KEPT, BY_ELEMENT, NO_LOOK, NO_ATTRS,
   "g = clip g;  v = b2 v + (1-b2) g^2;  u = g / sqrt(v);  p -= rho max(eps2, rms(p)) u / max(1, rms(u)/d)",
   "Shazeer and Stern 2018, algorithm 5, as PyTorch's Adafactor")
    UPDATE_INPUTS("(n)")
    OUT(p, "(n)", REAL, SM_UPDATES, 0)
    OUT(v, "(n)", REAL, SM_UPDATES, 0) END

OP(SM_OP_MUON_MOMENTUM, muon_momentum, SM_NO_OPERAND,
   EACH_IN(7, muon_momentum, g), KEPT, BY_ELEMENT, LOOK(rows), NO_ATTRS,
   "g = clip g;  m = momentum m + (1 - momentum) g;  u = (1 - momentum) g + momentum m, or m without hyper.nesterov",
   "Jordan et al. 2024, Muon, as PyTorch's")
    UPDATE_INPUTS("(n)")
    OUT(m, "(n)", REAL, SM_UPDATES, 0)
    OUT(u, "(n)", REAL, SM_WRITES, 0) END

OP(SM_OP_NORMALIZE, normalize, SM_NO_OPERAND,
   EACH_IN(1, normalize, u), KEPT, BY_ROW, LOOK(whole), HAS(w_transposed),
   "x = u / max(sqrt(sqnorm), 1e-7), a tall u transposed",
   "Jordan et al. 2024, Muon: singular values of at most 1, before Newton-Schulz")
    IN(u, "(R,C)", REAL, 0)
    IN(sqnorm, "(1)", REAL, 0)
    OUT(x, "(R,C)", DATA, SM_WRITES, SM_TRANSPOSABLE) END

OP(SM_OP_COMBINE, combine, SM_IN(combine, x),
   EACH_IN(3, combine, x), KEPT, BY_ELEMENT, LOOK(rows), HAS(a) HAS(b),
   "y = a x + b z", "Jordan et al. 2024, Muon: the part of Newton-Schulz outside of its products")
    IN(x, "(n)", DATA, 0)
    IN(z, "(n)", DATA, 0)
    OUT(y, "(n)", DATA, SM_WRITES, 0) END

OP(SM_OP_MUON_UPDATE, muon_update, SM_NO_OPERAND,
   EACH_IN(3, muon_update, x), KEPT, OWN_CALL, NO_LOOK, HAS(w_transposed) HAS(decay),
   "p = (1 - lr wd) p - lr sqrt(max(1, R/C)) x;  w = p",
   "Jordan et al. 2024, Muon, as PyTorch's; x is the orthogonalised update, a tall one's transposed")
    IN(x, "(R,C)", DATA, SM_TRANSPOSABLE)
    IN(hyper, "(h)", REAL, 0)
    IN(clip, "(1)", REAL, 0)
    OUT(p, "(R,C)", REAL, SM_UPDATES, 0)
    WORKING_COPY("(R,C)") END

#ifndef NO_FP8_OPS
OP(SM_OP_CAST_FP8, cast_fp8, SM_NO_OPERAND,
   COUNTED(cast_fp8), KEPT, OWN_CALL, LOOK(cast), NO_ATTRS,
   "rows = the number of 8 bits nearest to scale x, at most the largest;  columns = rows^T;  amax = max(amax, max |x|);"
   "  db += sum_n x",
   "Micikevicius et al. 2022, FP8 formats for deep learning, sections 2 and 3: factors of products, a scale a tensor")
    IN(x, "(N,C)", DATA, 0)
    IN(scale, "(1)", REAL, 0)
    OUT(rows, "(N,C)", FP8, SM_WRITES, 0)
    OUT(columns, "(C,N)", FP8, SM_WRITES, 0)
    OUT(amax, "(1)", REAL, SM_UPDATES, 0)
    OUT(db, "(C)", REAL, SM_ADDS, SM_OPTIONAL) END

OP(SM_OP_SCALE_UPDATE, scale_update, SM_NO_OPERAND,
   EACH_OUT(1, scale_update, history), KEPT, OWN_CALL, LOOK(whole), HAS(a),
   "history = amax of this step and of the 15 before;  scale = 2^floor(log2(a / max history)), NaN"
   " if amax is not finite;  amax = 0",
   "delayed scaling, as in NVIDIA's Transformer Engine: a cast needs no pass for the amax before it")
    OUT(amax, "(n)", REAL, SM_UPDATES, 0)
    OUT(history, "(16,n)", REAL, SM_UPDATES, 0)
    OUT(scale, "(n)", REAL, SM_UPDATES, 0) END
#endif

#ifndef NO_SHARED_OPS
// Among processes: N of them, each with gradients of its own part of the batch. The session hands these ops to the
// communicator (src/comm), which works while the ops after a start run; backends do not know them.

SHARED_OP(SM_OP_ALL_REDUCE_START, all_reduce_start, SM_NO_OPERAND,
   NO_WORK, KEPT, HAS(n_processes) HAS(is_bf16),
   "begin: g = g of process 0 + g of process 1 + ... + g of process N-1",
   "Li et al. 2020, PyTorch Distributed, section 3.2: gradients in buckets, summed while the backward continues")
    OUT(g, "(n)", REAL, SM_UPDATES, 0) END

SHARED_OP(SM_OP_REDUCE_SCATTER_START, reduce_scatter_start, SM_NO_OPERAND,
   NO_WORK, KEPT, HAS(n_processes) HAS(is_bf16),
   "begin: slice r of g, in process r, = that slice of process 0 + ... + that slice of process N-1",
   "Rajbhandari et al. 2020, ZeRO, section 5.1: a process needs only the gradients that it updates")
    OUT(g, "(n)", REAL, SM_UPDATES, 0) END

SHARED_OP(SM_OP_ALL_GATHER_START, all_gather_start, SM_NO_OPERAND,
   NO_WORK, KEPT, HAS(n_processes) HAS(from_last),
   "begin: slice r of w, or without w of p, = that of process r, for r = 0 ... N-1",
   "Rajbhandari et al. 2020, ZeRO, section 5.1: each process updates its slice, and all read the whole, or its copy")
    OUT(p, "(n)", REAL, SM_UPDATES, 0)
    OUT(w, "(n)", DATA, SM_UPDATES, SM_OPTIONAL) END

SHARED_OP(SM_OP_GATHER_ROWS, gather_rows, SM_NO_OPERAND,
   NO_WORK, KEPT, HAS(n_processes),
   "part r of x and of token = that of process r, for r = 0 ... N-1, at once",
   "cheaper than exchanging the gradient of the whole table: a batch has fewer rows than the table")
    OUT(x, "(B,T,C)", DATA, SM_UPDATES, 0)
    OUT(token, "(B,T)", I32, SM_UPDATES, 0) END

SHARED_OP(SM_OP_COMMUNICATION_FINISH, communication_finish, SM_NO_OPERAND,
   NO_WORK, KEPT, HAS(n_processes),
   "x is the result of the op that began its communication",
   "waits for communication that took longer than the ops run meanwhile")
    OUT(x, "(n)", REAL, SM_UPDATES, 0) END

SHARED_OP(SM_OP_PROCESS_SUM, process_sum, SM_NO_OPERAND,
   NO_WORK, KEPT, HAS(n_processes),
   "x = x of process 0 + x of process 1 + ... + x of process N-1, at once",
   "squares of the slices' norms add up to that of the whole")
    OUT(x, "(n)", REAL, SM_UPDATES, 0) END

SHARED_OP(SM_OP_PROCESS_MAX, process_max, SM_NO_OPERAND,
   NO_WORK, KEPT, HAS(n_processes),
   "x = the largest of x of process 0, ... x of process N-1, at once",
   "a tensor's scale in 8 bits is by the largest number of all processes, and the same for all")
    OUT(x, "(n)", REAL, SM_UPDATES, 0) END
#endif

// Made by rewrites, each equal to the composition it replaces.

OP(SM_OP_FLASH_ATTENTION_FORWARD, flash_attention_forward, SM_NO_OPERAND,
   COUNTED(attention_forward), KEPT, OWN_CALL, LOOK(attention), HEADS DROPS,
   "per head: s = q k^T / sqrt(HS) over keys starts..t, in tiles;  lse = log sum exp(s);  y = dropout(exp(s - "
   "lse)) v", "Dao et al. 2022, algorithm 1: attention_forward that stores lse instead of att")
    IN(qkv, "(B,T,QKV)", DATA, 0)
    IN(rng_step, "(2)", U32, SM_OPTIONAL)
    IN(starts, "(B,T)", I32, SM_OPTIONAL)
    OUT(y, "(B,T,C)", DATA, SM_WRITES, 0)
    OUT(lse, "(B,NH,T)", REAL, SM_WRITES, 0) END

OP(SM_OP_FLASH_ATTENTION_BACKWARD, flash_attention_backward, SM_NO_OPERAND,
   COUNTED(attention_backward), KEPT, OWN_CALL, LOOK(attention_backward), HEADS DROPS,
   "att = exp(s - lse), tile by tile;  D = sum_c dy y;  dv = dropout(att)^T dy;  ds = att (dropout(dy v^T) -"
   " D);  dq = ds k / sqrt(HS);  dk = ds^T q / sqrt(HS)", "Dao et al. 2022, algorithm 4")
    IN(dy, "(B,T,C)", DATA, 0)
    IN(qkv, "(B,T,QKV)", DATA, 0)
    IN(y, "(B,T,C)", DATA, 0)
    IN(lse, "(B,NH,T)", REAL, 0)
    IN(rng_step, "(2)", U32, SM_OPTIONAL)
    IN(starts, "(B,T)", I32, SM_OPTIONAL)
    OUT(dqkv, "(B,T,QKV)", DATA, SM_WRITES, 0) END

#undef OP
#undef SHARED_OP
#undef NO_FP8_OPS
#undef NO_SHARED_OPS
#undef IN
#undef UPDATE_INPUTS
#undef OUT
#undef WORKING_COPY
#undef END
// clang-format on
