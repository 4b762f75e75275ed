"""`stepmark` on a command line, or `python -m stepmark`: the program itself takes over."""

import os
import sys

from ._program import find_program


def main() -> None:
    program = find_program()
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
