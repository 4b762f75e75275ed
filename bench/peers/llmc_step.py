#!/usr/bin/env python3
"""Measures the training step of llm.c's CPU trainer, and prints a row like stepmark's.

    llmc_step.py --source ~/llm.c --weights MODEL --data TOKENS.bin -b 1 --seq-len 1024

Needs a folder with its train_gpt2.c, and a C compiler. What is compiled is that file as it is, with its own flags, and
the loop below in place of its main: the weights, batches and settings of the other peers. Its file of weights, of
either version, is made from MODEL.
"""

import argparse
import array
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

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
    FILE *file = fopen(argv[2], "rb");
    fseek(file, 0, SEEK_END);
    const long n_ids = ftell(file) / 2, n_batches = (n_ids - 1) / (B * T);
    uint16_t *ids = malloc(2 * n_ids);
    int *tokens = malloc(n_ids * sizeof(int));
    rewind(file);
    if (fread(ids, 2, n_ids, file) != (size_t)n_ids || n_batches < 1) {
        printf("too few tokens for a batch\n");
        return 1;
    }
    for (long i = 0; i < n_ids; i++) {
        tokens[i] = ids[i];
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
        fflush(stdout);
    }
    return 0;
}
"""
FLAGS = ["-Ofast", "-march=native", "-fopenmp", "-DOMP", "-w"]

MAGIC = 20240326
PADDED = 128  # the vocabulary of version 3 is a multiple

# In its order; of a block, of all blocks one after another. Matrices of blocks are [in, out] in MODEL, [out, in] there.
BLOCK = ("ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj")


class Model:
    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.file = open(folder / "model.safetensors", "rb")
        size = int.from_bytes(self.file.read(8), "little")
        self.entries = json.loads(self.file.read(size))
        self.begin = 8 + size

    def read(self, name):
        entry = self.entries.get("transformer." + name) or self.entries[name]
        if entry["dtype"] != "F32":
            raise ValueError(f"{name} is {entry['dtype']}; this adapter takes F32")
        first, end = entry["data_offsets"]
        self.file.seek(self.begin + first)
        values = array.array("f", self.file.read(end - first))
        if name.endswith(".weight") and ".c_" in name:
            n_out = entry["shape"][1]
            turned = array.array("f")
            for column in range(n_out):
                turned.extend(values[column::n_out])
            values = turned
        return values

    def names(self):
        yield from ("wte.weight", "wpe.weight")
        for stem in BLOCK:
            for part in ("weight", "bias"):
                yield from (f"h.{layer}.{stem}.{part}" for layer in range(self.config["n_layer"]))
        yield from ("ln_f.weight", "ln_f.bias")


def write_weights(model, version, path):
    c = model.config
    n_padded = -(-c["vocab_size"] // PADDED) * PADDED if version == 3 else 0
    header = [MAGIC, version, c["n_positions"], c["vocab_size"], c["n_layer"], c["n_head"], c["n_embd"], n_padded]
    with open(path, "wb") as file:
        array.array("i", header + [0] * (256 - len(header))).tofile(file)
        for name in model.names():
            model.read(name).tofile(file)
            if name == "wte.weight" and version == 3:
                file.write(bytes(4 * (n_padded - c["vocab_size"]) * c["n_embd"]))


def build(args, folder):
    """Its program, and the file of weights that it reads."""
    source = (args.source / "train_gpt2.c").read_text(encoding="utf-8")
    version = re.search(r"model_header\[1\] != ([13])\b", source)
    if version is None:
        raise ValueError(f"{args.source}/train_gpt2.c reads other files of weights than versions 1 and 3")
    write_weights(Model(pathlib.Path(args.weights)), int(version[1]), folder / "weights")
    command = [args.cc, *FLAGS, f"-I{args.source}", "-xc", "-", "-o", str(folder / "trainer"), "-lm"]
    subprocess.run(command, input=MAIN, text=True, check=True)


def run(args, folder):
    """What it prints; ends it where the time is up."""
    n_steps = 1 + args.warmup + args.repetitions
    command = [folder / "trainer", folder / "weights", args.data, args.batch_size, args.seq_len, n_steps]
    deadline = time.monotonic() + args.timeout if args.timeout else float("inf")
    lines = []
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": str(args.threads)}) as trainer:
        for line in trainer.stdout:
            lines.append(line)
            print(line.rstrip(), file=sys.stderr, flush=True)
            if time.monotonic() > deadline:
                trainer.kill()
                raise TimeoutError(f"the limit of {args.timeout:g} s ran out after: {line.strip()}")
    if trainer.returncode != 0:
        raise ValueError(f"it ended with {trainer.returncode}: {lines[-1].strip() if lines else 'no output'}")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", required=True, type=pathlib.Path, metavar="DIR", help="llm.c's folder")
    parser.add_argument("--cc", default="cc", help="C compiler (default cc)")
    peer_row.add_protocol_flags(parser)
    args = parser.parse_args()
    if (args.precision, args.device) != ("fp32", "cpu"):
        parser.error("llm.c's CPU trainer has fp32 alone")
    args.threads = args.threads or len(os.sched_getaffinity(0))
    args.backend, args.device = "llm.c", None
    with tempfile.TemporaryDirectory(prefix="stepmark-llmc-") as folder:
        try:
            build(args, pathlib.Path(folder))
            row = llmc_lines.make_row(run(args, pathlib.Path(folder)), args)
        except (OSError, KeyError, ValueError, subprocess.CalledProcessError) as error:
            row = peer_row.new_row("llm.c", args.batch_size, args.seq_len, precision="fp32")
            peer_row.fail(row, "timeout" if isinstance(error, TimeoutError) else "error", error)
    head = dict(device="cpu", cpu_info=peer_row.keyed_line("/proc/cpuinfo", "model name"))
    row.update(model_arch="gpt2", context=peer_row.context(), peak_rss_bytes=1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, **head)
    peer_row.write(row)
    return 0 if row["status"] == "ok" else 1


if __name__ == "__main__":
    sys.exit(main())
