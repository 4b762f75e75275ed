#!/bin/sh
# test_wheel.sh WHEEL: installs the wheel in a fresh virtual environment, from the file alone, and uses both: the command and
# the module.
set -eu
wheel=$(realpath "$1")
tests=$(realpath "$(dirname "$0")/../tests/program/test_python.py")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-index --no-deps "$wheel"
cd "$folder"
[ "$(venv/bin/stepmark --version)" = "$(venv/bin/python -m stepmark --version)" ]
venv/bin/stepmark run -m tiny -b 1 --seq-len 16 -r 2 --no-peaks --backend cpu -o jsonl | grep -q '"status": "ok"'
venv/bin/python -c 'import stepmark; assert stepmark.find_program().startswith(stepmark.__path__[0]); print(stepmark.version())'
venv/bin/python "$tests" "$("$folder/venv/bin/python" -c 'import stepmark; print(stepmark.find_program())')"
echo "${wheel##*/}: installed and used in a fresh environment"
