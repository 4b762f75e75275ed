"""stepmark from Python: each function runs the program and returns what it measured.

    import stepmark
    rows = stepmark.run(model="tiny", batch=[1, 2], seq_len=64, backend="cpu")
    print(rows[0]["median_ts"], "tokens/s")

An argument is the flag of the same name (`seq_len=64` is `--seq-len 64`): a list becomes its comma list, True a flag
without a value, None or False no flag. The program checks all of them, and measures; docs/python.md has examples.
"""

from ._program import ProgramError, Row, Rows, UsageError, find_program, load, version
from ._subcommands import advise, compare, compare_interleaved, devices, estimate, loop, profile, recommend, run

__all__ = ["ProgramError", "Row", "Rows", "UsageError", "advise", "compare", "compare_interleaved", "devices", "estimate",
           "find_program", "load", "loop", "profile", "recommend", "run", "version"]
