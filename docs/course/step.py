#!/usr/bin/env python3
"""A whole training step in numpy, and every number of it compared with what stepmark computed.

    stepmark walk --full -o json > walk.json
    python3 docs/course/step.py walk.json

It takes four things from the file: the weights, the tokens, their targets and the settings of the optimizer. From there
on it computes by itself, op by op in the order of the step: each function below is one equation. After each op it
compares what the op wrote with the file, number by number.
"""
import json
import sys

import numpy as np

# --- memory: a tensor is an array; a view is a part of another tensor's array ------------------------------------------

TYPES = {"f32": np.float64, "i32": np.int64, "u32": np.int64}  # computed in double, so that rounding is the file's


def make_memory(walk):
    memory = {}
    for t in walk["tensors"]:
        n = int(np.prod(t["dims"]))
        if "view_of" in t:
            flat = memory[t["view_of"]].reshape(-1)[t["offset"]:t["offset"] + n]
        else:
            flat = np.zeros(n, TYPES[t["dtype"]])
        memory[t["name"]] = flat.reshape(t["dims"])
        if "values" in t:
            flat[:] = t["values"]
    memory["tokens"][:] = np.reshape(walk["tokens"], memory["tokens"].shape)
    memory["targets"][:] = np.reshape(walk["targets"], memory["targets"].shape)
    return memory


# --- words of the equations --------------------------------------------------------------------------------------------

HYPER = ["lr", "beta1", "beta2", "eps", "weight_decay", "bias_correction1", "bias_correction2", "grad_clip", "loss_scale"]


def settings(hyper):
    return dict(zip(HYPER, hyper))


def rows(x):
    """(B,T,C) as (N,C)."""
    return x.reshape(-1, x.shape[-1])


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def heads(x, n):
    """(B,T,n HS) as (B,n,T,HS)."""
    return x.reshape(*x.shape[:2], n, -1).transpose(0, 2, 1, 3)


def unheads(x):
    """(B,n,T,HS) as (B,T,n HS)."""
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def gelu_and_derivative(x):
    k = np.sqrt(2 / np.pi)
    t = np.tanh(k * (x + 0.044715 * x**3))
    return x / 2 * (1 + t), (1 + t) / 2 + x / 2 * (1 - t**2) * k * (1 + 3 * 0.044715 * x**2)


# --- the ops: inputs and outputs by the names of their equations, attributes in `a` ------------------------------------


def zero(x):
    x[:] = 0


def loss_scale(targets, hyper, scale, scaler=None):
    scale[:] = settings(hyper)["loss_scale"] / max(1, (targets != -1).sum())


def embedding_forward(token, wte, x, wpe=None):
    x[:] = wte[token]
    if wpe is not None:
        x += wpe[:token.shape[1]]


def embedding_backward(token, dx, dwte, dwpe=None):
    np.add.at(dwte, token, dx)  # a token that occurs twice adds twice
    if dwpe is not None:
        dwpe[:token.shape[1]] += dx.sum(0)


def layernorm_forward(x, w, b, y, mean, rstd, eps):
    x = rows(x)
    mean[...] = x.mean(1).reshape(mean.shape)
    rstd[...] = (1 / np.sqrt(x.var(1) + eps)).reshape(rstd.shape)
    rows(y)[:] = (x - mean.reshape(-1, 1)) * rstd.reshape(-1, 1) * w + b


def layernorm_backward(dy, x, w, mean, rstd, dx, dw, db):
    dy, x, mean, rstd = rows(dy), rows(x), mean.reshape(-1, 1), rstd.reshape(-1, 1)
    xh = (x - mean) * rstd
    g = dy * w
    rows(dx)[:] = rstd * (g - g.mean(1, keepdims=True) - xh * (g * xh).mean(1, keepdims=True))
    dw += (dy * xh).sum(0)
    db += dy.sum(0)


def matmul_forward(x, W, y, b=None, w_transposed=False, vocab=None):
    rows(y)[:] = rows(x) @ (W.T if w_transposed else W)


def matmul_backward_input(dy, W, dx, w_transposed=False, vocab=None):
    rows(dx)[:] = rows(dy) @ (W if w_transposed else W.T)


def matmul_backward_weight(x, dy, dW, w_transposed=False, vocab=None):
    dW += rows(dy).T @ rows(x) if w_transposed else rows(x).T @ rows(dy)


def bias_forward(x, b, y):
    y[:] = x + b


def bias_backward(dy, db):
    db += rows(dy).sum(0)


def split(qkv, n_head, n_kv_head):
    """q, k and v (B,n,T,HS) of qkv; heads of queries that share keys and values get them side by side."""
    HS = qkv.shape[-1] // (n_head + 2 * n_kv_head)
    q, k, v = np.split(qkv, [n_head * HS, (n_head + n_kv_head) * HS], axis=2)
    shared = n_head // n_kv_head
    return heads(q, n_head), np.repeat(heads(k, n_kv_head), shared, 1), np.repeat(heads(v, n_kv_head), shared, 1)


def attention_forward(qkv, y, att, n_head, n_kv_head):
    q, k, v = split(qkv, n_head, n_kv_head)
    T, HS = q.shape[2:]
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(HS)
    scores[:, :, np.triu(np.ones((T, T), bool), 1)] = -np.inf  # token t sees tokens s <= t
    att[:] = softmax(scores)
    y[:] = unheads(att @ v)


def attention_backward(dy, qkv, att, dqkv, n_head, n_kv_head):
    q, k, v = split(qkv, n_head, n_kv_head)
    HS = q.shape[3]
    dy = heads(dy, n_head)
    da = dy @ v.transpose(0, 1, 3, 2)
    ds = att * (da - (att * da).sum(-1, keepdims=True)) / np.sqrt(HS)

    def of_shared(d):  # the sum over the heads that share it
        return d.reshape(d.shape[0], n_kv_head, -1, *d.shape[2:]).sum(2)

    dq, dk, dv = ds @ k, ds.transpose(0, 1, 3, 2) @ q, att.transpose(0, 1, 3, 2) @ dy
    dqkv[:] = np.concatenate([unheads(dq), unheads(of_shared(dk)), unheads(of_shared(dv))], axis=2)


def gelu_forward(x, y):
    y[:] = gelu_and_derivative(x)[0]


def gelu_backward(dy, x, dx):
    dx[:] = dy * gelu_and_derivative(x)[1]


def rmsnorm_forward(x, w, y, rstd, eps):
    rstd[...] = (1 / np.sqrt((rows(x)**2).mean(1) + eps)).reshape(rstd.shape)
    rows(y)[:] = rows(x) * rstd.reshape(-1, 1) * w


def rmsnorm_backward(dy, x, w, rstd, dx, dw):
    dy, rstd = rows(dy), rstd.reshape(-1, 1)
    xh = rows(x) * rstd
    g = dy * w
    rows(dx)[:] = rstd * (g - xh * (g * xh).mean(1, keepdims=True))
    dw += (dy * xh).sum(0)


def head_rmsnorm_forward(x, wq, wk, y, rstd, n_head, n_kv_head, eps):
    h = heads(x, n_head + 2 * n_kv_head).copy()
    for first, end, w in ((0, n_head, wq), (n_head, n_head + n_kv_head, wk)):
        part = h[:, first:end]
        scale = 1 / np.sqrt((part**2).mean(-1) + eps)
        rstd[:, :, first:end] = scale.transpose(0, 2, 1)
        h[:, first:end] = part * scale[..., None] * w
    y[:] = unheads(h)


def head_rmsnorm_backward(dy, x, wq, wk, rstd, dx, dwq, dwk, n_head, n_kv_head):
    d, h = heads(dy, n_head + 2 * n_kv_head).copy(), heads(x, n_head + 2 * n_kv_head)
    for first, end, w, dw in ((0, n_head, wq, dwq), (n_head, n_head + n_kv_head, wk, dwk)):
        scale = rstd[:, :, first:end].transpose(0, 2, 1)[..., None]
        xh, part = h[:, first:end] * scale, d[:, first:end]
        g = part * w
        dw += (part * xh).sum((0, 1, 2))
        d[:, first:end] = scale * (g - xh * (g * xh).mean(-1, keepdims=True))
    dx[:] = unheads(d)


def rope(x, y, n_head, n_kv_head, rope_theta, inverse=False):
    n_turned, n_all = n_head + n_kv_head, n_head + 2 * n_kv_head
    HS = x.shape[-1] // n_all
    i = np.arange(HS // 2)
    angle = np.arange(x.shape[1])[:, None] / rope_theta**(2 * i / HS) * (-1 if inverse else 1)
    h = heads(x, n_all).copy()
    a, b = h[:, :n_turned, :, :HS // 2].copy(), h[:, :n_turned, :, HS // 2:].copy()
    h[:, :n_turned, :, :HS // 2] = a * np.cos(angle) - b * np.sin(angle)
    h[:, :n_turned, :, HS // 2:] = a * np.sin(angle) + b * np.cos(angle)
    y[:] = unheads(h)


def swiglu_forward(x, y):
    gate, up = np.split(x, 2, -1)
    y[:] = gate / (1 + np.exp(-gate)) * up


def swiglu_backward(dy, x, dx):
    gate, up = np.split(x, 2, -1)
    s = 1 / (1 + np.exp(-gate))
    dx[:] = np.concatenate([dy * up * s * (1 + gate * (1 - s)), dy * gate * s], -1)


def residual(a, b, y):
    y[:] = a + b


def crossentropy_forward(logits, target, losses, lse, vocab):
    logits, target = rows(logits)[:, :vocab], target.reshape(-1)
    top = logits.max(1)
    lse[...] = (top + np.log(np.exp(logits - top[:, None]).sum(1))).reshape(lse.shape)
    loss = lse.reshape(-1) - logits[np.arange(len(target)), target]
    losses[...] = np.where(target == -1, 0, loss).reshape(losses.shape)


def crossentropy_backward(logits, target, lse, scale, dlogits, vocab):
    d, target = rows(dlogits), target.reshape(-1)
    p = np.exp(rows(logits)[:, :vocab] - lse.reshape(-1, 1))
    p[np.arange(len(target)), target] -= 1
    d[:] = 0
    d[:, :vocab] = scale * p * (target != -1)[:, None]


def loss_mean(losses, target, loss):
    loss[:] = losses.sum() / max(1, (target != -1).sum())


def grad_sqnorm(g, sqnorm):
    sqnorm[:] = (g**2).sum()


def grad_clip(sqnorm, hyper, norm, clip, scaler=None):
    most = settings(hyper)["grad_clip"]
    norm[:] = np.sqrt(sqnorm.sum())
    clip[:] = min(1, most / (norm[0] + 1e-6)) if most > 0 else 1


def adamw(g, hyper, clip, p, m, v, decay=False):
    h = settings(hyper)
    g = clip * g
    if decay:
        p *= 1 - h["lr"] * h["weight_decay"]
    m[:] = h["beta1"] * m + (1 - h["beta1"]) * g
    v[:] = h["beta2"] * v + (1 - h["beta2"]) * g**2
    p -= h["lr"] * (m / h["bias_correction1"]) / (np.sqrt(v / h["bias_correction2"]) + h["eps"])


# --- the step ----------------------------------------------------------------------------------------------------------


def difference(ours, theirs):
    """Largest difference, as a part of the largest number."""
    theirs = np.array(theirs, float)
    return np.abs(ours.reshape(-1) - theirs).max() / max(np.abs(theirs).max(), 1e-30)


def run_op(op, memory, tolerance):
    """Computes one op and returns how many numbers were compared, and the largest difference."""
    operands = {o["operand"]: memory[o["tensor"]] for o in op["operands"]}
    inputs = {o["operand"]: memory[o["tensor"]].copy() for o in op["operands"] if o["access"] == "reads"}
    if op["kind"] == "adamw":  # divides a gradient by its own size: one that is all rounding would be another number
        inputs["g"] = np.array(op["operands"][0]["values"])
    function = globals().get(op["kind"])
    if function is None:
        sys.exit(f"op {op['index']}: there is no {op['kind']} here; walk --mode naive, --optimizer adamw, --dropout 0")
    function(**{**operands, **inputs}, **op["attributes"])  # inputs as they were: an output may lie where one lies
    n, worst = 0, 0.0
    for o in op["operands"]:
        if o["access"] != "reads":
            error = difference(memory[o["tensor"]], o["values"])
            if not error <= tolerance:
                sys.exit(f"op {op['index']}, {op['kind']}: {o['operand']} differs by {error:.1e} of its largest number")
            n, worst = n + len(o["values"]), max(worst, error)
    return n, worst


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        walk = json.load(file)
    memory = make_memory(walk)
    n_numbers, worst = 0, 0.0
    for op in walk["ops"]:
        n, error = run_op(op, memory, tolerance=1e-5)
        n_numbers, worst = n_numbers + n, max(worst, error)
    print(f"loss {memory['loss'][0]:.6f}, gradient norm {memory['grad_norm'][0]:.6f}")
    print(f"{len(walk['ops'])} ops, {n_numbers} numbers compared; the largest difference is {worst:.1e}")


if __name__ == "__main__":
    main()
