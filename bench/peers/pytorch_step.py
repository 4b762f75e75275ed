#!/usr/bin/env python3
"""Measures the training step of GPT-2, Llama or Qwen 3 in PyTorch, and prints a row like stepmark's.

    pytorch_step.py --weights MODEL --data TOKENS.bin -b 4 --seq-len 64 --mode eager
    pytorch_step.py --weights MODEL --data TOKENS.bin -b 4 --seq-len 1024 --mode compile --device cuda --precision bf16
    torchrun --nproc-per-node 2 pytorch_step.py --weights MODEL --data TOKENS.bin -b 4 --seq-len 512 --device cuda

Started by torchrun, each process takes its part of the batch (-b sequences each), by DistributedDataParallel, on a
card of its own; the first process prints the row, whose batch is that of all.

PyTorch is used as someone would who wants it fast: attention by scaled_dot_product_attention,
AdamW in its fused form, gradients freed instead of zeroed, denormals flushed. The model is the
one that stepmark trains, the protocol is that of docs/measurement.md: the first step apart,
warm-up, then samples of one whole step each; losses are read after the clock has stopped.
"""

import time

START_NS = time.monotonic_ns()

import argparse
import ctypes
import json
import math
import os
import pathlib
import sys
import traceback

try:
    import numpy as np
    import torch

    import pytorch_models
except ModuleNotFoundError as error:
    sys.exit(f"pytorch_step.py: {error}; `make peers` makes an environment, whose Python tools/peers.sh prints")

import peer_row

OPENED_NS = time.monotonic_ns() - START_NS

# What `stepmark run` trains with.
ADAMW = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8)
WEIGHT_DECAY = 0.01  # on matrices and embeddings only

def make_optimizer(model, row):
    parameters = list(model.parameters())
    groups = [
        dict(params=[p for p in parameters if p.dim() >= 2], weight_decay=WEIGHT_DECAY),
        dict(params=[p for p in parameters if p.dim() < 2], weight_decay=0.0),
    ]
    try:
        return torch.optim.AdamW(groups, fused=True, **ADAMW)
    except (RuntimeError, TypeError) as error:
        row["warnings"].append(f"AdamW is not the fused one: {error}")
        return torch.optim.AdamW(groups, **ADAMW)


# --- batches ------------------------------------------------------------------------------------


def load_batches(path, n_steps, B, T):
    """Inputs and targets of n_steps batches: batch i begins at token i B T, and the walk begins
    again where fewer than B T + 1 tokens remain, as src/data/tokens.h says."""
    n_batches = (path.stat().st_size // 2 - 1) // (B * T)
    if n_batches < 1:
        raise ValueError(f"{path}: too few tokens for a batch of {B} x {T}, which needs {B * T + 1}")
    n_batches = min(n_batches, n_steps)
    ids = torch.from_numpy(np.fromfile(path, dtype="<u2", count=n_batches * B * T + 1).astype(np.int64))
    inputs, targets = ids[:-1].view(n_batches, B, T), ids[1:].view(n_batches, B, T)
    return [(inputs[i % n_batches].clone(), targets[i % n_batches].clone()) for i in range(n_steps)]


# --- several processes --------------------------------------------------------------------------

RANK, N_PROCESSES = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def join(device):
    """The device of this process, which knows the others from here on."""
    if N_PROCESSES == 1:
        return device
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return device


def own_part(batches, B, device):
    """As stepmark shares a batch: process r has the r-th of N equal parts. All are on the device before the first step."""
    own = slice(RANK * B, (RANK + 1) * B)
    return [(tokens[own].to(device), targets[own].to(device)) for tokens, targets in batches]


def share(model, device):
    if N_PROCESSES == 1:
        return model
    ids = [device.index] if device.type == "cuda" else None
    return torch.nn.parallel.DistributedDataParallel(model, device_ids=ids, gradient_as_bucket_view=True)


def mean_loss(loss):
    if N_PROCESSES > 1:
        torch.distributed.all_reduce(loss)
    return loss.item() / N_PROCESSES


# --- measurement --------------------------------------------------------------------------------


def describe_device(device):
    """The row's fields that say what computes."""
    if device.type == "cuda":
        return dict(device=str(device), gpu_info=torch.cuda.get_device_name(device))
    return dict(n_threads=torch.get_num_threads(), isa=torch.backends.cpu.get_cpu_capability().lower())


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def configure(args, row):
    """Everything before the first step."""
    folder = pathlib.Path(args.weights)
    device = join(torch.device(args.device))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    torch.set_flush_denormal(True)  # before the first thread of the pool, which inherits it
    torch.set_float32_matmul_precision("high" if args.precision == "tf32" else "highest")
    if args.threads:
        torch.set_num_threads(args.threads)
    row.update(
        **describe_device(device), model_arch=config["model_type"], vocab=config["vocab_size"], **pytorch_models.model_class(config).sizes(config),
    )
    n_steps = 1 + args.warmup + args.repetitions
    batches = load_batches(pathlib.Path(args.data), n_steps, N_PROCESSES * args.batch_size, args.seq_len)
    begin_ns = time.monotonic_ns()
    batches = own_part(batches, args.batch_size, device)
    model = pytorch_models.load_model(folder, config).to(device)
    row["model_n_params"] = sum(p.numel() for p in model.parameters())
    optimizer = make_optimizer(model, row)
    forward = share(model, device)
    forward = torch.compile(forward, mode=args.compile_mode) if args.mode == "compile" else forward
    wait(device)
    row["build_ns"] = time.monotonic_ns() - begin_ns
    return device, forward, optimizer, batches


AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


def train_step(device, forward, optimizer, scaler, batch, precision):
    torch.compiler.cudagraph_mark_step_begin()  # what an earlier step's graphs returned is not read any more
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device.type, dtype=AUTOCAST.get(precision), enabled=precision in AUTOCAST):
        loss = forward(*batch)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    wait(device)
    return loss.detach()


def energy_mj(device):
    """Of the card since its driver was loaded, by NVML; None where that is not known."""
    if device.type != "cuda":
        return None
    card, energy = ctypes.c_void_p(), ctypes.c_ulonglong()
    uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        calls = (
            nvml.nvmlInit_v2(), nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(card)),
            nvml.nvmlDeviceGetTotalEnergyConsumption(card, ctypes.byref(energy)),
        )
    except (OSError, AttributeError):
        return None
    return energy.value if not any(calls) else None


LEAST_S = 1  # the counter moves every tenth of a second


def report_energy(row, before_mj, after_mj):
    """As stepmark does (bench/sensors/report.c)."""
    n = len(row["samples_ns"])
    if before_mj is not None and after_mj is not None and sum(row["samples_ns"]) >= LEAST_S * 1e9:
        row["energy_j"] = (after_mj - before_mj) / 1000 / n
        row["energy_per_token_j"] = row["energy_j"] / (row["n_batch"] * row["n_seq"])


def measure(args, row):
    device, forward, optimizer, batches = configure(args, row)
    before_mj = None
    scaler = torch.amp.GradScaler(device.type, enabled=args.precision == "fp16")
    deadline_ns = time.monotonic_ns() + args.timeout * 1e9 if args.timeout else math.inf
    for i, batch in enumerate(batches):
        if i == 1 + args.warmup:
            before_mj = energy_mj(device)
        begin_ns = time.monotonic_ns()
        if begin_ns > deadline_ns:
            row["stop_reason"] = "timeout"
            peer_row.fail(row, "timeout", f"the limit of {args.timeout:g} s ran out at step {i + 1} of {len(batches)}")
            break
        loss = train_step(device, forward, optimizer, scaler, batch, args.precision)
        elapsed_ns = time.monotonic_ns() - begin_ns
        loss = mean_loss(loss)
        peer_row.add_step(row, elapsed_ns, loss, args.warmup)
        peer_row.report_step(i + 1, len(batches), loss, elapsed_ns)
        if i == 0:
            peer_row.reset_peak_rss()  # counted from the first step on, as stepmark does
    else:
        row.update(status="ok", stop_reason="repetitions")
        report_energy(row, before_mj, energy_mj(device))
    row["peak_rss_bytes"] = peer_row.peak_rss_bytes()
    if device.type == "cuda":
        row["device_peak_bytes"] = torch.cuda.max_memory_allocated(device)  # of its tensors; its allocator holds more


def is_out_of_memory(error):
    known = (MemoryError, torch.cuda.OutOfMemoryError)
    return isinstance(error, known) or "not enough memory" in str(error) or "can't allocate" in str(error)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    peer_row.add_protocol_flags(parser)
    parser.add_argument("--mode", default="eager", choices=("eager", "compile"), help="as it is, or by torch.compile")
    parser.add_argument("--compile-mode", default="default", help="torch.compile's own mode")
    args = parser.parse_args()

    row = peer_row.new_row(
        f"pytorch-{args.mode}", N_PROCESSES * args.batch_size, args.seq_len, mode=args.mode, precision=args.precision,
        open_ns=OPENED_NS,  # of the libraries; there is no device to open
    )
    pytorch = {"processes": N_PROCESSES, "version": torch.__version__, "compile_mode": args.compile_mode if args.mode == "compile" else None}
    row["context"] = peer_row.context(pytorch=pytorch)
    try:
        measure(args, row)
    except Exception as error:  # whatever happened, the configuration ends as a row
        traceback.print_exc()
        peer_row.fail(row, "oom" if is_out_of_memory(error) else "error", f"{type(error).__name__}: {error}")
        row["samples_ns"] = []
    peer_row.finish(row)
    if RANK == 0:
        peer_row.write(row)
    if N_PROCESSES > 1:
        torch.distributed.destroy_process_group()
    return 0 if row["status"] == "ok" else 1


if __name__ == "__main__":
    sys.exit(main())
