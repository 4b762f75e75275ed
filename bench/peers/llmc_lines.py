#!/usr/bin/env python3
"""Makes a row like stepmark's of what llm.c's trainers print.

    ./train_gpt2 | llmc_lines.py -b 4 --seq-len 64
    llmc_lines.py log.txt --precision bf16

A line of a step has its number, a loss and a time in ms, in the CPU, the CUDA and the Python trainer; the table of the
model above them fills the configuration. All that is unknown stays null.
"""

import argparse
import re
import sys

import peer_row

STEP = re.compile(r"^\s*step\s+\d+(?:/\d+)?\b.*?\bloss\s+(?P<loss>[-+.\w]+).*?(?P<ms>\d+(?:\.\d+)?)\s*ms\b")
FACT = re.compile(r"^[|\s]*(?P<name>[a-z_ ]+?)(?:\s+[A-Za-z]{1,2})?\s*[:|]\s*(?P<value>\d+)\b")

# llm.c's name of a fact, and ours.
FACTS = {
    "max_seq_len": "n_ctx",
    "max_sequence_length": "n_ctx",
    "vocab_size": "vocab",
    "num_layers": "n_layer",
    "num_heads": "n_head",
    "channels": "d_model",
    "num_parameters": "model_n_params",
    "micro batch size": "n_batch",
    "sequence length": "n_seq",
}


def read_lines(lines):
    """(facts by our names, [(loss, elapsed_ns) of every step])"""
    facts, steps = {}, []
    for line in lines:
        step, fact = STEP.match(line), FACT.match(line)
        if step:
            steps.append((float(step["loss"]), round(float(step["ms"]) * 1e6)))
        elif fact and fact["name"].strip() in FACTS:
            facts[FACTS[fact["name"].strip()]] = int(fact["value"])
    return facts, steps


def make_row(lines, args):
    facts, steps = read_lines(lines)
    B = args.batch_size or facts.get("n_batch")
    T = args.seq_len or facts.get("n_seq")
    if not B or not T:
        raise ValueError("the lines do not tell batch and sequence length; give -b and --seq-len")
    row = peer_row.new_row(args.backend, B, T, precision=args.precision, n_threads=args.threads)
    row.update(device=args.device, cpu_info=None)  # the lines may be of any machine
    row.update((name, value) for name, value in facts.items() if name not in ("n_batch", "n_seq"))
    if "d_model" in facts:
        row["d_ff"] = 4 * facts["d_model"]
    for loss, elapsed_ns in steps:
        peer_row.add_step(row, elapsed_ns, loss, args.warmup)
    if row["samples_ns"]:
        row.update(status="ok", stop_reason="repetitions")
    else:
        needed = args.warmup + 2
        peer_row.fail(row, "error", f"{len(steps)} lines of steps; a row takes {needed}: first, warm-up, a sample")
    peer_row.finish(row)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=argparse.FileType("r"), default=sys.stdin, help="default: stdin")
    parser.add_argument("-b", "--batch-size", type=peer_row.positive, metavar="B", help="if the lines do not tell")
    parser.add_argument("--seq-len", type=peer_row.positive, metavar="T", help="if the lines do not tell")
    parser.add_argument("-w", "--warmup", type=peer_row.natural, default=2, metavar="N", help="steps left out")
    parser.add_argument("-t", "--threads", type=peer_row.positive, metavar="N", help="that the trainer ran with")
    parser.add_argument("--precision", default="fp32", help="that the trainer ran with (default fp32)")
    parser.add_argument("--device", help="that the trainer ran on")
    parser.add_argument("--backend", default="llm.c", help="name in the row (default llm.c)")
    args = parser.parse_args()
    try:
        row = make_row(args.file, args)
    except ValueError as error:
        parser.error(str(error))
    peer_row.write(row)
    return 0 if row["status"] == "ok" else 1


if __name__ == "__main__":
    sys.exit(main())
