#!/usr/bin/env python3
"""Writes the goldens next to this file: what PyTorch computes for a tiny GPT-2, a tiny Llama and a tiny Qwen 3.

Two golden computations share a model and one seed; README.md says what each file holds.
The truth is computed in float64 and stored as float32 (arrays) or decimal (scalars). Nothing
in the output comes from anywhere but a seeded random generator.

    python make_goldens.py [--out DIR] [FOLDER ...]
"""

import argparse
import json
import pathlib
import textwrap

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

SEED = 1337
B, T, VOCAB, CONTEXT = 2, 9, 61, 12
IGNORED = -1

# The first computation: every trick of the optimizer at once. The clip binds in some steps, not all.
N_STEPS, N_ACCUM = 5, 2
LEARNING_RATES = [2e-3, 4e-3, 6e-3, 8e-3, 8e-3]  # warm-up over four steps, then constant
CLIPPED_ADAMW = dict(beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1)

# The second: PyTorch's AdamW as it comes, over a stream that is read in order and wraps.
RUN_STEPS, STREAM_TOKENS = 50, 400
DEFAULT_ADAMW = dict(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01)


def gpt2():
    return GPT2LMHeadModel(GPT2Config(
        vocab_size=VOCAB, n_positions=CONTEXT, n_embd=16, n_layer=2, n_head=2, n_inner=None,
        activation_function="gelu_new", layer_norm_epsilon=1e-5, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, use_cache=False, attn_implementation="eager",
    ))


def llama(**variant):
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCAB, max_position_embeddings=CONTEXT, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        hidden_act="silu", rms_norm_eps=1e-5, attention_dropout=0.0, bos_token_id=0, eos_token_id=0, pad_token_id=None,
        use_cache=False, attn_implementation="eager", **variant,
    ))


def qwen3(**variant):
    return Qwen3ForCausalLM(Qwen3Config(
        vocab_size=VOCAB, max_position_embeddings=CONTEXT, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        hidden_act="silu", rms_norm_eps=1e-5, attention_dropout=0.0, bos_token_id=0, eos_token_id=0, pad_token_id=None,
        use_cache=False, attn_implementation="eager", **variant,
    ))


# By folder, with the norm that gradients are clipped to: GPT-2; a Llama whose heads share keys and values, with a
# head of its own; a Qwen 3 whose 4 heads of 6 channels are wider than the model, with a tied head.
MODELS = {
    ".": (gpt2, 2.0),
    "llama": (lambda: llama(num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False), 2.75),
    "qwen3": (lambda: qwen3(num_attention_heads=4, num_key_value_heads=2, head_dim=6, tie_word_embeddings=True), 2.75),
}


def make_model(folder):
    """A tiny model whose every parameter matters: large weights, no bias left at zero."""
    model = MODELS[folder][0]()
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            center = 1.0 if (".ln_" in name or "norm" in name) and name.endswith("weight") else 0.0
            parameter.copy_(center + 0.2 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def make_batches(generator):
    """(N_STEPS * N_ACCUM, B, T) random tokens and targets, about one target in six ignored."""
    shape = (N_STEPS * N_ACCUM, B, T)
    tokens = torch.randint(0, VOCAB, shape, generator=generator)
    targets = torch.randint(0, VOCAB, shape, generator=generator)
    targets[torch.rand(shape, generator=generator) < 1 / 6] = IGNORED
    return tokens, targets


def make_stream(generator):
    """Ids in which each is most often followed by the same next one, so that there is something to learn."""
    successor = torch.randperm(VOCAB, generator=generator)
    stream = [0]
    for _ in range(STREAM_TOKENS - 1):
        surprise = torch.rand((), generator=generator) < 0.2
        fresh = torch.randint(0, VOCAB, (), generator=generator)
        stream.append(int(fresh if surprise else successor[stream[-1]]))
    return torch.tensor(stream)


def stream_batch(stream, i):
    """Batch i starts at token i*B*T; where fewer than B*T+1 tokens remain the walk is back at token 0."""
    n_batches = (len(stream) - 1) // (B * T)
    start = (i % n_batches) * B * T
    piece = stream[start : start + B * T + 1]
    return piece[:-1].view(B, T), piece[1:].view(B, T)


def loss_of(model, tokens, targets):
    logits = model(tokens).logits
    return F.cross_entropy(logits.view(-1, VOCAB), targets.reshape(-1), ignore_index=IGNORED), logits


def make_optimizer(model, settings, lr):
    """Decoupled decay on matrices only, the embeddings included."""
    parameters = list(model.parameters())
    groups = [
        dict(params=[p for p in parameters if p.dim() >= 2], weight_decay=settings["weight_decay"]),
        dict(params=[p for p in parameters if p.dim() < 2], weight_decay=0.0),
    ]
    return torch.optim.AdamW(groups, lr=lr, betas=(settings["beta1"], settings["beta2"]), eps=settings["eps"])


def named_arrays(model, of):
    """Arrays under the names of the model's own file: with the prefix, without the tied head."""
    return {name: of(p).to(torch.float32).clone() for name, p in model.named_parameters()}


def clipped_steps(model, grad_clip, tokens, targets):
    """Gradients and logits of batch 0, then N_STEPS steps of N_ACCUM micro-batches with clipping."""
    loss, logits = loss_of(model, tokens[0], targets[0])
    loss.backward()
    arrays = {"tokens": tokens.float(), "targets": targets.float(), "logits": logits.detach().float()}
    arrays.update({f"grad.{k}": v for k, v in named_arrays(model, lambda p: p.grad).items()})

    optimizer = make_optimizer(model, CLIPPED_ADAMW, LEARNING_RATES[0])
    losses, norms = [], []
    for step, lr in enumerate(LEARNING_RATES):
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        for micro in range(step * N_ACCUM, (step + 1) * N_ACCUM):
            micro_loss, _ = loss_of(model, tokens[micro], targets[micro])
            (micro_loss / N_ACCUM).backward()
            losses.append(micro_loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip).item())
        optimizer.step()
    assert min(norms) < grad_clip < max(norms), norms
    arrays.update({f"updated.{k}": v for k, v in named_arrays(model, lambda p: p.detach()).items()})

    scalars = dict(
        B=B, T=T, n_steps=N_STEPS, n_accum=N_ACCUM, **CLIPPED_ADAMW, grad_clip=grad_clip, lr=LEARNING_RATES,
        loss=loss.item(), micro_losses=losses, grad_norms=norms,
    )
    return arrays, scalars


def plain_run(model, stream):
    """Losses of RUN_STEPS steps over the stream with PyTorch's default AdamW."""
    optimizer = make_optimizer(model, DEFAULT_ADAMW, DEFAULT_ADAMW["lr"])
    losses = []
    for i in range(RUN_STEPS):
        optimizer.zero_grad()
        loss, _ = loss_of(model, *stream_batch(stream, i))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def write_json(path, value):
    """A line for each record of a list, wrapped where it is longer than others may be."""
    lines = json.dumps(value).replace("}, {", "},\n{").replace("[{", "[\n{").splitlines()
    wrapped = (textwrap.fill(line, 118, subsequent_indent=" ", break_on_hyphens=False, break_long_words=False) for line in lines)
    path.write_text("\n".join(wrapped) + "\n")


def write_goldens(folder, out):
    """One model's goldens; all read the same stream."""
    target = out / folder
    model_dir = target / "model"
    make_model(folder).save_pretrained(model_dir)
    (model_dir / "generation_config.json").unlink(missing_ok=True)

    generator = torch.Generator().manual_seed(SEED + 1)
    tokens, targets = make_batches(generator)
    arrays, scalars = clipped_steps(make_model(folder).double(), MODELS[folder][1], tokens, targets)
    save_file(arrays, target / "steps.safetensors")
    write_json(target / "steps.json", scalars)

    stream = make_stream(generator)
    losses = plain_run(make_model(folder), stream)
    np.testing.assert_allclose(losses, plain_run(make_model(folder).double(), stream), rtol=1e-4)
    (out / "stream.bin").write_bytes(stream.numpy().astype("<u2").tobytes())
    write_json(target / "run.json", dict(B=B, T=T, n_steps=RUN_STEPS, **DEFAULT_ADAMW, losses=losses))
    for path in (model_dir / "model.safetensors", target / "steps.safetensors"):
        path.chmod(0o644)  # safetensors writes for the owner alone


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent, metavar="DIR")
    parser.add_argument("folders", nargs="*", default=list(MODELS), metavar="FOLDER", help=" ".join(MODELS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    for folder in arguments.folders:
        write_goldens(folder, arguments.out)


if __name__ == "__main__":
    main()
