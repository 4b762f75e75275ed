"""A function for each subcommand that measures or compares; any other flag of the subcommand is a further argument."""

from __future__ import annotations

import contextlib
import pathlib
import shlex
import tempfile
from typing import Any, Iterator, Sequence, Union

from ._program import Path, Progress, Rows, call, to_flags

Names = Union[str, Sequence[str], None]
Numbers = Union[int, Sequence[int], None]


def run(model: Names = None, *, batch: Numbers = None, seq_len: Numbers = None, backend: Names = None,
        precision: Names = None, mode: Names = None, threads: Numbers = None, progress: Progress | None = None,
        **flags: Any) -> Rows:
    """Measure the training step: a row for each combination, measured in a process of its own. Defaults are those of `stepmark run`.

    batch: B, sequences. seq_len: T, tokens a sequence. Times in rows are in ns; `median_ts` is in tokens/s.
    """
    return call("run", (), dict(model=model, batch=batch, seq_len=seq_len, backend=backend, precision=precision, mode=mode,
                                threads=threads, **flags), progress)


def loop(model: Names = None, *, progress: Progress | None = None, **flags: Any) -> Rows:
    """Measure the training loop, from file to weights, phase by phase."""
    return call("loop", (), dict(model=model, **flags), progress)


def profile(model: Names = None, *, progress: Progress | None = None, **flags: Any) -> Rows:
    """Times of every operation of a step, each with its share of the device's ceiling."""
    return call("profile", (), dict(model=model, **flags), progress)


def advise(model: Names = None, *, progress: Progress | None = None, **flags: Any) -> Rows:
    """Find the fastest configuration that fits in memory, by measuring a few of many."""
    return call("advise", (), dict(model=model, **flags), progress)


def estimate(model: Names = None, **flags: Any) -> Rows:
    """Parameters, FLOPs and memory, without running anything."""
    return call("estimate", (), dict(model=model, **flags))


def devices(**flags: Any) -> Rows:
    """The devices that can run here, and those that cannot, with the reason."""
    return call("devices", (), flags)


@contextlib.contextmanager
def _files(*sources: Union[Rows, Path]) -> Iterator[list[str]]:
    """A path for each source; rows are written to a folder that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="stepmark-") as folder:
        paths = []
        for n, source in enumerate(sources):
            if isinstance(source, list):
                path = pathlib.Path(folder, f"{n}.jsonl")
                Rows(source).save(path)
                paths.append(str(path))
            else:
                paths.append(str(source))
        yield paths


def compare(a: Union[Rows, Path], b: Union[Rows, Path], **flags: Any) -> Rows:
    """Was b faster or slower than a? A record for each pair of rows; `verdict` says it.

    threshold: smallest change that counts, in percent. across: the properties that may differ.
    """
    with _files(a, b) as paths:
        return call("compare", paths, flags)


def compare_interleaved(a: dict[str, Any], b: dict[str, Any], *, progress: Progress | None = None, **flags: Any) -> Rows:
    """Run two configurations in turn, each the arguments of run(), and compare them: the fairest way.

    pairs: runs of each.
    """
    lines = [shlex.join(["run", *to_flags(configuration)]) for configuration in (a, b)]
    return call("compare", lines, dict(interleaved=True, **flags), progress)


def recommend(*sources: Union[Rows, Path], **flags: Any) -> Rows:
    """The fastest and the steadiest of measured rows, and what to try next."""
    with _files(*sources) as paths:
        return call("report", paths, dict(best=True, **flags))
