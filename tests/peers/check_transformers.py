#!/usr/bin/env python3
"""Checks that stepmark and Hugging Face transformers read each other's models and agree.

    check_transformers.py --stepmark build/release/stepmark

Through the command line alone: a model that `stepmark train --init` writes; a model that transformers
writes, in each form in which it writes one, and the text with which `stepmark generate` continues;
what each key of config.json means; and the steps of `stepmark train` against PyTorch in float64 on
the same batches. Prints a line a check; exit status 1 if one fails.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
import transformers
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

COMMAND_TIMEOUT_S = 120
FIRST_LOSS_TOLERANCE = 1e-5  # one forward pass apart, relative
LOSS_TOLERANCE = 1e-3        # a training run apart, relative
WEIGHT_TOLERANCE = 1e-4      # largest difference over largest value, a tensor


class Checks:
    """Counts and prints what passed and what failed."""

    def __init__(self):
        self.n_passed = 0
        self.n_failed = 0

    def check(self, name, passed, detail):
        self.n_passed += bool(passed)
        self.n_failed += not passed
        print(f"{'ok  ' if passed else 'FAIL'} {name}: {detail}", flush=True)

    def within(self, name, error, tolerance):
        self.check(name, error <= tolerance, f"error {error:.2e}, tolerance {tolerance:.0e}")  # NaN fails


class Stepmark:
    """The program under test, and the flags of one backend and mode."""

    def __init__(self, program, folder, backend="cpu", mode="fused"):
        self.program = program
        self.folder = folder
        self.flags = ["--backend", backend, "--mode", mode]

    def run(self, *arguments):
        command = [str(self.program), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def train(self, weights, tokens, B, T, steps, *more):
        """One line of the log a step, as dictionaries. A folder saved after step s resumes at step s + 1."""
        data, log = self.folder / "tokens.bin", self.folder / "log.jsonl"
        data.write_bytes(tokens.numpy().astype("<u2").tobytes())
        log.unlink(missing_ok=True)
        self.run("train", "--weights", weights, "--data", data, "-b", B, "--seq-len", T, "--steps", steps,
                 "--log", log, *self.flags, *more)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        if len(lines) != steps:
            raise RuntimeError(f"{log}: {len(lines)} lines; expected {steps}")
        return lines


def batch(tokens, i, B, T):
    """Sequence k is the T + 1 tokens from k*T on; after the last whole one comes sequence 0 again. Batch i has B of them."""
    n_sequences = (len(tokens) - 1) // T
    rows = [tokens[k * T : k * T + T + 1].long() for k in (n % n_sequences for n in range(i * B, (i + 1) * B))]
    pieces = torch.stack(rows)
    return pieces[:, :-1], pieces[:, 1:]


def loss_of(model, inputs, targets):
    logits = model(inputs).logits
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def load(checks, name, folder):
    """The model in float64; fails a check where transformers finds a name or shape amiss."""
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager"
    )
    wrong = {key: sorted(map(str, names)) for key, names in info.items() if names}
    checks.check(name, not wrong, "every name and shape as expected" if not wrong else json.dumps(wrong))
    return model.double().eval()


def relative(a, b):
    return abs(a - b) / abs(b)


def worst(errors):
    """The largest, and NaN if there is one."""
    errors = list(errors)
    return math.nan if any(math.isnan(e) for e in errors) else max(errors)


def random_tokens(vocab, n, seed):
    return torch.randint(0, vocab, (n,), generator=torch.Generator().manual_seed(seed)).to(torch.int32)


def check_predictions(checks, name, stepmark, folder, model):
    """The same probabilities from both: token by token at T = 1, and over the whole context.

    With a learning rate of 0 each step's loss is a look at the unchanged model: at B = T = 1 it
    is the negative log-probability of one token.
    """
    vocab, context = model.config.vocab_size, model.config.max_position_embeddings
    for B, T, steps in ((1, 1, 40), (1, 2, 20), (2, context, 4)):
        tokens = random_tokens(vocab, B * T * steps + 1, seed=T)
        log = stepmark.train(folder, tokens, B, T, steps, "--lr", 0)
        with torch.no_grad():
            truth = [loss_of(model, *batch(tokens, line["step"] - 1, B, T)).item() for line in log]
        errors = [relative(line["loss"], loss) for line, loss in zip(log, truth)]
        checks.within(f"{name}: loss of {steps} batches, b{B}s{T}", worst(errors), FIRST_LOSS_TOLERANCE)


def check_generation(checks, name, stepmark, folder, model):
    """The most probable tokens, one after the other, beyond the context: the model sees the text's end."""
    ids = list(b"A STEP 42")
    n_prompt = len(ids)
    printed = stepmark.run("generate", "--weights", folder, "--tokenizer", "bytes", "--prompt", bytes(ids).decode(),
                           "--tokens", 30, "--ids", *stepmark.flags)
    with torch.no_grad():
        for _ in range(30):
            seen = torch.tensor([ids[-model.config.max_position_embeddings:]])
            ids.append(model(seen).logits[0, -1].argmax().item())
    found = [int(line) for line in printed.split()]
    checks.check(f"{name}: generate, {' '.join(stepmark.flags[1::2])}", found == ids[n_prompt:], f"{len(found)} tokens")


def check_ours(checks, stepmark, folder, arch):
    """A fresh model of ours, in transformers."""
    ours = folder / "ours"
    stepmark.run("train", "--init", "--arch", arch, "-m", "tiny", "--seed", 7, "--save", ours)
    model = load(checks, f"{arch}: init, then from_pretrained", ours)
    check_predictions(checks, f"{arch}: init", stepmark, ours, model)


def gpt2():
    """Odd dimensions, n_inner and layer_norm_epsilon set."""
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=97, n_positions=19, n_embd=33, n_layer=3, n_head=3, n_inner=50, layer_norm_epsilon=1e-6,
        activation_function="gelu_new", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    ))


def llama(**variant):
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=97, max_position_embeddings=19, hidden_size=36, intermediate_size=50, num_hidden_layers=3,
        rms_norm_eps=1e-5, attention_dropout=0.0, bos_token_id=0, eos_token_id=0, **variant,
    ))


def qwen3(**variant):
    """Heads wider than hidden_size / num_attention_heads, and narrower."""
    return Qwen3ForCausalLM(Qwen3Config(
        vocab_size=97, max_position_embeddings=19, hidden_size=36, intermediate_size=50, num_hidden_layers=3,
        rms_norm_eps=1e-5, attention_dropout=0.0, bos_token_id=0, eos_token_id=0, **variant,
    ))


MODELS = {
    "gpt2": gpt2,
    "llama": lambda: llama(num_attention_heads=6, num_key_value_heads=2),
    "llama, tied": lambda: llama(num_attention_heads=2, num_key_value_heads=2, tie_word_embeddings=True),
    "qwen3": lambda: qwen3(num_attention_heads=6, num_key_value_heads=2, head_dim=10, tie_word_embeddings=True),
    "qwen3, untied": lambda: qwen3(num_attention_heads=2, num_key_value_heads=2, head_dim=8),
}


def write_theirs(folder, make):
    """A model of theirs, no parameter at its default."""
    model = make()
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            center = 1.0 if (".ln_" in name or "norm" in name) and name.endswith("weight") else 0.0
            parameter.copy_(center + 0.15 * torch.randn(parameter.shape, generator=generator))
    model.save_pretrained(folder)


def pytorch_train(model, tokens, B, T, learning_rates, accum, betas, weight_decay, grad_clip):
    """Losses and gradient norms of the same run in PyTorch; decay on matrices only, embeddings included."""
    parameters = list(model.parameters())
    groups = [
        dict(params=[p for p in parameters if p.dim() >= 2], weight_decay=weight_decay),
        dict(params=[p for p in parameters if p.dim() < 2], weight_decay=0.0),
    ]
    optimizer = torch.optim.AdamW(groups, lr=learning_rates[0], betas=betas, eps=1e-8)
    losses, norms = [], []
    for step, lr in enumerate(learning_rates):
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        micro_losses = [loss_of(model, *batch(tokens, step * accum + micro, B, T)) for micro in range(accum)]
        loss = sum(micro_losses) / accum
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, grad_clip or math.inf).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


def weight_error(theirs, ours):
    """Worst normalised difference over the tensors.

    Left out are the biases of the keys: softmax does not see a constant added to all its
    arguments, so that their gradient is rounding noise, which AdamW scales to full steps.
    """
    errors = []
    for (name, a), b in zip(theirs.named_parameters(), ours.parameters()):
        if name.endswith("attn.c_attn.bias"):
            C = len(a) // 3
            a, b = torch.cat((a[:C], a[2 * C :])), torch.cat((b[:C], b[2 * C :]))
        errors.append(((a - b).abs().max() / a.abs().max()).item())
    return worst(errors)


def check_training(checks, name, stepmark, theirs, flags, lr, accum, **settings):
    """A run of ours from a model of theirs, followed by PyTorch; then the saved model back in transformers.

    The run is cut in two: the second part resumes from what the first saved.
    """
    B, T, steps, saved = 2, 16, 20, stepmark.folder / "saved"
    model = AutoModelForCausalLM.from_pretrained(theirs, attn_implementation="eager").double().eval()
    tokens = random_tokens(model.config.vocab_size, 500, seed=3)  # 31 sequences, so that a batch has the last and the first
    flags = [*flags, "--lr", lr, "--save", saved]
    log = stepmark.train(theirs, tokens, B, T, 12, *flags) + stepmark.train(saved, tokens, B, T, steps - 12, *flags)
    checks.check(f"{name}: steps logged", [line["step"] for line in log] == list(range(1, steps + 1)), f"1 to {steps}")
    losses, norms = pytorch_train(model, tokens, B, T, [line["lr"] for line in log], accum, **settings)

    checks.within(f"{name}: first loss", relative(log[0]["loss"], losses[0]), FIRST_LOSS_TOLERANCE)
    errors = worst(relative(line["loss"], loss) for line, loss in zip(log, losses))
    checks.within(f"{name}: losses of {steps} steps", errors, LOSS_TOLERANCE)
    errors = worst(relative(line["grad_norm"], norm) for line, norm in zip(log, norms))
    checks.within(f"{name}: gradient norms", errors, LOSS_TOLERANCE)
    ours = load(checks, f"{name}: what --save wrote, then from_pretrained", saved)
    with torch.no_grad():
        checks.within(f"{name}: weights after {steps} steps", weight_error(model, ours), WEIGHT_TOLERANCE)
    return saved, ours


def check_theirs(checks, fused, folder, name):
    """A model of theirs, read, trained and written by ours."""
    theirs = folder / "theirs"
    write_theirs(theirs, MODELS[name])
    model = AutoModelForCausalLM.from_pretrained(theirs, attn_implementation="eager").double().eval()
    check_predictions(checks, f"{name}: save_pretrained", fused, theirs, model)

    defaults = dict(accum=1, betas=(0.9, 0.999), weight_decay=0.01, grad_clip=0.0)
    for backend, mode in (("cpu", "fused"), ("cpu", "naive"), ("reference", "naive")):
        stepmark = Stepmark(fused.program, folder, backend, mode)
        check_generation(checks, name, stepmark, theirs, model)
        saved, ours = check_training(checks, f"{name}: train, {backend} {mode}", stepmark, theirs, [], lr=1e-3, **defaults)
    check_predictions(checks, f"{name}: train --save", fused, saved, ours)

    flags = "--accum 2 --grad-clip 1 --weight-decay 0.1 --beta2 0.95 --warmup-steps 5 --schedule cosine".split()
    everything = dict(accum=2, betas=(0.9, 0.95), weight_decay=0.1, grad_clip=1.0)
    check_training(checks, f"{name}: train with every flag", fused, theirs, flags, lr=3e-3, **everything)


def change_config(folder, changes):
    """config.json with these keys; None removes one."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for key, value in changes.items():
        config.pop(key, None)
        if value is not None:
            config[key] = value
    path.write_text(json.dumps(config))
    return config


def check_keys(checks, stepmark, folder, arch):
    """The table of keys knows all of transformers' class, and what it calls irrelevant does not change its logits."""
    table = json.loads((pathlib.Path(__file__).parent.parent / "golden/config_keys.json").read_text())
    keys = {**table["common"], **table[arch]}
    theirs = folder / "theirs"
    write_theirs(theirs, MODELS[arch])
    inputs = random_tokens(97, 16, seed=5).long()[None]

    def logits():
        model = AutoModelForCausalLM.from_pretrained(theirs, dtype=torch.float32, attn_implementation="eager").eval()
        with torch.no_grad():
            return model(inputs).logits, model.config

    expected, config = logits()
    missing = {field.name for field in dataclasses.fields(config)} - keys.keys()
    checks.check(f"{arch}: every key of {type(config).__name__} is in the table", not missing, str(sorted(missing)))
    wrong = []
    for key, (kind, value, *_) in keys.items():
        if kind == "irrelevant":
            saved = (theirs / "config.json").read_text()
            change_config(theirs, {key: value})
            wrong += [key] if not torch.allclose(logits()[0], expected, rtol=0, atol=1e-5) else []
            (theirs / "config.json").write_text(saved)
    checks.check(f"{arch}: irrelevant keys do not change the logits", not wrong, str(wrong))


SPELLINGS = [
    {},
    {"rope_theta": 500},
    {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
    {"rope_parameters": {"rope_theta": 500.0}, "rope_theta": 700.0},
    {"rope_parameters": {"rope_type": "default"}, "rope_theta": 500.0},
    {"rope_parameters": {"type": "default"}, "rope_theta": 500.0},
    {"rope_parameters": {}, "rope_theta": 500.0},
    {"rope_scaling": {"rope_type": "default", "rope_theta": 500.0}, "rope_theta": 700.0},
    {"rope_scaling": {"type": "default"}, "rope_parameters": {"rope_theta": 500.0}},
    {"rope_scaling": {}, "rope_parameters": {"rope_theta": 500.0}},
]


def check_forms(checks, stepmark, folder, name):
    """A model of theirs in parts, without the prefix of its names, and with rotary positions in each spelling."""
    theirs, other = folder / "theirs", folder / "other"
    write_theirs(theirs, MODELS[name])
    model = AutoModelForCausalLM.from_pretrained(theirs)
    model.save_pretrained(other, max_shard_size="20KB")
    n_parts = len(list(other.glob("model-*.safetensors")))
    checks.check(f"{name}: in parts", n_parts > 1, f"{n_parts} files")
    check_predictions(checks, f"{name}: in parts", stepmark, other, model.double().eval())
    shutil.rmtree(other)
    model.float().base_model.save_pretrained(other)
    if model.config.tie_word_embeddings:
        base = load(checks, f"{name}: without a head", other)
        check_predictions(checks, f"{name}: without a head", stepmark, other, base)
    for changes in SPELLINGS if name != "gpt2" else []:
        change_config(theirs, {"rope_theta": None, "rope_scaling": None, "rope_parameters": None, **changes})
        spelled = AutoModelForCausalLM.from_pretrained(theirs, attn_implementation="eager").double().eval()
        tokens = random_tokens(97, 2 * 19 + 1, seed=2)
        ours = stepmark.train(theirs, tokens, 2, 19, 1, "--lr", 0)[0]["loss"]
        with torch.no_grad():
            truth = loss_of(spelled, *batch(tokens, 0, 2, 19)).item()
        checks.within(f"{name}: {json.dumps(changes)}", relative(ours, truth), FIRST_LOSS_TOLERANCE)


def main(description, parts):
    """Runs the parts, (function, name), each in a folder of its own; the exit status."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--stepmark", required=True, type=pathlib.Path, metavar="PATH", help="the program to check")
    program = parser.parse_args().stepmark.resolve()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()

    checks = Checks()
    for check, name in parts:
        with tempfile.TemporaryDirectory(prefix="stepmark-peers-") as path:
            folder = pathlib.Path(path)
            try:
                check(checks, Stepmark(program, folder), folder, name)
            except (OSError, RuntimeError, ValueError, KeyError, subprocess.SubprocessError) as error:
                checks.check(name, False, str(error).strip())
    print(f"{checks.n_passed} passed, {checks.n_failed} failed")
    return 1 if checks.n_failed else 0


if __name__ == "__main__":
    archs = ("gpt2", "llama", "qwen3")
    ours = [(check_ours, arch) for arch in archs] + [(check_keys, arch) for arch in archs]
    sys.exit(main(__doc__, ours + [(part, name) for name in MODELS for part in (check_theirs, check_forms)]))
