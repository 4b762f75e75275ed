#!/usr/bin/env python3
"""Measures the training step of llm.c's CPU trainer, and prints a row like stepmark's.

    llmc_step.py --source ~/llm.c --weights MODEL --data TOKENS.bin -b 1 --seq-len 1024

Needs a folder with its train_gpt2.c, and a C compiler. That file is compiled as it is, with its own flags, and the loop
below in place of its main: weights, batches and settings are those of the other peers.
"""

import argparse
import array
import itertools
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

import llmc_lines
import peer_row

# Weight decay is for matrices and embeddings only, and gpt2_update has one for all: so it is called tensor by tensor.
MAIN = r"""
#define TESTING
#include "train_gpt2.c"

int main(int argc, char **argv) {
    const int B = atoi(argv[3]), T = atoi(argv[4]), n_steps = atoi(argv[5]);
    GPT2 model;
    gpt2_build_from_checkpoint(&model, argv[1]);
    model.m_memory = calloc(model.num_parameters, sizeof(float));
    model.v_memory = calloc(model.num_parameters, sizeof(float));
    const long n_batches = atol(argv[6]), n_ids = n_batches * B * T + 1;
    int *tokens = malloc(n_ids * sizeof(int));
    FILE *file = fopen(argv[2], "rb");
    for (long i = 0; i < n_ids; i++) {
        tokens[i] = fgetc(file);
        tokens[i] |= fgetc(file) << 8;
    }
    for (int step = 0; step < n_steps; step++) {
        struct timespec begin, end;
        int *batch = tokens + step % n_batches * B * T;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        gpt2_forward(&model, batch, batch + 1, B, T);
        gpt2_zero_grad(&model);
        gpt2_backward(&model);
        GPT2 part = model;
        for (int i = 0; i < NUM_PARAMETER_TENSORS; i++) {
            const int is_matrix = i < 2 || i == 4 || i == 6 || i == 10 || i == 12;
            part.num_parameters = model.param_sizes[i];
            gpt2_update(&part, 1e-3f, 0.9f, 0.999f, 1e-8f, is_matrix ? 0.01f : 0, step + 1);
            part.params_memory += part.num_parameters;
            part.grads_memory += part.num_parameters;
            part.m_memory += part.num_parameters;
            part.v_memory += part.num_parameters;
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        const double ms = (end.tv_sec - begin.tv_sec) * 1e3 + (end.tv_nsec - begin.tv_nsec) / 1e6;
        printf("step %d/%d: train loss %.9g (took %f ms)\n", step + 1, n_steps, model.mean_loss, ms);
        fprintf(stderr, "step %d/%d: loss %f, %.1f ms\n", step + 1, n_steps, model.mean_loss, ms);
    }
    return 0;
}
"""
FLAGS = ["-Ofast", "-march=native", "-fopenmp", "-DOMP", "-w"]

MAGIC = 20240326
PADDED = 128  # the vocabulary of version 3 is a multiple

# In its order; of a block, of all blocks one after another. Matrices of blocks are [in, out] in MODEL, [out, in] there.
BLOCK = ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")


def tensors(folder, n_layer):
    """The values of each tensor, in its order."""
    with open(folder / "model.safetensors", "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        entries = json.loads(file.read(size))
        names = [f"h.{layer}.{stem}.{part}" for stem in BLOCK for part in ("weight", "bias") for layer in range(n_layer)]
        for name in ["wte.weight", "wpe.weight", *names, "ln_f.weight", "ln_f.bias"]:
            entry = entries["transformer." + name]
            first, end = entry["data_offsets"]
            file.seek(8 + size + first)
            values = array.array("f", file.read(end - first))
            if ".c_" in name and name.endswith(".weight"):
                n_out = entry["shape"][1]
                values = array.array("f", itertools.chain.from_iterable(values[column::n_out] for column in range(n_out)))
            yield values


def write_weights(folder, version, path):
    c = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    n_more = -c["vocab_size"] % PADDED if version == 3 else 0
    header = [MAGIC, version, c["n_positions"], c["vocab_size"], c["n_layer"], c["n_head"], c["n_embd"], c["vocab_size"] + n_more]
    with open(path, "wb") as file:
        array.array("i", header + [0] * (256 - len(header))).tofile(file)
        for place, values in enumerate(tensors(folder, c["n_layer"])):
            values.tofile(file)
            file.write(bytes(4 * n_more * c["n_embd"] if place == 0 else 0))


def run(args, folder):
    """What the trainer prints."""
    version = re.search(r"model_header\[1\] != ([13])\b", (args.source / "train_gpt2.c").read_text(encoding="utf-8"))
    n_batches = (os.path.getsize(args.data) // 2 - 1) // (args.batch_size * args.seq_len)
    if version is None:
        raise ValueError(f"{args.source}/train_gpt2.c reads other files of weights than versions 1 and 3")
    if n_batches < 1:
        raise ValueError(f"{args.data}: too few tokens for a batch of {args.batch_size} x {args.seq_len}")
    write_weights(pathlib.Path(args.weights), int(version[1]), folder / "weights")
    subprocess.run([args.cc, *FLAGS, f"-I{args.source}", "-xc", "-", "-o", folder / "trainer", "-lm"], input=MAIN, text=True, check=True)
    sizes = [args.batch_size, args.seq_len, 1 + args.warmup + args.repetitions, n_batches]
    return subprocess.run(
        [folder / "trainer", folder / "weights", args.data, *map(str, sizes)], stdout=subprocess.PIPE, text=True, check=True,
        timeout=args.timeout or None, env={**os.environ, "OMP_NUM_THREADS": str(args.threads)},
    ).stdout.splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", required=True, type=pathlib.Path, metavar="DIR", help="llm.c's folder")
    parser.add_argument("--cc", default="cc", help="C compiler (default cc)")
    peer_row.add_protocol_flags(parser)
    args = parser.parse_args()
    if (args.precision, args.device) != ("fp32", "cpu"):
        parser.error("llm.c's CPU trainer computes in fp32, on the cpu")
    args.threads = args.threads or len(os.sched_getaffinity(0))
    args.backend = "llm.c"
    with tempfile.TemporaryDirectory(prefix="stepmark-llmc-") as folder:
        try:
            row = llmc_lines.make_row(run(args, pathlib.Path(folder)), args)
        except (OSError, KeyError, ValueError, subprocess.SubprocessError) as error:
            row = peer_row.new_row("llm.c", args.batch_size, args.seq_len, precision="fp32")
            peer_row.fail(row, "timeout" if isinstance(error, subprocess.TimeoutExpired) else "error", error)
    row.update(
        model_arch="gpt2", cpu_info=peer_row.keyed_line("/proc/cpuinfo", "model name"), context=peer_row.context(),
        peak_rss_bytes=1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss,
    )
    peer_row.write(row)
    return 0 if row["status"] == "ok" else 1


if __name__ == "__main__":
    sys.exit(main())
