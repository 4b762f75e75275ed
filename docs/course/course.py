"""What the lessons' examples read: a walked step, and its numbers.

    >>> from course import walk, read, np        # in docs/course, with stepmark built, on the PATH, or in STEPMARK
    >>> step = walk("--seq-len", "4")
    >>> read(step, 7, "att").shape
    (1, 2, 4, 4)
"""
import functools
import json
import os
import shutil
import subprocess

import numpy as np

np.set_printoptions(precision=4, suppress=True, linewidth=110)


@functools.lru_cache(maxsize=None)
def walk(*flags):
    """`stepmark walk --full -o json` with these flags."""
    built = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/release/stepmark")
    program = shutil.which(os.environ.get("STEPMARK", "stepmark")) or shutil.which(built)
    if program is None:
        raise SystemExit("stepmark is not there: build it (make build), or set STEPMARK to its path")
    return Step(json.loads(subprocess.check_output([program, "walk", "--full", "-o", "json", *flags])))


class Step(dict):
    """The JSON object; prints as one line."""

    def __repr__(self):
        return f"a step of {self['n_ops']} ops"


def read(step, op, operand, before=False):
    """An operand of op number `op`, as an array: what is read, as it was; what is written, as it is then."""
    for o in step["ops"][op]["operands"]:
        if o["operand"] == operand:
            values = o["before"]["values"] if before else o["values"]
            return np.array(values).reshape(o["dims"])
    raise KeyError(operand)


def find(step, kind, layer=None):
    """Numbers of the ops of a kind, in their order."""
    return [o["index"] for o in step["ops"] if o["kind"] == kind and layer in (None, o["layer"])]
