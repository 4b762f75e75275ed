"""Makes optimizers.json and optimizers.safetensors: what PyTorch's optimizers, lion-pytorch and bitsandbytes make of
fixed weights and gradients, and the losses of models that they train (README.md). Writes into this folder, or into one
named on the command line.
"""

import pathlib
import sys

import bitsandbytes.backends.cpu.ops as bitsandbytes_cpu
import numpy as np
import torch
from bitsandbytes.optim import AdamW8bit
from lion_pytorch import Lion
from safetensors.numpy import save_file

from make_goldens import loss_of, make_model, stream_batch, write_json

N_STEPS = 4
SHAPES = {"embed": (24, 16), "h.0.wide": (16, 40), "h.0.tall": (40, 16), "h.0.bias": (40,)}

ADAM = dict(beta1=0.8, beta2=0.95, eps=1e-6)
# Settings by stepmark's names; what is left out is stepmark's default.
CASES = {
    "sgd_plain": dict(optimizer="sgd", lr=0.1, momentum=0),
    "sgd": dict(optimizer="sgd", lr=0.1, momentum=0.8, weight_decay=0.1),
    "sgd_nesterov": dict(optimizer="sgd", lr=0.1, momentum=0.8, nesterov=1, weight_decay=0.1, grad_clip=5.0),
    "adam": dict(optimizer="adam", lr=0.01, weight_decay=0.1, **ADAM),
    "adamw": dict(optimizer="adamw", lr=0.01, weight_decay=0.1, **ADAM),
    "adamw8bit": dict(optimizer="adamw8bit", lr=0.01, weight_decay=0.1, **ADAM),
    "adafactor": dict(optimizer="adafactor", lr=0.8, weight_decay=0.1),
    "lion": dict(optimizer="lion", lr=0.01, beta1=0.8, beta2=0.95, weight_decay=0.1),
    "muon": dict(optimizer="muon", lr=0.02, momentum=0.8, weight_decay=0.1, **ADAM),
}

# Trainings of the models of make_goldens.py, whose vocabulary is odd: a case's settings, at a rate that learns. Where a
# second moment is so small that its code is that of 0, eps decides how large the update is: with a small one, a code
# that rounding moved by one would part trainings.
RUN_STEPS = 20
RUN_FOLDERS = (".", "llama")
RUNS = {
    "sgd_nesterov": dict(lr=0.02),
    "adam": dict(lr=2e-3),
    "adamw": dict(lr=2e-3),
    "adamw8bit": dict(lr=2e-3, eps=1e-4),
    "adafactor": dict(lr=0.02),
    "lion": dict(lr=1e-4),
    "muon": dict(lr=5e-3),
}
RUN_CLIP = 2.0


def make_inputs():
    """Initial weights, and a gradient of its own size for each step, as a dictionary of arrays."""
    generator = torch.Generator().manual_seed(12)
    arrays = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
    for step in range(N_STEPS):
        for name, shape in SHAPES.items():
            arrays[f"grad.{step}.{name}"] = torch.randn(shape, generator=generator) * (0.1 + 0.1 * step)
    return {name: value.numpy() for name, value in arrays.items()}


def make_optimizers(settings, params, hidden):
    """The optimizers of one case: decay is on matrices only; bitsandbytes and Muon work on matrices, Muon on hidden ones."""
    settings = dict(settings)
    kind = settings.pop("optimizer")
    settings.pop("grad_clip", None)
    lr, decay = settings["lr"], settings.get("weight_decay", 0)
    matrices = [p for p in params.values() if p.dim() == 2]
    vectors = [p for p in params.values() if p.dim() == 1]
    groups = [dict(params=matrices, weight_decay=decay), dict(params=vectors, weight_decay=0.0)]
    adam = dict(lr=lr, betas=(settings.get("beta1"), settings.get("beta2")), eps=settings.get("eps"))
    if kind == "sgd":
        nesterov = bool(settings.get("nesterov", 0))
        return [torch.optim.SGD(groups, lr=lr, momentum=settings.get("momentum", 0), nesterov=nesterov)]
    if kind == "adam":
        return [torch.optim.Adam(groups, **adam)]
    if kind == "adamw":
        return [torch.optim.AdamW(groups, **adam)]
    if kind == "adamw8bit":
        quantised = AdamW8bit(matrices, weight_decay=decay, min_8bit_size=1, **adam)
        return [quantised, torch.optim.AdamW(vectors, weight_decay=0.0, **adam)]
    if kind == "adafactor":
        return [torch.optim.Adafactor(groups, lr=lr)]
    if kind == "lion":
        return [Lion(groups, lr=lr, betas=adam["betas"])]
    groups[0]["params"] = [p for name, p in params.items() if p.dim() == 2 and name not in hidden]
    muon = torch.optim.Muon([params[name] for name in hidden], lr=lr, momentum=settings["momentum"], weight_decay=decay)
    return [muon, torch.optim.AdamW(groups, **adam)]


def run(settings, arrays):
    """The weights after the last step."""
    dtype = torch.float32 if settings["optimizer"] == "adamw8bit" else torch.float64
    params = {name: torch.nn.Parameter(torch.tensor(arrays[name], dtype=dtype)) for name in SHAPES}
    optimizers = make_optimizers(settings, params, ("h.0.wide", "h.0.tall"))
    for step in range(N_STEPS):
        for name, param in params.items():
            param.grad = torch.tensor(arrays[f"grad.{step}.{name}"], dtype=dtype)
        if "grad_clip" in settings:
            torch.nn.utils.clip_grad_norm_(params.values(), settings["grad_clip"])
        for optimizer in optimizers:
            optimizer.step()
    return {name: param.detach().to(torch.float32).numpy() for name, param in params.items()}


def quantize_exactly(values, code, absmax, codes, blocksize):
    """The nearest code of each value. bitsandbytes on a CPU sometimes takes a neighbour."""
    n = values.numel()
    blocks = torch.nn.functional.pad(values.flatten().double(), (0, -n % blocksize)).view(-1, blocksize)
    absmax.copy_(blocks.abs().amax(dim=1))
    ratios = (blocks / absmax.double().clamp(min=1e-300)[:, None]).flatten()[:n]
    codes.copy_(torch.bucketize(ratios, (code[1:].double() + code[:-1].double()) / 2).view(codes.shape))


def train(settings, folder, stream):
    """The losses of a training, in float64; bitsandbytes has float32 only."""
    model = make_model(folder).to(torch.float32 if settings["optimizer"] == "adamw8bit" else torch.float64)
    params = dict(model.named_parameters())
    hidden = [name for name, p in params.items() if p.dim() == 2 and (".h." in name or ".layers." in name)]
    optimizers = make_optimizers(settings, params, hidden)
    losses = []
    for step in range(RUN_STEPS):
        model.zero_grad()
        loss, _ = loss_of(model, *stream_batch(stream, step))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params.values(), settings["grad_clip"])
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    torch.set_num_threads(1)
    # Muon's products are in bfloat16, which would hide what is wrong by less than a hundredth: in float64 instead.
    torch.bfloat16 = torch.float64
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent
    arrays = make_inputs()
    results = {}
    for case, settings in CASES.items():
        results.update({f"{case}.{name}": value for name, value in run(settings, arrays).items()})
    save_file({name: np.ascontiguousarray(value) for name, value in (arrays | results).items()},
              out / "optimizers.safetensors")
    cases = [dict(name=name, **settings) for name, settings in CASES.items()]
    bitsandbytes_cpu._quant_blockwise_fp32_direct = quantize_exactly
    stream = torch.from_numpy(np.fromfile(pathlib.Path(__file__).parent / "stream.bin", dtype="<u2").astype(np.int64))
    runs = []
    for folder in RUN_FOLDERS:
        for case, changed in RUNS.items():
            settings = CASES[case] | changed | dict(grad_clip=RUN_CLIP)
            runs.append(dict(model=folder, **settings, losses=train(settings, folder, stream)))
    write_json(out / "optimizers.json", dict(n_steps=N_STEPS, cases=cases, runs=runs))


main()
