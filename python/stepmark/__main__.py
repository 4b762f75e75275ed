"""`stepmark` on a command line, or `python -m stepmark`: the program itself takes over."""

import os
import signal
import subprocess
import sys

from ._program import find_program


def main() -> None:
    program = find_program()
    if os.name == "nt":  # a program cannot take over there: this process waits for it, which Ctrl-C ends
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.exit(subprocess.call([program, *sys.argv[1:]]))
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
