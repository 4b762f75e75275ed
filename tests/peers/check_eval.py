#!/usr/bin/env python3
"""Checks that `stepmark eval` says of a text, of tokens and of questions what transformers says in float64.

    check_eval.py --stepmark build/release/stepmark

The models are trained for a few steps. Prints a line a check; exit status 1 if one fails.
"""

import json
import math
import pathlib
import sys

import torch
import torch.nn.functional as F
from transformers import AutoTokenizer

from check_transformers import FIRST_LOSS_TOLERANCE, load, main, relative

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
END, T = "<|endoftext|>", 64
CONTEXTS = ["The step", "A kernel of two threads", "When the loss rises, the rate", "Écrit à la main, it", "The sum\n",
            "Tokens are read in order; " * 20 + "the last one", "In 2026 the page", "GPT-2's smallest model"]
ENDINGS = ["ends.", "takes 42 ms on one core", "is read again and again, until the last block has its results.",
           "[step] naïve → fused", "s", "of the weights and of the gradients and of the moments", "has 3 parts", "waits, "]


@torch.no_grad()
def nats_of(model, ids, n_given):
    """The negative log-probability of each of ids[n_given:]; the model sees at most T before the last."""
    nats = F.cross_entropy(model(torch.tensor([ids[-T - 1 : -1]])).logits[0], torch.tensor(ids[1:][-T:]), reduction="none")
    return nats[n_given - len(ids) :]


def check_text(checks, name, found, model, tokenizer, text, row):
    ids = tokenizer(text).input_ids
    nats = sum(nats_of(model, ids[i : i + row + 1], 1).sum().item() for i in range(0, len(ids) - 1, row))
    n, n_bytes = len(ids) - 1, len(text.replace(END, "").encode()) - len(tokenizer.decode(ids[:1]).encode())
    checks.check(f"{name}: tokens", found["n_tokens"] == n, n)
    truth = {"loss": nats / n, "perplexity": math.exp(nats / n), "bits_per_byte": nats / math.log(2) / n_bytes}
    for key in truth:
        checks.within(f"{name}: {key} {found[key]:.8f}", relative(found[key], truth[key]), FIRST_LOSS_TOLERANCE)


def check_scores(checks, name, found, questions):
    """Of each ending: a context that is a token too short or too long would move a score by nats."""
    checks.check(f"{name}: lines of scores", [line["line"] for line in found] == list(range(1, len(questions) + 1)), len(found))
    worst = max(relative(-score, nats.sum().item()) for line, q in zip(found, questions)
                for score, nats in zip(line["log_probability"], q[5], strict=True))
    checks.within(f"{name}: scores of endings", worst, FIRST_LOSS_TOLERANCE)
    checks.check(f"{name}: tokens of endings", all(line["n_tokens"] == [len(n) for n in q[5]] for line, q in zip(found, questions)), "")


def check_questions(checks, name, evaluate, path, model, tokenizer):
    """With any labels; and with those that make every choice, by the sum or by the mean, the right one."""
    questions = []
    for i in range(48):
        ctx, endings = CONTEXTS[i % 8], [ENDINGS[(i // 8 + (i + 1) * k) % 8] + "." * k for k in range(4)]
        n_context = len(tokenizer(ctx).input_ids)
        nats = [nats_of(model, tokenizer(f"{ctx} {ending}").input_ids, n_context) for ending in endings]
        scores = [torch.stack([of(ending) for ending in nats]) for of in (torch.sum, torch.mean)]
        if all(s.sort().values.diff()[0] > 1e-4 for s in scores):  # nats; where the best two are closer, rounding decides
            questions.append((ctx, endings, i % 4, *(s.argmin().item() for s in scores), nats))
    checks.check(f"{name}: questions", (n := len(questions)) > 40 and any(q[3] != q[4] for q in questions), n)
    for column, labels in ((2, "any labels"), (3, "labels by sum"), (4, "labels by mean")):
        path.write_text("".join(json.dumps({"ctx": q[0], "endings": q[1], "label": q[column]}) + "\n" for q in questions))
        found = evaluate(path, "--output-file", written := path.with_suffix(".scores.jsonl"))
        check_scores(checks, f"{name}: {labels}", [json.loads(line) for line in written.open()], questions)
        for key, by in (("accuracy", 3), ("accuracy_norm", 4)):
            right = sum(q[by] == q[column] for q in questions)
            checks.within(f"{name}: {labels}, {key} {found[key]:.4f}", abs(found[key] - right / n), 1e-9)


def check_eval(checks, stepmark, folder, arch):
    text, run, tokens = folder / "text.txt", folder / "run", folder / "tokens"
    text.write_text(whole := END.join((DOCS / name).read_text()[:5000] for name in ("training.md", "tokenizer.md")))
    stepmark.run("tokenize", "--vocab-size", 320, "--output", folder / "vocabulary", DOCS / "measurement.md")
    stepmark.run("tokenize", "--tokenizer", folder / "vocabulary", "--output", tokens, text)
    stepmark.run("train", "--run", run, "--arch", arch, "-m", "tiny", "--vocab", 320, "--data", tokens, "--steps", 60)
    evaluate = lambda data, *more: json.loads(stepmark.run("eval", "--weights", run, "--data", data, "-o", "json", *more))[0]
    model, tokenizer = load(checks, f"{arch}: model", run / "model"), AutoTokenizer.from_pretrained(run / "model")
    check_text(checks, f"{arch}: text", evaluate(text), model, tokenizer, whole, T)
    check_text(checks, f"{arch}: text, --seq-len 23", evaluate(text, "--seq-len", 23), model, tokenizer, whole, 23)
    check_text(checks, f"{arch}: tokens", evaluate(tokens / "train.bin"), model, tokenizer, whole + END, T)
    check_questions(checks, arch, evaluate, folder / "questions.jsonl", model, tokenizer)


if __name__ == "__main__":
    sys.exit(main(__doc__, [(check_eval, arch) for arch in ("gpt2", "llama")]))
