"""Computes the goldens of the optimizers and of the loss scaler with the installed packages, and compares."""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file

GOLDEN = pathlib.Path(__file__).parent.parent / "golden"
TOLERANCE = 1e-5  # largest difference of an array over its largest value


def read_runs(folder, stem):
    return json.loads((folder / f"{stem}.json").read_text()).get("runs", [])


def check(stem):
    committed = load_file(GOLDEN / f"{stem}.safetensors")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, str(GOLDEN / f"make_{stem}.py"), folder], check=True)
        made = load_file(pathlib.Path(folder) / f"{stem}.safetensors")
        runs = read_runs(pathlib.Path(folder), stem)
    assert committed.keys() == made.keys(), committed.keys() ^ made.keys()
    worst = 0.0
    for name, want in committed.items():
        error = float(np.abs(made[name] - want).max() / np.abs(want).max())
        assert error <= TOLERANCE, f"{name}: today's packages make weights that differ by {error:.3g}"
        worst = max(worst, error)
    assert len(runs) == len(read_runs(GOLDEN, stem))
    for run, want in zip(runs, read_runs(GOLDEN, stem)):
        np.testing.assert_allclose(run["losses"], want["losses"], rtol=TOLERANCE, err_msg=f"{want['optimizer']}: today's packages train otherwise")
    print(f"{stem}: {len(committed)} arrays and {len(runs)} trainings as committed, largest difference {worst:.2g}")


check("optimizers")
check("scaler")
