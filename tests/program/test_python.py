#!/usr/bin/env python3
"""test_python.py [STEPMARK]: the Python module, with that program (build/release/stepmark) and with programs that fail."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPMARK = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build/release/stepmark").resolve()
sys.path.insert(0, str(ROOT / "python"))
os.environ["STEPMARK"] = str(STEPMARK)
import stepmark  # noqa: E402

WORK = {"seq_len": 8, "backend": "cpu", "repetitions": 2, "warmup": 0, "no_peaks": True, "threads": 1}


class Program(unittest.TestCase):
    """What the real program does, and the documents' own code."""

    def test_rows(self):
        said = []
        rows = stepmark.run("tiny", batch=[1, 2], progress=said.append, **WORK)
        self.assertEqual([row["n_batch"] for row in rows], [1, 2])
        self.assertEqual((len(rows.ok), len(rows.failed)), (2, 0))
        self.assertTrue(all(row["median_ns"] > 0 for row in rows))
        self.assertGreaterEqual(len(said), 2)

    def test_a_file_of_rows(self):
        rows = stepmark.run("tiny", batch=1, **WORK)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "rows.jsonl")
            rows.save(path)
            self.assertEqual(os.listdir(folder), ["rows.jsonl"])
            self.assertEqual(stepmark.load(path), rows)
            array = pathlib.Path(folder, "rows.json")
            array.write_text(json.dumps(rows))
            self.assertEqual(stepmark.load(array), rows)
            self.assertEqual(len(stepmark.compare(path, rows)), 1)
            path.write_text('{"data": "a\u2028b"}\n\n', encoding="utf-8-sig")
            self.assertEqual(stepmark.load(path), [{"data": "a\u2028b"}])
            path.write_text('{"stepmark_bundle": 1}\n{}\n')
            self.assertRaisesRegex(ValueError, "a bundle", stepmark.load, path)
            path.write_text('{"status": "ok"}\n{"sta\n')
            with self.assertRaisesRegex(ValueError, "rows.jsonl: line 2 is no JSON"):
                stepmark.load(path)

    def test_paths_are_no_flags(self):
        row = {"status": "ok", "median_ns": 5, "samples_ns": [5] * 9, "backend": "cpu", "device": "cpu"}
        names = ["a b.jsonl", "q'uote.jsonl", "--help", "--save-baseline=stolen", "-rf.jsonl"]
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, XDG_DATA_HOME=folder):
            os.chdir(folder)
            try:
                for name in names:
                    stepmark.Rows([row]).save(name)
                    self.assertEqual(stepmark.recommend(name), [])
                    self.assertEqual(len(stepmark.compare("a b.jsonl", name)), 1)
                self.assertEqual(sorted(os.listdir(folder)), sorted(names))
                with self.assertRaisesRegex(stepmark.UsageError, "^--model-size: no size '--output-file=x.json'"):
                    stepmark.run("--output-file=x.json")
            finally:
                os.chdir(before)

    def test_usage(self):
        with self.assertRaisesRegex(stepmark.UsageError, "^--model-size: no size 'huge'"):
            stepmark.run("huge")
        with self.assertRaisesRegex(ValueError, "^unknown flag --no-such-flag$") as raised:
            stepmark.run("tiny", no_such_flag=True)
        self.assertEqual(raised.exception.exit_code, 2)

    def test_documents(self):
        notebook = json.loads((ROOT / "docs/stepmark.ipynb").read_text())
        cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
        blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/python.md").read_text(), re.M | re.S)
        self.assertGreater(min(len(cells), len(blocks)), 2)
        for code in (cells, blocks):
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([sys.executable, "-c", "\n".join(code)], cwd=folder, capture_output=True, text=True,
                                      env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "MPLBACKEND": "agg"})
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_command(self):
        done = subprocess.run([sys.executable, "-m", "stepmark", "--version"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
        self.assertEqual(done.stdout.strip(), stepmark.version())


class Failures(unittest.TestCase):
    """Programs that end badly, after a row."""

    def with_program(self, script):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program = pathlib.Path(folder.name, "stepmark")
        program.write_text("#!/bin/sh\necho '{\"status\": \"ok\"}'\n" + script)
        program.chmod(0o755)
        os.environ["STEPMARK"] = str(program)
        self.addCleanup(os.environ.__setitem__, "STEPMARK", str(STEPMARK))

    def test_an_error_keeps_the_rows(self):
        self.with_program("echo 'stepmark: cpu: no memory' >&2; exit 1\n")
        with self.assertRaisesRegex(stepmark.ProgramError, "^cpu: no memory$") as raised:
            stepmark.run()
        self.assertEqual((raised.exception.exit_code, len(raised.exception.rows)), (1, 1))
        self.assertNotIsInstance(raised.exception, stepmark.UsageError)

    def test_silence(self):
        self.with_program("kill -9 $$\n")
        with self.assertRaisesRegex(stepmark.ProgramError, "exit code -9"):
            stepmark.run()

    def test_slower_is_a_result(self):
        self.with_program("exit 3\n")
        self.assertEqual(len(stepmark.compare("a", "b")), 1)

    def test_interrupted(self):
        self.with_program("exit 130\n")
        self.assertRaises(KeyboardInterrupt, stepmark.run)

    def test_an_interrupt_ends_the_program(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell runs this next to others
        self.addCleanup(signal.signal, signal.SIGINT, before)
        self.with_program('trap \'touch "$0.ended"; exit 130\' INT\necho one >&2\nwhile :; do sleep 0.05; done\n')

        def interrupt(_):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        self.assertRaises(KeyboardInterrupt, stepmark.run, progress=interrupt)
        self.assertTrue(pathlib.Path(os.environ["STEPMARK"] + ".ended").exists())

    def test_no_row(self):
        self.with_program("echo 'not a row'\n")
        with self.assertRaisesRegex(ValueError, "line 2 is no JSON"):
            stepmark.run()

    def test_no_program(self):
        os.environ["STEPMARK"] = "/nothing/there"
        self.addCleanup(os.environ.__setitem__, "STEPMARK", str(STEPMARK))
        self.assertRaisesRegex(FileNotFoundError, "/nothing/there", stepmark.run)

    def test_pandas(self):
        rows = stepmark.Rows([{"status": "ok", "sensors": {"steal_share": 0.5}}])
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.assertRaises(ImportError, rows.to_pandas)
        else:
            self.assertEqual(list(rows.to_pandas()), ["status", "sensors.steal_share"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
