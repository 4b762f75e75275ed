#!/usr/bin/env python3
"""Tests of bench/peers: the statistics, the reader of llm.c's lines, what is refused, and the whole
in turns with peers that are made up. Needs only Python, and for some tests the program itself:

    STEPMARK_BINARY=build/release/stepmark python3 tests/peers/test_side_by_side.py
"""

import contextlib
import io
import json
import math
import os
import pathlib
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import textwrap
import types
import unittest

TREE = pathlib.Path(__file__).resolve().parent.parent.parent
PEERS = TREE / "bench" / "peers"
sys.path.insert(0, str(PEERS))
import llmc_lines  # noqa: E402
import llmc_step  # noqa: E402
import peer_row  # noqa: E402
import ratios  # noqa: E402
import side_by_side  # noqa: E402

BINARY = os.environ.get("STEPMARK_BINARY")
with_binary = unittest.skipUnless(BINARY, "STEPMARK_BINARY is not set")


def make_row(samples_ns, losses, **fields):
    row = peer_row.new_row("made up", 2, 8, status="ok", peak_rss_bytes=100, n_threads=2)
    row.update(n_warmup=1, samples_ns=samples_ns, losses=losses, side_by_side={}, **fields)
    return row


def make_rows(scale, losses, n_rounds=4, **fields):
    return [make_row([scale * (100 + i + r) for i in range(4)], losses, **fields) for r in range(n_rounds)]


LOSSES = [5.0, 4.9, 4.8, 4.7, 4.6, 4.5]


class Statistics(unittest.TestCase):
    @with_binary
    def test_a_row_of_ours_has_the_same_fields(self):
        flags = ["-m", "tiny", "-b", "2", "--seq-len", "8", "--backend", "cpu", "-r", "9", "-o", "jsonl"]
        command = [BINARY, "run", *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        ours = json.loads(done.stdout)
        self.assertEqual(ours["schema_version"], peer_row.SCHEMA_VERSION)
        lines = ["step 1/2 | loss 2.0 | 10.0 ms", "step 2/2 | loss 1.0 | 10.0 ms"]
        theirs = llmc_lines.make_row(lines, llmc_arguments(warmup=0))
        self.assertEqual(set(theirs) - set(ours), set())
        n_more = len(ours["losses"]) - (1 + ours["n_warmup"] + 9 + ours["n_attribution"])
        self.assertIn(n_more, (0, 1))  # the last check may need one more step


def llmc_arguments(**more):
    arguments = dict(
        batch_size=2, seq_len=8, warmup=1, threads=None, precision="fp32", backend="llm.c", device=None)
    return types.SimpleNamespace(**{**arguments, **more})


class LlmcLines(unittest.TestCase):
    def test_processor_lines(self):
        lines = """\
            max_seq_len: 64
            vocab_size: 101
            num_layers: 3
            channels: 48
            num_parameters: 12345
            val loss 7.5
            step 0: train loss 6.250000 (took 20.5 ms)
            step 1: train loss 6.125000 (took 11.0 ms)
            val loss 6.1
            step 2: train loss 6.000000 (took 10.0 ms)
            step 3: train loss 5.875000 (took 12.0 ms)
            """
        row = llmc_lines.make_row(textwrap.dedent(lines).splitlines(), llmc_arguments())
        self.assertEqual(row["status"], "ok")
        self.assertEqual(row["losses"], [6.25, 6.125, 6.0, 5.875])
        self.assertEqual((row["first_step_ns"], row["warmup_ns"]), (20_500_000, 11_000_000))
        self.assertEqual(row["samples_ns"], [10_000_000, 12_000_000])
        self.assertEqual(statistics.median(row["samples_ns"]), 11_000_000)
        facts = {name: row[name] for name in ("n_ctx", "vocab", "n_layer", "d_model", "d_ff", "model_n_params")}
        self.assertEqual(facts, dict(n_ctx=64, vocab=101, n_layer=3, d_model=48, d_ff=192, model_n_params=12345))

    def test_device_lines(self):
        lines = [
            "| micro batch size B    | 4             |",
            "| sequence length T     | 32            |",
            "| learning rate (LR)    | 3.0e-04       |",
            "step    1/3 | loss 6.5 (+nanz)| norm 2.0 (+nanz)| lr 3.00e-04 | 9.25 ms | 40.0% bf16 MFU | 100 tok/s",
            "step    2/3 | train loss 6.25 | norm 2.0 | lr 3.00e-04 | (4.25 ms | 100 tok/s)",
            "step    3/3 | loss 6.0 (+1.00z)| norm 2.0 (+1.00z)| lr 3.00e-04 | 4.5 ms | 40.0% bf16 MFU | 100 tok/s",
        ]
        row = llmc_lines.make_row(lines, llmc_arguments(batch_size=None, seq_len=None))
        self.assertEqual((row["n_batch"], row["n_seq"], row["test"]), (4, 32, "step b4s32"))
        self.assertEqual((row["losses"], row["samples_ns"]), ([6.5, 6.25, 6.0], [4_500_000]))

    def test_too_few_and_wrong(self):
        row = llmc_lines.make_row(["step 0: train loss 6.0 (took 1.0 ms)"], llmc_arguments())
        self.assertEqual(row["status"], "error")
        self.assertIn("1 lines of steps", row["reason"])
        lines = [f"step {i}: train loss {loss} (took 1.0 ms)" for i, loss in enumerate(("6.0", "nan", "nan", "5.0"))]
        row = llmc_lines.make_row(lines, llmc_arguments())
        self.assertEqual((row["status"], row["samples_ns"], row["losses"]), ("error", [], [6.0]))
        self.assertIn("step 2 is nan", row["reason"])
        with self.assertRaises(ValueError):
            llmc_lines.make_row([], llmc_arguments(batch_size=None))


# In place of llm.c's own source, which the tree does not hold: a loss that tells what the adapter gave it.
MADE_UP_TRAINER = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define NUM_PARAMETER_TENSORS 16
typedef struct {
    size_t param_sizes[16], num_parameters;
    float *params_memory, *grads_memory, *m_memory, *v_memory;
    float mean_loss;
} GPT2;
void gpt2_build_from_checkpoint(GPT2 *model, const char *path) {
    int model_header[256];
    FILE *file = fopen(path, "rb");
    if (fread(model_header, 4, 256, file) != 256 || model_header[1] != 1) { exit(1); }
    model->num_parameters = 16;
    for (int i = 0; i < 16; i++) { model->param_sizes[i] = 1; }
    model->params_memory = calloc(16, sizeof(float));
    model->grads_memory = model->params_memory;
}
void gpt2_forward(GPT2 *model, int *inputs, int *targets, int B, int T) {
    model->mean_loss = 1000 * inputs[0] + targets[B * T - 1];
    for (int i = 0; i < 16; i++) { model->mean_loss += model->params_memory[i]; }
}
void gpt2_zero_grad(GPT2 *model) {}
void gpt2_backward(GPT2 *model) {}
void gpt2_update(GPT2 *model, float rate, float beta1, float beta2, float eps, float decay, int t) {
    *model->params_memory += 100 * decay;
}
#ifndef TESTING
#error its main is not used
#endif
"""


class LlmcStep(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="stepmark-test-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "train_gpt2.c").write_text(MADE_UP_TRAINER, encoding="utf-8")
        (self.folder / "tokens").write_bytes(bytes(b for id in range(10) for b in (id, 1 if id == 9 else 0)))
        config = dict(n_positions=2, vocab_size=3, n_layer=1, n_head=1, n_embd=2)
        (self.folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        names = ["wte.weight", "wpe.weight", "ln_f.weight", "ln_f.bias"]
        names += [f"h.0.{stem}.{part}" for stem in llmc_step.BLOCK for part in ("weight", "bias")]
        entries, values = {}, []
        for i, name in enumerate(names):  # each tensor is numbered by itself
            n = 6 if name in ("wte.weight", "h.0.attn.c_attn.weight") else 2
            entries["transformer." + name] = dict(shape=[2, n // 2], data_offsets=[4 * len(values), 4 * (len(values) + n)])
            values += [100 * i + k for k in range(n)]
        header = json.dumps(entries).encode()
        tensors = struct.pack(f"<{len(values)}f", *values)
        (self.folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + tensors)

    def written(self, version):
        llmc_step.write_weights(self.folder, version, self.folder / "weights")
        data = (self.folder / "weights").read_bytes()
        return list(struct.unpack("<8i", data[:32])), list(struct.unpack(f"<{len(data) // 4 - 256}f", data[1024:]))

    def test_weights(self):
        header, values = self.written(1)
        self.assertEqual(header, [20240326, 1, 2, 3, 1, 1, 2, 3])
        self.assertEqual(values[:6], [0, 1, 2, 3, 4, 5])
        self.assertEqual(values[12:18], [600, 603, 601, 604, 602, 605])  # [in, out] was turned
        self.assertEqual(values[-4:], [200, 201, 300, 301])
        header, padded = self.written(3)
        self.assertEqual((header[1], header[7]), (3, 128))
        self.assertEqual(padded, values[:6] + 2 * (128 - 3) * [0] + values[6:])

    @unittest.skipUnless(shutil.which("cc"), "there is no C compiler")
    def test_row(self):
        flags = ["--source", self.folder, "--weights", self.folder, "--data", self.folder / "tokens"]
        flags += ["-b", "2", "--seq-len", "2", "-w", "1", "-r", "2"]
        command = [sys.executable, PEERS / "llmc_step.py", *flags]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=True)
        row = json.loads(done.stdout)
        self.assertEqual((row["backend_used"], row["status"], len(row["samples_ns"])), ("llm.c", "ok", 2))
        # Batches begin at tokens 0 and 4 in turn; each step adds the decay of six tensors: 1 each, 6 in all.
        self.assertEqual([round(loss, 3) for loss in row["losses"]], [4, 4014, 16, 4026])
        self.assertIn("step 1/4", done.stderr)
        (self.folder / "tokens").write_bytes(b"12345678")
        failed = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(failed.returncode, 1)
        self.assertIn("too few tokens for a batch of 2 x 2", json.loads(failed.stdout)["reason"])


class Ratios(unittest.TestCase):
    def test_turns(self):
        self.assertEqual("".join(name for order in ratios.turns("AB", 4) for name in order), "ABBAABBA")

    def test_interval(self):
        rng = random.Random(5)
        ours = [[rng.gauss(100, 2) for _ in range(5)] for _ in range(4)]
        theirs = [[rng.gauss(150, 3) for _ in range(5)] for _ in range(4)]
        lo, hi = ratios.ratio_interval(ours, theirs)
        self.assertTrue(1.4 < lo < 1.5 < hi < 1.6, (lo, hi))
        self.assertEqual((lo, hi), ratios.ratio_interval(ours, theirs))
        self.assertEqual(ratios.ratio_interval([[2, 2]] * 3, [[3, 3]] * 3), (1.5, 1.5))

    def test_interval_covers(self):
        """Of many made-up measurements, in which runs differ, most intervals hold the true ratio."""
        rng = random.Random(9)
        n_held = 0
        for _ in range(100):
            ours, theirs = [], []
            for _ in range(6):
                machine, a, b = rng.gauss(1, 0.05), rng.gauss(1, 0.02), rng.gauss(1, 0.02)
                ours.append([machine * a * rng.gauss(100, 1) for _ in range(5)])
                theirs.append([machine * b * rng.gauss(130, 1) for _ in range(5)])
            lo, hi = ratios.ratio_interval(ours, theirs, n_resamples=200)
            n_held += lo <= 1.3 <= hi
        self.assertGreaterEqual(n_held, 85)

    def test_comparison(self):
        theirs = make_rows(3, [loss * (1 + 1e-4) for loss in LOSSES], peak_rss_bytes=250)
        theirs[0]["peak_rss_bytes"] = 200
        ours = make_rows(2, LOSSES + [4.4])  # more steps than theirs are no matter
        c = ratios.compare(ours, theirs, 1e-3)
        self.assertIsNone(c["refused"])
        self.assertAlmostEqual(c["time_ratio"], 1.5)
        self.assertAlmostEqual(c["memory_ratio"], 2.5)
        self.assertAlmostEqual(c["loss_difference"], 1e-4, places=6)
        self.assertEqual(c["n_losses"], 6)
        self.assertEqual(len(c["time_ratio_of_rounds"]), 4)

    def test_refused(self):
        ours = make_rows(2, LOSSES)
        for name, losses in {
            "another loss": [*LOSSES[:3], 4.71, *LOSSES[4:]],
            "no number": [*LOSSES[:3], math.nan, *LOSSES[4:]],
            "too few": LOSSES[:4],
            "none": [],
        }.items():
            with self.subTest(name):
                c = ratios.compare(ours, [*make_rows(3, LOSSES, n_rounds=3), make_row([1, 2, 3, 4], losses)], 1e-3)
                self.assertEqual(list(c), ["refused"])
        self.assertIn("step 4", ratios.compare(ours, make_rows(3, [*LOSSES[:3], 5.7, *LOSSES[4:]]), 1e-3)["refused"])
        failed = make_rows(3, LOSSES)
        peer_row.fail(failed[1], "oom", "too large")
        self.assertEqual(ratios.compare(ours, failed, 1e-3)["refused"], "theirs: oom: too large")
        self.assertEqual(ratios.compare(ours, [], 1e-3)["refused"], "theirs: no row")


# A program that prints the row that its first argument says.
MADE_UP_PEER = """
import json, sys
flags = dict(zip(sys.argv[2::2], sys.argv[3::2]))
plan = json.loads(sys.argv[1])
n_steps = 1 + int(flags["-w"]) + int(flags["-r"])
if "exit" in plan:
    sys.exit(plan["exit"])
print("step 1/%d | loss" % n_steps, file=sys.stderr)
losses = json.load(open(plan["losses_of"]))[:n_steps]
losses = [loss * plan.get("loss_scale", 1) for loss in losses]
print(json.dumps({"status": "ok", "reason": None, "n_warmup": int(flags["-w"]), "n_threads": 2, "losses": losses,
                  "samples_ns": [10**8] * int(flags["-r"]), "median_ns": 10**8, "peak_rss_bytes": 10**9}))
"""


@with_binary
class InTurns(unittest.TestCase):
    """side_by_side.py with the real program and peers that only repeat its losses."""

    FLAGS = ["-m", "tiny", "--tests", "v300b2s16", "--rounds", "2", "-w", "1", "-r", "3", "--peers", ""]

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="stepmark-test-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "peer.py").write_text(MADE_UP_PEER, encoding="utf-8")

    def peer(self, name, **plan):
        plan = json.dumps({"losses_of": str(self.folder / "losses.json"), **plan})
        return ["--peer", f"{name}={sys.executable} {self.folder / 'peer.py'} '{plan}'"]

    def side_by_side(self, *flags):
        """(exit status, comparisons, rows)"""
        results = self.folder / "rows.jsonl"
        results.unlink(missing_ok=True)
        out = io.StringIO()
        before = sys.argv
        sys.argv = ["", "--stepmark", BINARY, "--results", str(results), "-o", "json", *self.FLAGS, *flags]
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                status = side_by_side.main()
        finally:
            sys.argv = before
        return status, json.loads(out.getvalue()), [json.loads(line) for line in results.read_text().splitlines()]

    def learn_losses(self):
        """What the program's losses are in these tests: its own rows tell."""
        (self.folder / "losses.json").write_text("[]", encoding="utf-8")
        _, _, rows = self.side_by_side(*self.peer("nothing"))
        (self.folder / "losses.json").write_text(json.dumps(rows[0]["losses"]), encoding="utf-8")

    def test_agreeing_and_failing_peers(self):
        self.learn_losses()
        status, comparisons, rows = self.side_by_side(
            *self.peer("same"), *self.peer("other", loss_scale=1.01), *self.peer("broken", exit=3))
        self.assertEqual(status, 1)  # two were refused
        same, other, broken = comparisons
        self.assertIsNone(same["refused"])
        self.assertEqual((same["theirs_median_ns"], same["n_losses"], same["n_rounds"]), (10**8, 5, 2))
        self.assertLess(same["loss_difference"], 1e-9)
        self.assertTrue(same["ours_start_s"]["first"] > 0 and same["theirs_start_s"]["later"] > 0)
        self.assertIn("the losses differ: step 1", other["refused"])
        self.assertIn("exit status 3", broken["refused"])
        order = [(row["side_by_side"]["round"], row["side_by_side"]["name"]) for row in rows]
        self.assertEqual(order, [
            (1, "stepmark"), (1, "same"), (1, "other"), (1, "broken"),
            (2, "other"), (2, "same"), (2, "stepmark"),  # what has failed does not run again
        ])

    def test_report(self):
        self.learn_losses()
        _, comparisons, _ = self.side_by_side(*self.peer("same"), *self.peer("other", loss_scale=1.01))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            side_by_side.print_table(comparisons)
        lines = out.getvalue().splitlines()
        self.assertEqual(len({len(line) for line in lines[:4]}), 1)  # aligned
        self.assertIn("refused: the losses differ", lines[3])
        self.assertIn("same, the fastest peer", out.getvalue())


class Arguments(unittest.TestCase):
    def test_tests(self):
        both = side_by_side.parse_tests("v50304b4s64,b2s8")
        self.assertEqual(both, [side_by_side.Test(50304, 4, 64), side_by_side.Test(None, 2, 8)])
        self.assertEqual(str(both[1]), "b2s8")
        for wrong in ("", "b4", "s64", "b0s64", "v50304", "b4s64x", "b-4s64", "b4s64,"):
            with self.assertRaises(side_by_side.argparse.ArgumentTypeError):
                side_by_side.parse_tests(wrong)


if __name__ == "__main__":
    unittest.main()
