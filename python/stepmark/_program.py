"""The program as a child process: its flags, its rows, its errors."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading
from typing import TYPE_CHECKING, Any, Callable, Iterable, Union

if TYPE_CHECKING:
    import pandas

Row = dict[str, Any]  # fields as `stepmark run --schema` describes them
Progress = Callable[[str], None]  # gets each line that the program says while it works
Path = Union[str, "os.PathLike[str]"]

SHORT_NAMES = {"model": "model_size", "batch": "batch_size"}  # of arguments whose flags have longer ones
GRACE_SECONDS = 10  # for the program to end after an interrupt
EXIT_SLOWER = 3  # of `compare`: a result
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
# Windows interrupts groups of processes: the program is one by itself.
GROUP = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
INTERRUPT = getattr(signal, "CTRL_BREAK_EVENT", signal.SIGINT)


class ProgramError(RuntimeError):
    """The program ended with an error, in this line. rows: what it measured before. exit_code: as its help lists it."""

    def __init__(self, message: str, exit_code: int, rows: "Rows") -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.rows = rows


class UsageError(ProgramError, ValueError):
    """A flag or a value that the program does not know."""


class Rows(list[Row]):
    """Rows in the order in which they were measured. Failed ones are among them: their `status` says why."""

    @property
    def ok(self) -> "Rows":
        """Those that were measured."""
        return Rows(row for row in self if row.get("status", "ok") == "ok")

    @property
    def failed(self) -> "Rows":
        """Those that could not be measured, with the reason in `status`."""
        return Rows(row for row in self if row.get("status", "ok") != "ok")

    def save(self, path: Path) -> None:
        """Write a file of a row a line, which every subcommand of the program reads. An older file is replaced whole."""
        target = pathlib.Path(path)
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with open(temporary, "w", encoding="utf-8") as out:
                out.writelines(json.dumps(row) + "\n" for row in self)
                out.flush()
                os.fsync(out.fileno())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)

    def to_pandas(self) -> "pandas.DataFrame":
        """A DataFrame with a column for each field; fields inside a field are named `sensors.steal_share`."""
        import pandas

        return pandas.json_normalize(list(self))


def find_program() -> str:
    """The program's path: $STEPMARK, the one inside this package, or the first on PATH."""
    named = os.environ.get("STEPMARK")
    inside = pathlib.Path(__file__).with_name("bin") / ("stepmark.exe" if os.name == "nt" else "stepmark")
    found = named or (str(inside) if inside.exists() else shutil.which("stepmark"))
    if not found or not os.access(found, os.X_OK):
        raise FileNotFoundError(f"{found or 'stepmark'}: not found, or not a program; name it in the variable STEPMARK")
    return found


def version() -> str:
    """What `stepmark --version` prints."""
    return subprocess.run([find_program(), "--version"], check=True, capture_output=True, text=True).stdout.strip()


def to_flags(arguments: dict[str, Any]) -> list[str]:
    """`{"batch": [1, 2], "no_peaks": True}` as `["--batch-size=1,2", "--no-peaks"]`."""
    flags = []
    for name, value in arguments.items():
        if value is None or value is False:
            continue
        flag = "--" + SHORT_NAMES.get(name, name).replace("_", "-")
        parts = value if isinstance(value, (list, tuple)) else [value]
        flags.append(flag if value is True else f"{flag}={','.join(str(part) for part in parts)}")
    return flags


def parse(lines: Iterable[str], source: str) -> Rows:
    rows = Rows()
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{source}: line {number} is no JSON: {error}") from None
        if not isinstance(row, dict):
            raise ValueError(f"{source}: line {number} is no JSON object")
        rows.append(row)
    return rows


def load(path: Path) -> Rows:
    """Rows of a file that `run` or `Rows.save` wrote: a row a line, or one JSON array (`-o json`)."""
    text = pathlib.Path(path).read_text(encoding="utf-8-sig")
    if text.startswith('{"stepmark_bundle"'):
        raise ValueError(f"{path}: a bundle; `stepmark report FILE -o jsonl` checks it, and writes its rows")
    if text.lstrip().startswith("["):
        try:
            return Rows(json.loads(text))
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}: no JSON: {error}") from None
    return parse((line for line in text.split("\n") if line.strip()), str(path))


def read_lines(stream: Any, progress: Progress | None, kept: list[str]) -> None:
    for line in stream:
        kept.append(line.rstrip("\n"))
        if progress is not None:
            progress(kept[-1])


def error_line(said: list[str], exit_code: int) -> str:
    """The line that tells what was wrong; usage errors end in one that names the help."""
    lines = [line for line in said if line.startswith("stepmark: ") and not line.startswith("stepmark: `")]
    return lines[-1].removeprefix("stepmark: ") if lines else f"the program ended with exit code {exit_code}"


def call(subcommand: str, words: Iterable[str], arguments: dict[str, Any], progress: Progress | None = None) -> Rows:
    """Run a subcommand to its end. Ctrl-C ends the program, too, before it is raised here."""
    command = [find_program(), subcommand, *to_flags(arguments), "-o", "jsonl", "--", *words]
    said: list[str] = []
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, encoding="utf-8", errors="replace", creationflags=GROUP) as process:
        listener = threading.Thread(target=read_lines, args=(process.stderr, progress, said), daemon=True)
        try:
            listener.start()
            rows = parse(process.stdout or (), f"stepmark {subcommand}")
            exit_code = process.wait()
        except BaseException:
            process.send_signal(INTERRUPT)
            try:
                process.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
        finally:
            if listener.is_alive():
                listener.join()
    if exit_code == EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    if exit_code not in (0, EXIT_SLOWER):
        kind = UsageError if exit_code == EXIT_USAGE else ProgramError
        raise kind(error_line(said, exit_code), exit_code, rows)
    return rows
