#!/usr/bin/env python3
"""Measures stepmark and other programs on the same work in turns, and prints how they compare.

    side_by_side.py --stepmark build/release/stepmark
    side_by_side.py --stepmark build/release/stepmark --tests v50304b4s64 --peers pytorch-eager,pytorch-compile

README.md next to this file says what makes it a comparison, and how to add a peer. Exit status 1 if one was refused.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import peer_row
import ratios

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
TEXT = ("README.md", "docs/*.md", "include/*.h", "src/*/*.[ch]", "src/*/*/*.[ch]", "bench/*/*.[ch]", "learn/*/*.[ch]", "cli/*/*.[ch]", "backends/*/*.[ch]")
MAX_BATCHES = 16  # `stepmark run` prepares as many, then goes through them again

OURS = "stepmark"
FIRST_STEP = re.compile(r"^\s*step\s+1/")
PYTORCH = [sys.executable, str(HERE / "pytorch_step.py"), "--mode"]
KNOWN_PEERS = {
    "pytorch-eager": [*PYTORCH, "eager"],
    "pytorch-compile": [*PYTORCH, "compile"],
    "pytorch-graphs": [*PYTORCH, "compile", "--compile-mode", "reduce-overhead"],  # CUDA graphs
}

# The format that a peer uses if it lacks one: results in tf32x3 and bf16x6 are as exact as in fp32.
PLAIN = {"tf32x3": "fp32", "bf16x6": "fp32"}

# Not handed on to what is measured: kernels of another processor, and what was compiled before.
UNSET = ("OPENBLAS_CORETYPE", "TORCHINDUCTOR_CACHE_DIR")


@dataclasses.dataclass(frozen=True)
class Test:
    """A piece of work: vocabulary (None: the model's own), batch, sequence length."""

    vocab: int | None
    B: int
    T: int

    def __str__(self):
        return f"{f'v{self.vocab}' if self.vocab else ''}b{self.B}s{self.T}"


def parse_tests(text):
    matches = [re.fullmatch(r"(?:v([1-9]\d*))?b([1-9]\d*)s([1-9]\d*)", test) for test in text.split(",")]
    if None in matches:
        raise argparse.ArgumentTypeError(f"{text}: not like v50304b4s64,b4s64")
    return [Test(*(int(number) if number else None for number in match.groups())) for match in matches]


def note(text):
    print(f"side by side: {text}", file=sys.stderr, flush=True)


# --- processes ----------------------------------------------------------------------------------


@dataclasses.dataclass
class Finished:
    """What a process left: its exit status (None: out of time), its lines, and nanoseconds from its start to the line
    that says that the first step has ended (None: no such line)."""

    status: int | None
    lines: list
    first_step_ns: int | None

    def last_line(self):
        return next((line.strip() for line in reversed(self.lines) if line.strip()), "it printed nothing")


def run_process(command, environment, timeout_s):
    """Runs a command to its end, in a session of its own so that what it started ends with it."""
    begin_ns = time.monotonic_ns()
    lines, first_step_ns = [], None
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", start_new_session=True,
    )
    is_late = threading.Event()
    watch = threading.Timer(timeout_s, lambda: (is_late.set(), end_group(process)))
    watch.start()
    try:
        for line in process.stdout:
            if first_step_ns is None and FIRST_STEP.match(line):
                first_step_ns = time.monotonic_ns() - begin_ns
            lines.append(line)
        process.wait()
    finally:
        watch.cancel()
        end_group(process)
    return Finished(None if is_late.is_set() else process.returncode, lines, first_step_ns)


def end_group(process):
    """Ends what is left of the process and its children."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run_or_fail(command, environment, timeout_s):
    done = run_process(command, environment, timeout_s)
    if done.status != 0:
        raise RuntimeError(f"{shlex.join(command)}: exit status {done.status}: {done.last_line()}")


# --- one run ------------------------------------------------------------------------------------


class Bench:
    """What all runs share: arguments, the folder of weights and tokens, the file of rows."""

    def __init__(self, args, folder):
        self.args = args
        self.folder = folder
        self.run_id = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.environment = {k: v for k, v in os.environ.items() if k not in UNSET}
        self.environment["TMPDIR"] = str(folder)  # so that a peer compiles again what it keeps there

    def weights(self, test):
        """The folder of a fresh model, the same for all."""
        folder = self.folder / f"model_{test.vocab or 'own'}"
        if not (folder / "config.json").exists():
            command = [self.args.stepmark, "train", "--init", "--arch", self.args.arch, "-m", self.args.model_size]
            command += ["--save", str(folder)]
            command += ["--vocab", str(test.vocab)] if test.vocab else []
            command += ["--context", str(self.args.context)] if self.args.context else []
            run_or_fail(command, self.environment, self.args.timeout)
        return folder

    def tokens(self, test):
        """Bytes of the tree's text as 16-bit ids. No longer than what `stepmark run` prepares, so
        that all begin again at the same step."""
        path = self.folder / f"tokens_b{test.B}s{test.T}.bin"
        if not path.exists():
            n_tokens = MAX_BATCHES * test.B * test.T + 1
            text = b"".join(f.read_bytes() for pattern in TEXT for f in sorted(TREE.glob(pattern)))
            while len(text) < n_tokens:
                text += text
            path.write_bytes(bytes(byte for id in text[:n_tokens] for byte in (id, 0)))
        return path

    def work_flags(self, test):
        flags = ["--weights", self.weights(test), "--data", self.tokens(test), "-b", test.B, "--seq-len", test.T]
        flags += ["-t", self.args.threads] if self.args.threads else []
        return [str(flag) for flag in flags]

    def sampling_flags(self):
        return ["-w", str(self.args.warmup), "-r", str(self.args.repetitions), "--timeout", str(self.args.timeout)]

    def commands(self, name, test, precision):
        """The command that prints a row, and the one that shows how long the first step takes to
        come (None: the same one does)."""
        work = self.work_flags(test)
        if name != OURS:
            theirs = ["--precision", PLAIN.get(precision, precision), "--device", self.args.device]
            return [*self.args.all_peers[name], *work, *theirs, *self.sampling_flags()], None
        backend = "cpu" if self.args.device == "cpu" else "nvidia"
        ours = ["--precision", precision, "--backend", backend, "--mode", "fused", *shlex.split(self.args.ours)]
        measure = [self.args.stepmark, "run", *work, *self.sampling_flags(), *ours, "-o", "jsonl"]
        # `run` measures the machine's peaks and checks the loss on its way; `train` does not.
        return measure, [self.args.stepmark, "train", *work, "--steps", "1", *ours]

    def measure(self, name, test, precision, round_number):
        """One run's row, whatever happens, written to the file of rows."""
        command, starter = self.commands(name, test, precision)
        started = run_process(starter, self.environment, self.args.timeout) if starter else None
        grace_s = 30  # a peer that keeps to --timeout itself has more to say in its row
        done = run_process(command, self.environment, self.args.timeout + grace_s)
        row = row_of(done, name, test, precision)
        row["side_by_side"] = {
            "run": self.run_id, "round": round_number, "name": name, "test": str(test), "command": shlex.join(command),
            "start_to_first_step_ns": (started or done).first_step_ns,
        }
        with open(self.args.results, "a", encoding="utf-8") as file:
            peer_row.write(row, file)
        return row


def row_of(done, name, test, precision):
    """The row that a process printed, or one that says how it ended without."""
    for line in done.lines:
        if line.startswith("{"):
            try:
                return {"losses": [], "samples_ns": [], "n_warmup": 0, **json.loads(line)}
            except ValueError:
                break
    row = peer_row.new_row(name, test.B, test.T, precision=precision)
    if done.status is None:
        peer_row.fail(row, "timeout", "did not end in time and was stopped")
    elif done.status == -signal.SIGKILL:
        peer_row.fail(row, "oom", "was killed: out of memory, as a rule")
    else:
        peer_row.fail(row, "error", f"exit status {done.status}: {done.last_line()}")
    return row


# --- all runs -----------------------------------------------------------------------------------


def measure_test(bench, test, precision):
    """Comparisons of every peer with ours on one test."""
    args = bench.args
    rows = {name: [] for name in (OURS, *args.peers)}
    for number, order in enumerate(ratios.turns(list(rows), args.rounds), start=1):
        for name in order:
            if any(row["status"] != "ok" for row in rows[OURS] + rows[name]):
                continue  # there is nothing to compare any more
            row = bench.measure(name, test, precision, number)
            samples = row["samples_ns"] if row["status"] == "ok" else []
            told = f"{statistics.median(samples) / 1e6:.1f} ms of {len(samples)} steps" if samples else f"{row['status']}: {row['reason']}"
            note(f"{test} {precision}, round {number} of {args.rounds}: {name}: {told}")
            rows[name].append(row)
    tolerance = args.loss_tolerance or ratios.LOSS_TOLERANCE[precision]
    return [
        {"test": str(test), "precision": precision, "peer": name, **ratios.compare(rows[OURS], rows[name], tolerance)}
        for name in args.peers
    ]


# --- the report ---------------------------------------------------------------------------------


def known(pattern, value):
    return "-" if value is None else pattern.format(value)


def seconds(start):
    return known("{:.1f} s", start["first"]) + ("" if start["later"] is None else f", {start['later']:.1f} s")


COLUMNS = {
    "ours ms": lambda c: f"{c['ours_median_ns'] / 1e6:.1f}",
    "theirs ms": lambda c: f"{c['theirs_median_ns'] / 1e6:.1f}",
    "time ratio": lambda c: f"{c['time_ratio']:.2f}",
    "95%": lambda c: "{:.2f}-{:.2f}".format(*c["time_ratio_ci95"]),
    "memory ratio": lambda c: known("{:.2f}", c["memory_ratio"]),
    "ours: start": lambda c: seconds(c["ours_start_s"]),
    "theirs: start": lambda c: seconds(c["theirs_start_s"]),
    "losses": lambda c: f"{c['n_losses']} steps within {c['loss_difference']:.0e}",
}


def table_line(c):
    cells = [text_of(c) for text_of in COLUMNS.values()] if not c["refused"] else ["-"] * 7 + [f"refused: {c['refused']}"]
    return [c["test"], c["precision"], c["peer"], *cells]


LEGEND = """
- ours, theirs: median time of a whole training step. Ratios are theirs over ours: above 1 ours is better.
- 95%: bootstrap interval of the time ratio over rounds and samples.
- memory ratio: of the largest resident memory while training; of the memory allocated on a card.
- start: from the start of the process to the end of its first step; the first run, then the median of later ones.
- losses: how many steps' losses agree, and how closely; without that there is no ratio."""


def print_table(comparisons):
    lines = [("test", "precision", "peer", *COLUMNS), *map(table_line, comparisons)]
    widths = [max(len(cell) for cell in column) for column in zip(*lines)]
    lines.insert(1, ["-" * width for width in widths])
    for line in lines:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |")
    print(LEGEND)
    for text in verdicts(comparisons):
        print(f"- {text}")


def verdicts(comparisons):
    """A sentence a test: ours against the fastest of the peers; and what else a reader must know."""
    texts = []
    for key in dict.fromkeys((c["test"], c["precision"]) for c in comparisons):
        valid = [c for c in comparisons if (c["test"], c["precision"]) == key and not c["refused"]]
        if not valid:
            continue
        best = min(valid, key=lambda c: c["theirs_median_ns"])
        lo, hi = best["time_ratio_ci95"]
        word = "faster than" if lo > 1 else "slower than" if hi < 1 else "not to be told from"
        texts.append(f"{' '.join(key)}: stepmark is {word} {best['peer']}, the fastest peer: {best['time_ratio']:.2f}x")
        texts += [f"{' '.join(key)}: energy a token: ours {1000 * c['ours_energy_per_token_j']:.2f} mJ, "
                  f"{c['peer']} {1000 * c['theirs_energy_per_token_j']:.2f} mJ"
                  for c in valid if c["ours_energy_per_token_j"] and c["theirs_energy_per_token_j"]]
        texts += [f"{' '.join(key)}: {c['peer']} ran {c['n_threads'][1]} threads, ours {c['n_threads'][0]}"
                  for c in valid if c["n_threads"][0] != c["n_threads"][1]]
    return texts


def warn_of_noise(args):
    load = os.getloadavg()[0]
    if load > 0.5:
        note(f"load is {load:.1f} before the first run: others use this machine, and times will vary")
    if args.rounds < 3:
        note("with fewer than 3 rounds the interval says little about how runs differ")


# --- arguments ----------------------------------------------------------------------------------


def name_and_command(text):
    name, equals, command = text.partition("=")
    if not name or not equals or not command:
        raise argparse.ArgumentTypeError(f"{text}: not like NAME=COMMAND")
    return name, shlex.split(command)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--stepmark", required=True, metavar="PATH", help="our program")
    add("--ours", default="", metavar="FLAGS", help="more flags for it, of both `run` and `train`; the last one counts")
    add("--peers", default="pytorch-eager", metavar="NAME[,NAME]", help=f"of {', '.join(KNOWN_PEERS)}, or --peer's")
    add("--peer", action="append", type=name_and_command, default=[], metavar="NAME=COMMAND", help="one more peer")
    add("--arch", default="gpt2", metavar="NAME", help="as `stepmark train --init` knows it (default gpt2)")
    add("-m", "--model-size", default="small", metavar="SIZE", help="as `stepmark train --init` knows it (default small)")
    add("--tests", type=parse_tests, default="v50304b4s64,v10000b4s128,v50304b4s256", metavar="LIST",
        help="vocabulary, batch, sequence length (default %(default)s)")
    add("--context", type=peer_row.positive, metavar="N", help="positions of the model, if not the size's")
    add("--precision", default="fp32", metavar="LIST", help=f"of {', '.join(ratios.LOSS_TOLERANCE)} (default fp32)")
    add("--device", default="cpu", metavar="NAME",
        help="of the peers: cpu, or cuda, where ours takes --backend nvidia (default cpu)")
    add("-t", "--threads", type=peer_row.positive, metavar="N", help="for all; not given: each one's own choice")
    add("--rounds", type=peer_row.positive, default=4, metavar="N", help="runs of each (default 4)")
    peer_row.add_sampling_flags(parser)
    parser.set_defaults(warmup=1, repetitions=4)
    add("--timeout", type=float, default=300, metavar="SECONDS", help="longest time for a run (default 300)")
    add("--loss-tolerance", type=float, metavar="X", help="relative (default 1e-3; bf16: 1e-2)")
    add("--results", default="peers.jsonl", metavar="FILE", help="rows are appended to it (default peers.jsonl)")
    add("-o", "--output", default="md", choices=("md", "json"), help="the report (default md)")
    args = parser.parse_args()
    args.precision = args.precision.split(",")
    args.all_peers = {**KNOWN_PEERS, **dict(args.peer)}
    args.peers = list(dict.fromkeys([*filter(None, args.peers.split(",")), *dict(args.peer)]))
    for name in args.peers:
        if name not in args.all_peers:
            parser.error(f"--peers: {name}: not one of {', '.join(args.all_peers)}")
    for precision in args.precision:
        if precision not in ratios.LOSS_TOLERANCE:
            parser.error(f"--precision: {precision}: not one of {', '.join(ratios.LOSS_TOLERANCE)}")
    args.stepmark = str(pathlib.Path(args.stepmark).resolve())
    if not os.access(args.stepmark, os.X_OK):
        parser.error(f"--stepmark: {args.stepmark}: no such program; run `make build`")
    return args


def main():
    args = parse_arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    warn_of_noise(args)
    with tempfile.TemporaryDirectory(prefix="stepmark-side-by-side-") as folder:
        try:
            bench = Bench(args, pathlib.Path(folder))
            comparisons = [c for test in args.tests for precision in args.precision for c in measure_test(bench, test, precision)]
        except (OSError, RuntimeError) as error:
            note(str(error))
            return 1
        except KeyboardInterrupt:
            note(f"interrupted; the rows so far are in {args.results}")
            return 130
    if args.output == "json":
        print(json.dumps(comparisons, indent=2))
    else:
        print_table(comparisons)
    note(f"every row: {args.results}")
    return 1 if any(c["refused"] for c in comparisons) else 0


if __name__ == "__main__":
    sys.exit(main())
