#!/usr/bin/env python3
"""course.py STEPMARK [--write]: runs every command and example of docs/course, and compares their output with
the lessons. In a block of `console`, lines that begin with "$ " are commands, the others their output; a line "..."
matches any lines. Blocks of `python` are doctest's. --write writes the output into the lessons.
"""
import doctest
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COURSE = ROOT / "docs" / "course"
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


def run(command, folder):
    return subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, check=False)


def fits(expected, printed):
    """Lines of text; "..." stands for any number of lines."""
    if not expected:
        return not printed
    if expected[0] == "...":
        return any(fits(expected[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and expected[0].rstrip() == printed[0].rstrip() and fits(expected[1:], printed[1:])


def check_console(text, folder, failures, where):
    """The block as it is now; what does not fit is added to the failures."""
    now = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *expected = part.rstrip("\n").split("\n")
        done = run(command, folder)
        printed = done.stdout.rstrip("\n").split("\n") if done.stdout.strip() else []
        if not fits(expected, printed) or (not expected and done.returncode != 0):
            failures.append(f"{where}: $ {command}\n{done.stdout}{done.stderr}")
            expected = printed
        now += ["$ " + command, *expected]
    return "\n".join(now) + "\n"


class Keeper(doctest.DocTestRunner):
    """Keeps what each example that fails printed."""

    def __init__(self):
        super().__init__(verbose=False, optionflags=doctest.ELLIPSIS)
        self.printed = {}

    def report_failure(self, out, test, example, got):
        self.printed[example.lineno] = got
        super().report_failure(out, test, example, got)


def check_python(text, names, failures, where):
    test = doctest.DocTestParser().get_doctest(text, names, where, where, 0)
    test.globs = names
    said = []
    keeper = Keeper()
    keeper.run(test, out=said.append, clear_globs=False)
    if not said:
        return text
    failures.append("".join(said))
    now = []
    for example in test.examples:
        now.append(">>> " + example.source.rstrip("\n").replace("\n", "\n... "))
        now += [line for line in keeper.printed.get(example.lineno, example.want).rstrip("\n").split("\n") if line]
    return "\n".join(now) + "\n"


def check_lesson(path, folder, failures, write):
    names = {"__name__": "lesson"}
    text = path.read_text(encoding="utf-8")
    n_blocks = 0

    def check(match):
        nonlocal n_blocks
        n_blocks += 1
        where = f"{path.name}, block {n_blocks}"
        kind, body = match.groups()
        now = (check_console(body, folder, failures, where) if kind == "console" else
               check_python(body, names, failures, where))
        return f"```{kind}\n{now}```\n"

    checked = BLOCK.sub(check, text)
    if write:
        path.write_text(checked, encoding="utf-8")
    return n_blocks


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    failures = []
    n_blocks = 0
    sys.path.insert(0, str(COURSE))
    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(ROOT / "docs", f"{folder}/docs")
        os.mkdir(f"{folder}/bin")
        os.symlink(program, f"{folder}/bin/stepmark")
        os.symlink(sys.executable, f"{folder}/bin/python3")
        os.environ["PATH"] = f"{folder}/bin:" + os.environ["PATH"]
        os.environ["STEPMARK"] = str(program)
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        for path in sorted(COURSE.glob("*.md")):
            text = path.read_text(encoding="utf-8")
            if path.stem[0].isdigit() and not ("```text" in text and "<details><summary>Answer" in text):
                failures.append(f"{path.name}: has no picture, or no question with a hidden answer\n")
            n_blocks += check_lesson(path, folder, failures, "--write" in sys.argv)
    print("".join(failures), end="")
    print(f"the course: {n_blocks} blocks of commands and examples, {len(failures)} not as the lessons say")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
