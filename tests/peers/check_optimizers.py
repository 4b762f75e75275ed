"""Makes the goldens of the optimizers anew with the installed PyTorch, lion-pytorch and bitsandbytes, and compares."""

import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file

GOLDEN = pathlib.Path(__file__).parent.parent / "golden"
TOLERANCE = 1e-5  # largest difference of an array over its largest value


def main():
    committed = load_file(GOLDEN / "optimizers.safetensors")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, str(GOLDEN / "make_optimizers.py"), folder], check=True)
        made = load_file(pathlib.Path(folder) / "optimizers.safetensors")
    assert committed.keys() == made.keys(), committed.keys() ^ made.keys()
    worst = 0.0
    for name, want in committed.items():
        error = float(np.abs(made[name] - want).max() / np.abs(want).max())
        assert error <= TOLERANCE, f"{name}: today's packages make weights that differ by {error:.3g}"
        worst = max(worst, error)
    print(f"optimizers: {len(committed)} arrays as committed, largest difference {worst:.2g}")


main()
